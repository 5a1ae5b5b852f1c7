"""Batch work on Spark: ingest, seal, audit and queries, without Django [architecture, Floors]."""
