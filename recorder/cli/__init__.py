"""The recorder's part of the `veen` command."""
