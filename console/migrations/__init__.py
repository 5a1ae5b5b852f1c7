"""Migrations of the console tables; forward only [architecture]."""
