"""`veen recorder seal`: live segments of the lake are sealed and recorded [architecture, The lake].

Loaded by `veen recorder`; imports no framework, so it starts at once.
"""

from __future__ import annotations

import click

from hub.cli.output import emit, examples
from recorder.cli import lake_job
from recorder.cli.desk import Desk, desk_options


@click.command(
    epilog=examples(
        "veen recorder seal",
        "veen recorder seal record/app/shop record/security/iam --json",
    )
)
@click.argument("streams", nargs=-1, metavar="[STREAM]...")
@desk_options
def seal(*, streams: tuple[str, ...], as_json: bool, desk: Desk) -> None:
    """Take what is new into the lake and seal all that is live, of all streams or those named."""
    job = lake_job.run(desk, "lake.seal", {"streams": list(streams)})
    sealed: dict[str, list[str]] = job["result"]["sealed"]
    lines = [f"{name}  {segment}" for name, names in sealed.items() for segment in names]
    document = {"job_id": job["job_id"], "sealed": sealed}
    emit(document, as_json=as_json, lines=lines or ["nothing was live"])
