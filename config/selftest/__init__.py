"""Self-tests that need the whole bundle: they ship, and nothing of yours is touched [ADR 0006]."""
