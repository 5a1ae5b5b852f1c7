"""Benchmarks of the recorder [interfaces, Benchmarks]."""
