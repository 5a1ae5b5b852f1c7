"""Composition root: settings, urls and the `veen` command; imports everything [architecture]."""
