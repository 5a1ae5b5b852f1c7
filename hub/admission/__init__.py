"""Admission: every rule that can refuse a MSG, pure and in spec order [SSOT 8.1]."""
