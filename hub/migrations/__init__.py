"""Migrations of the index tables; forward only [architecture]."""
