"""The data directory: append-only truth and the indexes derived from it [SSOT 3.4.1, 12]."""
