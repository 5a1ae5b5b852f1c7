"""The command line of the bundle's hub: what the settings say reaches it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import click

from config.settings_file import load
from config.up_hub import hub_command
from config.up_secrets import complete_first_run, realm_keys
from config.up_state import StateDir, make_directories
from hub.cli.hub import start

CHANGED = {
    "checkpoint_interval_s": ("--checkpoint-interval", "7"),
    "checkpoint_messages": ("--checkpoint-messages", "8"),
    "segment_bytes": ("--segment-bytes", str(1 << 21)),
    "queue_max": ("--queue-max", "99"),
    "profiles": ("--profile", "3600:256"),
    "workers": ("--workers", "3"),
    "heads_file": ("--heads-file", "/elsewhere/heads"),
    "routing_key_file": ("--routing-key-file", "/elsewhere/routing.key"),
}


def test_every_setting_of_the_hub_is_passed_on_and_understood(tmp_path: Path) -> None:
    state = StateDir.at(tmp_path)
    make_directories(state)
    complete_first_run(state)
    environ = {f"VEEN_{name.upper()}": value for name, (_, value) in CHANGED.items()}
    environ |= {"VEEN_OPEN_READS": "1", "VEEN_OPEN_ADMISSION": "1", "VEEN_LOG_SUBMITS": "0"}
    command = hub_command(load(environ=environ), state, realm_keys(state), 8421)
    pairs = list(pairwise(command))
    assert [pair for pair in CHANGED.values() if pair not in pairs] == []
    assert {"--open-reads", "--open-admission", "--no-submit-log"} <= set(command)
    start.make_parser(click.Context(start)).parse_args(command[command.index("start") + 1 :])
