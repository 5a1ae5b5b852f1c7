"""Acceptance tests that ship with the product: the story, the invariants, the laws, the fuzzer."""
