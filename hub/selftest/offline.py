"""Verification of saved evidence in a process that has no network [SSOT 7; OP0].

The parent saves what it holds and starts this module as a child: in an empty network namespace
where the system permits one, and always with sockets that refuse. What the child prints is its
whole report, so that nothing the parent knows can help it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from hub.types import PublicKey
from hub.verify import Evidence, Pins, verify_evidence
from hub.wire import cbor

_ROOT: Final = Path(__file__).resolve().parents[2]
_PIECES: Final = ("receipt", "msg", "proof", "checkpoint", "manifest", "consistency")
_CHILD_S: Final = 60
# A reserved address: where a packet leaves the machine at all, nobody answers.
_NOWHERE: Final = ("192.0.2.1", 9)


def save(folder: Path, hub_pk: PublicKey, rotations: list[bytes], evidence: Evidence) -> None:
    """Write the pieces as a person would keep them: one file each."""
    folder.mkdir(parents=True)
    (folder / "hub_pk").write_text(hub_pk.hex() + "\n", encoding="ascii")
    (folder / "rotations").write_bytes(b"".join(rotations))
    for name in _PIECES:
        piece = getattr(evidence, name)
        if piece is not None:
            (folder / name).write_bytes(piece)


def namespace_command() -> list[str] | None:
    """What puts a command into an empty network namespace here; None where it is not permitted."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    for flags in (["-n"], ["-r", "-n"]):
        tried = subprocess.run(  # noqa: S603 - fixed words
            [unshare, *flags, "true"], capture_output=True, check=False
        )
        if tried.returncode == 0:
            return [unshare, *flags]
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the child said."""

    isolation: str
    report: dict[str, Any]

    @property
    def is_valid(self) -> bool:
        """Whether everything it checked holds."""
        return bool(self.report["valid"])


def verify_in_child(folder: Path, *, use_namespace: bool = True) -> Outcome:
    """Verify a saved folder in a process without network."""
    prefix = namespace_command() if use_namespace else None
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(  # noqa: S603 - our own module
        [*(prefix or []), sys.executable, "-m", "hub.selftest.offline", str(folder)],
        env=environment,
        capture_output=True,
        check=True,
        timeout=_CHILD_S,
    )
    isolation = "sockets blocked" if prefix is None else "empty network namespace"
    return Outcome(isolation=isolation, report=json.loads(done.stdout))


def _refuse(*_: object, **__: object) -> NoReturn:
    raise PermissionError("this process has no network")


def block_sockets() -> None:
    """From now on nothing in this process opens a socket or asks for a name."""
    for name in ("socket", "create_connection", "create_server", "socketpair", "getaddrinfo"):
        setattr(socket, name, _refuse)


def reaches_network() -> bool:
    """Whether a packet could leave: a datagram needs a route, not an answer."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_NOWHERE)
    except OSError:
        return False
    return True


def verify_folder(folder: Path) -> dict[str, Any]:
    """Verify the pieces of one folder against the key pinned beside them."""
    pieces = {name: folder / name for name in _PIECES}
    found: dict[str, Any] = {
        name: path.read_bytes() for name, path in pieces.items() if path.exists()
    }
    evidence = Evidence(**found)
    pinned = PublicKey(bytes.fromhex((folder / "hub_pk").read_text("ascii").strip()))
    rotations = cbor.split_sequence((folder / "rotations").read_bytes(), items_max=1024)
    return verify_evidence(evidence, Pins.of_key(pinned, rotations)).to_json()


def _main() -> None:
    routed = reaches_network()
    block_sockets()
    report = verify_folder(Path(sys.argv[1]))
    report["network"] = {"routed_before": routed, "routed_after": reaches_network()}
    print(json.dumps(report))  # noqa: T201 - the answer to the parent


if __name__ == "__main__":
    _main()
