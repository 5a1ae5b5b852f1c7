"""`veen hub`: run one data plane, and the acts that need its key or its lock [interfaces]."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from hub.cli import hubacts, hubcare
from hub.cli.output import emit, examples, json_option, note
from hub.cli.place import Place, data_dir_option, hub_options, parse_key, parse_profiles
from hub.errors import ErrorCode, VeenError

_PATH = click.Path(path_type=Path)
_READY_S: Final = 60.0
_ROOT: Final = Path(__file__).resolve().parents[2]


@click.group(epilog=examples("veen hub start --data-dir hub-data", "veen hub status"))
def hub() -> None:
    """Run and maintain a hub."""


for _command in (
    hubacts.checkpoint,
    hubacts.key,
    hubacts.token,
    hubacts.prune,
    hubacts.retention,
    hubacts.clock,
    hubcare.fsck,
    hubcare.rebuild,
    hubcare.verify_rotation,
):
    hub.add_command(_command)


@hub.command(
    epilog=examples(
        "veen hub start --data-dir ./data --port 8421 --open-reads",
        "veen hub start --data-dir ./data --port 8421 --trusted-issuer HEX --daemon",
    )
)
@click.option("--data-dir", type=_PATH, required=True, help="Created on first use.")
@click.option("--port", type=click.IntRange(0, 65535), required=True, help="0 takes a free one.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Any other address: TLS.")
@click.option("--tls-cert", type=_PATH, help="PEM certificate chain.")
@click.option("--tls-key", type=_PATH, help="PEM private key.")
@click.option("--open-admission", is_flag=True, help="Take messages without capability.")
@click.option("--open-reads", is_flag=True, help="Serve reads without token.")
@click.option("--trusted-issuer", "issuers", multiple=True, metavar="HEX", help="May be repeated.")
@click.option("--routing-key-file", type=_PATH, help="Lets the hub check stream scope.")
@click.option("--routing-key", metavar="HEX", help="The key itself; for tests.")
@click.option("--heads-file", type=_PATH, help="Guard of the last signed heads.")
@click.option("--take-over", is_flag=True, help="Nobody else signs with this key.")
@click.option("--fork", is_flag=True, help="Go on as a new hub with a new key.")
@click.option("--workers", type=click.IntRange(1, 256), default=2, show_default=True,
              help="HTTP processes.")  # fmt: skip
@click.option("--checkpoint-interval", "checkpoint_interval_s", type=click.IntRange(1),
              default=300, show_default=True, help="Seconds between manifests.")  # fmt: skip
@click.option("--checkpoint-messages", type=click.IntRange(1), default=10_000,
              show_default=True, help="Messages between manifests.")  # fmt: skip
@click.option("--profile", "profiles", multiple=True, metavar="EPOCH_SEC:PAD_BLOCK",
              help="Take this profile too; may be repeated.")  # fmt: skip
@click.option("--segment-bytes", type=click.IntRange(1 << 20, 1 << 34), default=1 << 26,
              show_default=True, help="Size of a log segment.")  # fmt: skip
@click.option("--queue-max", type=click.IntRange(64, 1 << 20), default=4096, show_default=True,
              help="Messages waiting before E.BUSY.")  # fmt: skip
@click.option("--no-submit-log", is_flag=True, help="No log line for each submit.")
@click.option("--daemon", is_flag=True, help="Run in the background.")
@json_option
def start(
    *, issuers: tuple[str, ...], routing_key: str | None, routing_key_file: Path | None,
    profiles: tuple[str, ...], queue_max: int, no_submit_log: bool, daemon: bool, as_json: bool,
    **options: Any,  # noqa: ANN401
) -> None:  # fmt: skip
    """Run one data plane in the foreground; keys are made on first use."""
    if daemon:
        _start_daemon(options["data_dir"], as_json=as_json)
        return
    from hub.limits import DEFAULT  # noqa: PLC0415
    from hub.server.config import HubConfig  # noqa: PLC0415
    from hub.server.main import run  # noqa: PLC0415

    run(
        HubConfig(
            trusted_issuers=frozenset(parse_key(one, "--trusted-issuer") for one in issuers),
            routing_key=_routing_key(routing_key, routing_key_file),
            log_submits=not no_submit_log,
            profiles=tuple(parse_profiles(profiles)),
            limits=replace(DEFAULT, queue_max=queue_max),
            **options,
        ),
        as_json=as_json,
    )


def _routing_key(text: str | None, path: Path | None) -> bytes | None:
    from hub import keystore  # noqa: PLC0415
    from hub.cli.place import parse_hex  # noqa: PLC0415

    if text is not None and path is not None:
        raise click.UsageError("--routing-key and --routing-key-file exclude each other")
    if path is not None:
        return keystore.read_key_file(path)
    return None if text is None else parse_hex(text, "--routing-key")


def _start_daemon(data_dir: Path, *, as_json: bool) -> None:
    """The same command line without --daemon, in a session of its own."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    log_path = data_dir / "hub.log"
    arguments = [one for one in sys.argv[1:] if one != "--daemon"]
    if arguments[:2] != ["hub", "start"]:
        raise click.UsageError("--daemon works from the command line only")
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "config.cli", *arguments],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    said = _wait_ready(data_dir, child, log_path)
    emit({**said, "log": str(log_path)}, as_json=as_json)


def _wait_ready(data_dir: Path, child: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end:
        found = _runtime(data_dir)
        if found is not None and found.get("pid") == child.pid:
            return found
        if child.poll() is not None:
            tail = log.read_text(errors="replace").strip().splitlines()[-1:]
            detail = f"the hub ended at start: {' '.join(tail)}"
            raise VeenError(ErrorCode.UNREACHABLE, detail)
        time.sleep(0.05)
    child.terminate()
    raise TimeoutError(f"the hub was not ready within {_READY_S:.0f} s; see {log}")


def _runtime(data_dir: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((data_dir / "hub.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found


@hub.command(epilog=examples("veen hub stop --data-dir ./data", "veen hub stop --json"))
@data_dir_option
@json_option
def stop(*, as_json: bool, data_dir: Path) -> None:
    """Stop a running hub cleanly and wait until it is gone."""
    from hub import control  # noqa: PLC0415

    pid = (_runtime(data_dir) or {}).get("pid")
    control.call(data_dir, "stop")
    end = time.monotonic() + 30
    while _runtime(data_dir) is not None and time.monotonic() < end:
        time.sleep(0.02)
    if _runtime(data_dir) is not None:
        raise TimeoutError("the hub is still stopping")
    _wait_gone(pid, end)
    emit({"stopped": True, "pid": pid}, as_json=as_json)


def _wait_gone(pid: object, end: float) -> None:
    while isinstance(pid, int) and time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except OSError:
            return
        if _is_zombie(pid):
            return
        time.sleep(0.02)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


@hub.command(epilog=examples("veen hub status", "veen hub status --data-dir ./data --json"))
@data_dir_option
@json_option
def status(*, as_json: bool, data_dir: Path) -> None:
    """Show the hub's key, head counts and whether it takes writes."""
    from hub import control  # noqa: PLC0415

    emit(control.call(data_dir, "status"), as_json=as_json)


@hub.command(epilog=examples("veen hub profile", "veen hub profile --hub-url URL --json"))
@hub_options
@json_option
def profile(*, as_json: bool, place: Place) -> None:
    """Show what the hub publishes of itself: profiles, limits, openness."""
    from hub.cli.objects import show  # noqa: PLC0415
    from hub.client import HubClient  # noqa: PLC0415
    from hub.types import ZERO32, PublicKey  # noqa: PLC0415

    # The profile page is read before a key can be pinned; nothing of it is believed.
    with HubClient(place.url(), PublicKey(ZERO32), timeout_s=place.timeout_s) as client:
        found = client.profile()
    shown = show(found)
    assert isinstance(shown, dict)
    emit(shown, as_json=as_json)
    note("not trusted: pin the hub's key from its operator")
