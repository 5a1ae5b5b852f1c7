"""Adapters: other loggers' lines become events, each with its origin; off by default [SDR0]."""
