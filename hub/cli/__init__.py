"""The hub's part of the `veen` command; config.cli assembles it [interfaces, Command]."""
