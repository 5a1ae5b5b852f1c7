"""Migrations of the recorder's tables; forward only [architecture]."""
