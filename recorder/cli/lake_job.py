"""A job of the lake as commands follow it: asked for as an act, watched until it is over [SDR0]."""

from __future__ import annotations

import time
from typing import Any, Final

from hub.cli.output import note, progress, progress_end
from hub.errors import ErrorCode, VeenError
from recorder.cli.desk import Desk

LOOK_S: Final = 0.3


def run(desk: Desk, verb: str, args: dict[str, Any]) -> dict[str, Any]:
    """Ask, follow, and give the finished job; Ctrl-C stops the job too."""
    job_id = str(desk.ask(verb, args)["job_id"])
    client = desk.client()
    deadline = time.monotonic() + desk.timeout_s
    try:
        while True:
            job: dict[str, Any] = client.get(f"/api/admin/lake-jobs/{job_id}")
            if job["state"] not in {"pending", "running"}:
                return _finished(job)
            if time.monotonic() >= deadline:
                raise TimeoutError(f"the job {job_id} is not over yet; it goes on")
            progress(_shown(job))
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        client.post(f"/api/admin/lake-jobs/{job_id}/cancel", {})
        note(f"job {job_id} was cancelled")
        raise
    finally:
        progress_end()


def _shown(job: dict[str, Any]) -> str:
    found = job["progress"]
    if job["state"] == "pending" or not found:
        return f"{job['kind']}: waiting for the worker"
    share = found["done"] / max(1, found["total"])
    bar = ("#" * int(share * 20)).ljust(20, "-")
    return f"{job['kind']} [{bar}] {found['done']}/{found['total']}  {found['stream']}"


def _finished(job: dict[str, Any]) -> dict[str, Any]:
    if job["state"] == "done":
        return job
    if job["state"] == "cancelled":
        raise VeenError(ErrorCode.BUSY, f"the job {job['job_id']} was cancelled")
    raise VeenError(ErrorCode.INTERNAL, str(job["error"]))
