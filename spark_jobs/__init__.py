"""Batch work on Spark; no Django, no Celery [architecture, Floors]."""
