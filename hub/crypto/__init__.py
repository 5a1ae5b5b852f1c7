"""Primitives of the one cryptographic profile [SSOT 3.2]."""
