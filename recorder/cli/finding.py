"""`veen recorder finding`: what must not be, and who has taken it over [architecture]."""

from __future__ import annotations

import click

from hub.cli.output import emit, examples
from recorder.cli.desk import Desk, desk_options


@click.group(
    epilog=examples(
        "veen recorder finding list",
        "veen recorder finding acknowledge 3 --reason 'the drill of 09:00'",
    )
)
def finding() -> None:
    """Findings: list them, acknowledge one with a reason."""


@finding.command(
    "list",
    epilog=examples("veen recorder finding list", "veen recorder finding list --all --json"),
)
@click.option("--all", "everything", is_flag=True, help="Also those that were acknowledged.")
@desk_options
def list_findings(*, everything: bool, as_json: bool, desk: Desk) -> None:
    """List findings, the newest first."""
    rows = [one for one in desk.rows("findings") if everything or not one["acknowledged_by"]]
    lines = [
        f"{one['finding_id']}  {one['severity']}  {one['code']}  {one['object']}: {one['detail']}"
        + (f"  acknowledged by {one['acknowledged_by']}" if one["acknowledged_by"] else "")
        for one in rows
    ]
    emit({"findings": rows}, as_json=as_json, lines=lines or ["no findings"])


@finding.command(
    epilog=examples(
        "veen recorder finding acknowledge 3 --reason 'the drill of 09:00'",
        "veen recorder finding acknowledge 3 --reason 'a new disk' --json",
    )
)
@click.argument("finding_id", type=click.IntRange(1))
@desk_options
def acknowledge(*, finding_id: int, as_json: bool, desk: Desk) -> None:
    """Take a finding over; it stays, with your name and reason."""
    emit(desk.ask("finding.acknowledge", {"finding_id": finding_id}), as_json=as_json)
