"""Where a command finds hub, keys and tokens: flag, VEEN_*, the state directory [interfaces]."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from hub.client import HubClient
    from hub.crypto.signing import SigningKey
    from hub.types import Label, PublicKey, StreamId
    from hub.wire.profile import Profile
    from hub.wire.trust import TrustFile

T = TypeVar("T")
ISSUER: Final = "issuer"
RECORDER_ADMIN: Final = "recorder-admin"
SIGN: Final = "sign"  # names inside a keystore that `keygen` makes
DH: Final = "dh"
_PATH: Final = click.Path(path_type=Path)


def default_state_dir() -> Path:
    """Where `veen up` keeps its state when nothing else is said."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "veen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The state directory and what was said about hub and secrets on the command line."""

    root: Path
    hub_url: str | None = None
    hub_pk: str | None = None
    token_file: Path | None = None
    passphrase_file: Path | None = None
    routing_key_file: Path | None = None
    timeout_s: float = 30.0

    @property
    def client(self) -> Path:
        """What client commands keep: keys, tokens, streams, verified heads."""
        return self.root / "client"

    def secret(self, name: str) -> Path:
        """A secret of the running bundle."""
        return self.root / "secrets" / name

    def running(self) -> dict[str, Any]:
        """What the running bundle, or a hub started on this directory, says of itself."""
        for path in (self.root / "run" / "status.json", self.root / "hub" / "hub.json"):
            if path.exists():
                found = json.loads(path.read_bytes())
                if isinstance(found, dict):
                    found.setdefault("hub_url", found.get("url"))
                    return found
        return {}

    def url(self) -> str:
        """The hub's address."""
        found = self.hub_url or self.running().get("hub_url")
        if not found:
            raise click.UsageError("which hub? give --hub-url, set VEEN_HUB_URL, or run `veen up`")
        return str(found)

    def trust(self) -> TrustFile | None:
        """The trust file that `veen up` keeps here, its signature checked; None where none is."""
        from hub.wire.trust import TrustFile  # noqa: PLC0415

        path, key = self.root / "trust.json", self.root / "trust.pk"
        if not (path.exists() and key.exists()):
            return None
        trust_pk = parse_key(key.read_text("ascii").strip(), str(key))
        for _ in range(20):
            found = TrustFile.decode(path.read_bytes())
            try:
                found.verify(path.with_name("trust.json.sig").read_bytes(), trust_pk)
            except VeenError:
                time.sleep(0.02)  # `up` replaces two files: the signature, then what it is for
            else:
                return found
        raise VeenError(ErrorCode.TRUST, f"{path} is not signed by the realm's trust key")

    def pinned(self) -> PublicKey:
        """The hub key that is trusted; never asked of the hub itself."""
        trust = self.trust() if self.hub_pk is None else None
        active = trust.hubs[0].active if trust is not None and trust.hubs else None
        if active is not None:
            return active.pk
        found = self.hub_pk or self.running().get("hub_pk")
        if not found:
            detail = "no pinned hub key: give --hub-pk, set VEEN_HUB_PK, or run `veen up`"
            raise VeenError(ErrorCode.TRUST, detail)
        return parse_key(str(found), "--hub-pk")

    def token(self) -> str | None:
        """The bearer token for reads."""
        from hub import keystore  # noqa: PLC0415

        for path in (self.token_file, self.secret("worker.token"), self.secret("web.token")):
            if path is not None and (path == self.token_file or path.exists()):
                return keystore.read_private(path).decode("ascii", "replace").strip()
        return None

    def routing_key(self) -> bytes:
        """The realm's routing key, which turns stream names into labels."""
        from hub import keystore  # noqa: PLC0415

        path = self.routing_key_file or self.secret("routing.key")
        if path != self.routing_key_file and not path.exists():
            raise click.UsageError("stream names need --routing-key-file; --label does without")
        return keystore.read_key_file(path)

    def label(self, stream: str | None, label: str | None, epoch: int = 0) -> Label:
        """The label of --stream NAME, in an epoch where labels change with it, or --label HEX."""
        from hub.label import derive  # noqa: PLC0415
        from hub.types import Label  # noqa: PLC0415

        if (stream is None) == (label is None):
            raise click.UsageError("give exactly one of --stream and --label")
        if label is not None:
            return Label(parse_hex(label, "--label"))
        assert stream is not None
        return derive(self.routing_key(), parse_stream(stream), epoch)

    def connect(self) -> HubClient:
        """A client of the pinned hub with its own state below `client/hubs`."""
        from hub.client import HubClient  # noqa: PLC0415

        url, pinned, token = self.url(), self.pinned(), self.token()
        with HubClient(url, pinned, token=token, timeout_s=self.timeout_s) as probe:
            folder = _folder_of(self.client / "hubs", probe)
        return HubClient(url, pinned, state_dir=folder, token=token, timeout_s=self.timeout_s)

    def passphrase(self, *, confirm: bool = False) -> bytes:
        """From a file where one is named or the bundle has one, else asked for on a terminal."""
        from hub import keystore  # noqa: PLC0415

        for path in (self.passphrase_file, self.secret("passphrase")):
            if path is not None and (path == self.passphrase_file or path.exists()):
                return keystore.read_private(path).strip()
        if not sys.stdin.isatty():
            raise click.UsageError("no terminal to ask on: give --passphrase-file")
        text: str = click.prompt(
            "Passphrase", hide_input=True, confirmation_prompt=confirm, err=True
        )
        return text.encode()

    def key_path(self, name: str) -> Path:
        """A key by path, or by the name that `keygen --name` gave it."""
        if "/" in name or Path(name).exists():
            return Path(name)
        return self.client / "keys" / f"{name}.key"

    def secrets_of(self, name: str) -> dict[str, bytes]:
        """The secrets of a key file or keystore; a plain key file holds one, for signing."""
        from hub import keystore  # noqa: PLC0415

        path = self.key_path(name)
        if not path.exists():
            detail = f"there is no key {path}; `veen keygen --name {path.stem}` makes one"
            raise click.UsageError(detail)
        data = keystore.read_private(path)
        if keystore.is_keystore(data):
            return keystore.open_(data, self.passphrase())
        return {SIGN: keystore.parse_key(data, path)}

    def signing_key(self, name: str, entry: str = SIGN) -> SigningKey:
        """The signing key of `NAME`, or of `FILE#ENTRY` where a keystore holds several."""
        from hub.crypto.signing import SigningKey  # noqa: PLC0415

        name, _, chosen = name.partition("#")
        found = self.secrets_of(name)
        for candidate in (chosen,) if chosen else (entry, SIGN):
            if candidate in found:
                return SigningKey(found[candidate])
        detail = f"{name} holds {', '.join(sorted(found))}, not {chosen or entry}"
        raise VeenError(ErrorCode.KEYSTORE, detail)

    def realm_key(self, given: str | None, entry: str) -> SigningKey:
        """A key of the realm: the one named, else the bundle's keystore."""
        path = self.secret("keystore.enc")
        if given is None and not path.exists():
            raise click.UsageError(f"give the key file of the {entry}")
        return self.signing_key(given or str(path), entry)


def _folder_of(hubs: Path, probe: HubClient) -> Path:
    """The state of this log, also when its key has rotated since the state was made."""
    pins = {path.parent: path.read_text("ascii").strip() for path in hubs.glob("*/hub.pin")}
    pinned = probe.chain.pinned.hex()
    for folder, pin in pins.items():
        if pin == pinned:
            return folder
    if pins:
        probe.chain.refresh()
        known = {key.hex() for key in probe.chain.keys}
        for folder, pin in pins.items():
            if pin in known:
                return folder
    return hubs / pinned[:16]


def parse_hex(text: str, name: str) -> bytes:
    """32 bytes in hex."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 32 or len(text) != 64:
        raise click.UsageError(f"{name} is not 64 hex digits")
    return found


def parse_stream(name: str) -> StreamId:
    """The id of a stream name, or the id itself in hex."""
    from hub.label import stream_id  # noqa: PLC0415

    try:
        return stream_id(name)
    except VeenError as flaw:  # typed here, so it is no refusal of a hub
        raise click.UsageError(flaw.detail) from flaw


def parse_profiles(texts: Sequence[str]) -> list[Profile]:
    """The default profiles and those of --profile EPOCH_SEC:PAD_BLOCK, each once."""
    from hub.wire.profile import DEFAULT_PROFILES, parse_profile  # noqa: PLC0415

    try:
        given = [parse_profile(text) for text in texts]
    except VeenError as flaw:
        raise click.UsageError(f"--profile: {flaw.detail}") from flaw
    return list(dict.fromkeys([*DEFAULT_PROFILES, *given]))


def parse_key(text: str, name: str) -> PublicKey:
    """A public key in hex."""
    from hub.types import PublicKey  # noqa: PLC0415

    return PublicKey(parse_hex(text, name))


def _options(
    names: Sequence[str], *chosen: Callable[[Any], Any]
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A decorator that adds options and gives the command a Place made of them."""

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(command)
        def with_place(**options: object) -> T:
            said = {name: options.pop(name) for name in names}
            root = Path(str(options.pop("state_dir"))).expanduser()
            return command(place=Place(root=root, **said), **options)  # type: ignore[arg-type]

        found: Callable[..., T] = with_place
        for option in chosen:
            found = option(found)
        return found

    return decorate


_LOCAL: Final = (
    click.option(
        "--passphrase-file",
        envvar="VEEN_PASSPHRASE_FILE",
        type=_PATH,
        help="File with the passphrase of keystores.",
    ),
    click.option(
        "--state-dir",
        envvar="VEEN_DATA_DIR",
        type=_PATH,
        default=default_state_dir,
        show_default="the directory of `veen up`",
        help="Where keys, streams and verified heads are kept.",
    ),
)
_ROUTING: Final = click.option(
    "--routing-key-file",
    envvar="VEEN_ROUTING_KEY_FILE",
    type=_PATH,
    help="Turns stream names into labels.",
)
_PIN: Final = click.option(
    "--hub-pk", envvar="VEEN_HUB_PK", metavar="HEX", help="The pinned key of the hub."
)
_HUB: Final = (
    click.option(
        "--timeout", "timeout_s", type=float, default=30.0, help="Seconds to wait for answers."
    ),
    _ROUTING,
    click.option(
        "--token-file",
        envvar="VEEN_TOKEN_FILE",
        type=_PATH,
        help="File with a bearer token for reads.",
    ),
    _PIN,
    click.option(
        "--hub-url", "--hub", envvar="VEEN_HUB_URL", metavar="URL", help="Address of the hub."
    ),
)
# The command gets `place`: for what stays on this machine, for what needs labels, for a hub.
place_options = _options(["passphrase_file"], *_LOCAL)
pin_options = _options(["passphrase_file", "hub_pk"], *_LOCAL, _PIN)
label_options = _options(["passphrase_file", "routing_key_file"], *_LOCAL, _ROUTING)
hub_options = _options(
    ["passphrase_file", "routing_key_file", "hub_url", "hub_pk", "token_file", "timeout_s"],
    *_LOCAL,
    *_HUB,
)


def data_dir_option(command: Callable[..., T]) -> Callable[..., T]:
    """`--data-dir`: the hub's directory, by default that of the bundle; given as `data_dir`."""

    @functools.wraps(command)
    def with_data_dir(place: Place, data_dir: Path | None, **options: object) -> T:
        return command(data_dir=data_dir or place.root / "hub", **options)

    option = click.option("--data-dir", type=_PATH, help="The hub's data directory.")
    return place_options(option(with_data_dir))
