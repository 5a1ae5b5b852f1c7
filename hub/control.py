"""Asking a running hub to act, over the socket in its data directory [interfaces, Control].

One JSON object per line each way: a request {"verb": ...}; then any number of {"progress": ...};
then {"ok": true, ...} or {"ok": false, "code", "detail"}. Bytes are lower-case hex.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hub.errors import ErrorCode, TimedOutError, VeenError

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
SOCKET_NAME: Final = "control.sock"


def call(
    data_dir: Path,
    verb: str,
    *,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    timeout_s: float = 60,
    **arguments: object,
) -> dict[str, Any]:
    """Ask for one act and wait for its answer; refusals raise with the hub's own code."""
    request = json.dumps({"verb": verb, **arguments}).encode() + b"\n"
    with _connect(data_dir, timeout_s) as link, link.makefile("rb") as stream:
        try:
            link.sendall(request)
            while line := stream.readline(LINE_BYTES_MAX):
                answer: dict[str, Any] = json.loads(line)
                if "progress" in answer:
                    if on_progress is not None:
                        on_progress(answer["progress"])
                    continue
                if answer.pop("ok"):
                    return answer
                raise VeenError(ErrorCode(answer["code"]), answer.get("detail", ""))
        except TimeoutError as late:
            raise TimedOutError(f"no answer within {timeout_s} s") from late
    raise VeenError(ErrorCode.UNREACHABLE, "the hub hung up without an answer")


def _connect(data_dir: Path, timeout_s: float) -> socket.socket:
    """Socket paths are short by law of the kernel, so a long one is reached by its directory."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(timeout_s)
    folder = -1
    try:
        folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
        link.connect(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
    except OSError as failure:
        link.close()
        raise VeenError(ErrorCode.UNREACHABLE, f"no hub runs on {data_dir}") from failure
    finally:
        if folder >= 0:
            os.close(folder)
    return link
