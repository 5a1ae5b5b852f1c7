"""Backups of a bundle: made at a checkpoint, signed, verified, restored as a fork [wire, Guard]."""
