"""`veen up`, `down`, `status`: run the bundle, stop it, say how it is [interfaces]."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from config.settings_file import load
from config.up_state import (
    StateDir,
    held_lock,
    lock_holder,
    make_directories,
    read_json,
)

if TYPE_CHECKING:
    from config.up_supervisor import Bundle, NotReadyError

EXIT_NOT_READY: Final = 9
DOWN_TIMEOUT_S: Final = 60.0
STATUS_KEYS: Final = (
    "web_url", "hub_url", "gateway_url", "hub_pk", "hub_id", "zone", "data_dir", "processes",
)  # fmt: skip

DATA_DIR = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="The state directory."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class Progress:
    """Lines on standard error; on a terminal a waiting line is overwritten by the next."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._open = False

    def say(self, text: str) -> None:
        is_waiting = text.endswith(" ...")
        if is_waiting and not self._is_terminal:
            return
        start = "\r\x1b[K" if self._open else ""
        click.echo(f"{start}veen: {text}", nl=not is_waiting, err=True)
        self._open = is_waiting


@click.command(
    epilog="""\b
Examples:
  veen up
  veen up --data-dir ./state --port 9000 --zone offline --no-open
  veen up --syslog --otlp"""
)
@DATA_DIR
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the console.")
@click.option("--zone", type=click.Choice(["online", "offline"]), help="The zone of this node.")
@click.option("--syslog/--no-syslog", default=None, help="Run the syslog adapter (off).")
@click.option("--otlp/--no-otlp", default=None, help="Run the OTLP/HTTP logs adapter (off).")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--foreground", is_flag=True, default=True, help="Stay in front (the default).")
@click.option("--trust-hub", metavar="HEX", help="Name this hub key in the trust file.")
@JSON
def up(
    *,
    data_dir: Path | None,
    port: int | None,
    zone: str | None,
    syslog: bool | None,
    otlp: bool | None,
    no_open: bool,
    foreground: bool,
    trust_hub: str | None,
    as_json: bool,
) -> int:
    """Start hub, recorder and console; create keys and data on first run; stop on Ctrl-C."""
    del foreground  # there is no other way yet; systemd and containers want this one
    from config.up_supervisor import Bundle, NotReadyError, StoppedError  # noqa: PLC0415

    flags = {"data_dir": data_dir, "port": port, "zone": zone, "syslog": syslog, "otlp": otlp}
    settings = load(flags=flags)
    state = StateDir.at(settings.data_dir)
    make_directories(state)
    stop = _stop_on_signals()
    progress = Progress()
    with held_lock(state):
        bundle = Bundle(
            settings, state, say=progress.say, stop=stop, accepted_pk=_public_key(trust_hub)
        )
        try:
            document = bundle.start()
            _announce(bundle, document, as_json=as_json)
            _open_browser(document["web_url"], wanted=not (no_open or as_json))
            bundle.watch()
        except StoppedError:
            pass
        except NotReadyError as late:
            return _report_not_ready(late, as_json=as_json)
        finally:
            progress.say("stopping")
            bundle.stop()
        progress.say("stopped")
    return 0


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _public_key(text: str | None) -> Any:  # noqa: ANN401 - PublicKey, imported only when used
    if text is None:
        return None
    from hub.types import PublicKey  # noqa: PLC0415

    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise click.BadParameter("64 hex digits are expected", param_hint="--trust-hub")
    return PublicKey(key)


def _announce(bundle: Bundle, document: Mapping[str, Any], *, as_json: bool) -> None:
    login = bundle.first_login()
    if as_json:
        click.echo(json.dumps({**document, "login": login}))
    else:
        click.echo("\nVEEN is up.")
        click.echo(f"  Console      {document['web_url']}")
        click.echo(f"  Hub          {document['hub_url']}")
        if document["gateway_url"] is not None:
            click.echo(f"  Gateway      {document['gateway_url']}")
        for name, address in _addresses(document):
            click.echo(f"  {name.capitalize():<12} {address}")
        click.echo(f"  Fingerprint  {document['hub_pk']}")
        if login is not None:
            click.echo(f"  Login        {login['name']}  {login['password']}   (shown only now)")
        click.echo(f"  State        {document['data_dir']}  (zone {document['zone']})")
        click.echo("Ctrl-C stops everything.")
    sys.stdout.flush()
    bundle.forget_first_login()  # only after it was shown


def _addresses(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the adapters that are switched on listen."""
    return [(one["name"], one["address"]) for one in document["processes"] if one.get("address")]


def _open_browser(url: str, *, wanted: bool) -> None:
    has_display = sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if wanted and has_display and sys.stdout.isatty():
        import webbrowser  # noqa: PLC0415

        webbrowser.open(url)


def _report_not_ready(late: NotReadyError, *, as_json: bool) -> int:
    click.echo(f"veen: not ready: {late}", err=True)
    for line in late.log_tail:
        click.echo(f"  | {line}", err=True)
    if as_json:
        click.echo(json.dumps({"error": {"code": "not_ready", "message": str(late)}}))
    return EXIT_NOT_READY


@click.command(
    epilog="""\b
Examples:
  veen status
  veen status --data-dir ./state --json"""
)
@DATA_DIR
@JSON
def status(*, data_dir: Path | None, as_json: bool) -> int:
    """Show addresses, hub key and processes of a running bundle; exit 9 when none runs."""
    settings = load(flags={"data_dir": data_dir})
    state = StateDir.at(settings.data_dir)
    document = _current_status(state)
    is_running = document is not None and document.get("web_url") is not None
    if document is None:
        document = dict.fromkeys(STATUS_KEYS)
        document |= {"zone": settings.zone, "data_dir": str(state.root), "processes": []}
    if as_json:
        click.echo(json.dumps({key: document.get(key) for key in STATUS_KEYS}))
    elif is_running:
        _print_status(document)
    if not is_running:
        click.echo(f"veen: nothing is up on {state.root}; `veen up` starts it", err=True)
        return EXIT_NOT_READY
    return 0


def _current_status(state: StateDir) -> dict[str, Any] | None:
    """The status of a bundle whose supervisor lives, its processes looked at now."""
    if lock_holder(state) is None:
        return None
    document = read_json(state.status)
    if document is None:
        return None
    for process in document.get("processes", []):
        if process["pid"] is not None and not _is_alive(process["pid"]):
            process["state"] = "stopped"
    return document


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _print_status(document: Mapping[str, Any]) -> None:
    click.echo(f"Console      {document['web_url']}")
    click.echo(f"Hub          {document['hub_url']}")
    if document["gateway_url"] is not None:
        click.echo(f"Gateway      {document['gateway_url']}")
    click.echo(f"Fingerprint  {document['hub_pk']}")
    click.echo(f"Hub id       {document['hub_id']}")
    click.echo(f"State        {document['data_dir']}  (zone {document['zone']})")
    for process in document["processes"]:
        line = f"  {process['name']:<8} {process['state']:<11} pid {process['pid']}"
        click.echo(f"{line}  {process['address']}" if process.get("address") else line)


@click.command(
    epilog="""\b
Examples:
  veen down
  veen down --data-dir ./state"""
)
@DATA_DIR
@JSON
def down(*, data_dir: Path | None, as_json: bool) -> int:
    """Stop a running bundle; nothing to stop is fine too."""
    state = StateDir.at(load(flags={"data_dir": data_dir}).data_dir)
    pid = lock_holder(state)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        _await_end(state, pid)
    if as_json:
        click.echo(json.dumps({"data_dir": str(state.root), "stopped": pid}))
    else:
        said = "stopped" if pid is not None else "nothing was up"
        click.echo(f"veen: {said} on {state.root}", err=True)
    return 0


def _await_end(state: StateDir, pid: int) -> None:
    deadline = time.monotonic() + DOWN_TIMEOUT_S
    while lock_holder(state) == pid:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} does not end; its log is in {state.run}")
        time.sleep(0.05)
