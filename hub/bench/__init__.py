"""Benchmarks of the hub: ratios measured in one run, against what the crypto alone costs."""
