"""Settings of the bundle: flag > VEEN_* > file > default, typed, unknown keys refused [style 4]."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from config.settings_kinds import (
    Flag,
    Integer,
    Kind,
    KindError,
    PathName,
    Text,
    TextList,
    as_text,
)
from hub.errors import ErrorCode, VeenError

FILE_NAME: Final = "veen.toml"
PREFIX: Final = "VEEN_"
PORT: Final = Integer(0, 65535)
ADAPTERS: Final = ("syslog", "otlp")

# Variables that steer a command and are no settings; any other VEEN_* name is a mistake.
COMMAND_VARIABLES: Final = frozenset({
    "VEEN_API_TOKEN_FILE",
    "VEEN_CONFIG",
    "VEEN_DEBUG",
    "VEEN_HUB_PK",
    "VEEN_HUB_URL",
    "VEEN_KEYSTORE",
    "VEEN_PASSPHRASE_FILE",
    "VEEN_PYTHON",
    "VEEN_SEED",
    "VEEN_TOKEN_FILE",
    "VEEN_WEB_URL",
})  # fmt: skip
SECRET_WORDS: Final = ("key", "password", "passphrase", "secret", "token")


def default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "veen"


def setting(kind: Kind, default: Any, meaning: str) -> Any:  # noqa: ANN401 - a field specifier
    """One row of the table: its kind, its default, and what it means to an operator."""
    return dataclasses.field(default=default, metadata={"kind": kind, "meaning": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting there is; adding one is adding one row here."""

    data_dir: Path = dataclasses.field(
        default_factory=default_data_dir,
        metadata={"kind": PathName(), "meaning": "where keys, log, database and sockets live"},
    )
    zone: str = setting(Text(choices=("online", "offline")), "online", "which zone this node is in")
    port: int = setting(PORT, 8420, "port of the web process; the next free one if taken")
    hub_port: int = setting(PORT, 8421, "port of the hub's data plane; the next free one if taken")
    gateway_port: int = setting(PORT, 8422, "port of the gateway; the next free one if taken")
    run_worker: bool = setting(Flag(), default=True, meaning="run ingest and queries here")
    syslog: bool = setting(Flag(), default=False, meaning="run the syslog adapter (RFC 5424)")
    syslog_bind: str = setting(Text(), "127.0.0.1", "its address; beyond loopback needs an allow")
    syslog_port: int = setting(PORT, 5514, "its port, UDP and TCP; 0 takes a free one")
    syslog_allow: tuple[str, ...] = setting(TextList(), (), "networks that may send to it")
    syslog_connection: Path | None = setting(
        PathName(), None, "connection file of its producer; made by recorded acts if unset"
    )
    otlp: bool = setting(Flag(), default=False, meaning="run the OTLP/HTTP logs adapter")
    otlp_bind: str = setting(Text(), "127.0.0.1", "its address; beyond loopback needs an allow")
    otlp_port: int = setting(PORT, 4318, "its port; 0 takes a free one")
    otlp_allow: tuple[str, ...] = setting(TextList(), (), "networks that may send to it")
    otlp_connection: Path | None = setting(
        PathName(), None, "connection file of its producer; made by recorded acts if unset"
    )
    workers: int = setting(Integer(0, 256), 0, "HTTP processes of the hub; 0 is one per core")
    open_reads: bool = setting(Flag(), default=False, meaning="serve reads without a token")
    open_admission: bool = setting(Flag(), default=False, meaning="admit without capability")
    trusted_issuers: tuple[str, ...] = setting(
        TextList(hex_bytes=32), (), "public keys whose capabilities count"
    )
    profiles: tuple[str, ...] = setting(
        TextList(), (), "further profiles that the hub takes, each EPOCH_SEC:PAD_BLOCK"
    )
    routing_key_file: Path | None = setting(PathName(), None, "file of the realm's routing_key")
    heads_file: Path | None = setting(PathName(), None, "guard of the last signed heads")
    checkpoint_interval_s: int = setting(Integer(1, 86_400), 300, "seconds between manifests")
    checkpoint_messages: int = setting(Integer(1, 10**9), 10_000, "messages between manifests")
    segment_bytes: int = setting(Integer(1 << 20, 1 << 34), 1 << 26, "size of a log segment")
    queue_max: int = setting(Integer(64, 1 << 20), 4096, "messages waiting before E.BUSY")
    log_submits: bool = setting(Flag(), default=True, meaning="one JSON log line per submit")
    anchor_file: Path | None = setting(
        PathName(), None, "append-only anchor file, best on another disk; in data_dir if unset"
    )
    anchor_tsa_url: str | None = setting(Text(), None, "RFC 3161 authority that stamps manifests")
    anchor_tsa_cert: Path | None = setting(PathName(), None, "PEM certificates it must chain to")
    anchor_allow: tuple[str, ...] = setting(
        TextList(), (), "further host:port an anchor may be sent to, such as a private address"
    )
    database_url: str | None = setting(
        Text(), None, "postgresql://...; SQLite in data_dir if unset"
    )
    database_password_file: Path | None = setting(PathName(), None, "file of its password")
    java_home: Path | None = setting(PathName(), None, "Java for Spark; found if unset")
    spark_master: str = setting(Text(), "local[*]", "where Spark runs; elsewhere it must encrypt")
    spark_properties_file: Path | None = setting(
        PathName(), None, "a cluster's own Spark settings, its secret among them"
    )
    query_time_s: int = setting(Integer(1, 3_600), 600, "seconds a query may take")
    query_rows_max: int = setting(Integer(1, 10**9), 5_000_000, "rows a result may have")
    query_bytes_max: int = setting(Integer(1, 1 << 44), 1 << 32, "bytes of rows in a result")
    query_running_max: int = setting(Integer(1, 64), 3, "queries of one principal that run at once")
    query_waiting_max: int = setting(Integer(1, 10**6), 200, "unfinished queries of one principal")
    query_rate_max: int = setting(Integer(1, 10**6), 600, "queries of one principal in a minute")
    query_sync_ms: int = setting(Integer(0, 30_000), 1500, "how long submit waits for an answer")
    results_days: int = setting(Integer(1, 36_500), 30, "how long rows of results are kept")
    redis_url: str | None = setting(Text(), None, "task broker; a private one if unset")
    allowed_hosts: tuple[str, ...] = setting(TextList(), (), "host names the web process answers")

    def environ(self) -> dict[str, str]:
        """The settings as VEEN_* variables, for a child process."""
        values = {name: getattr(self, name) for name in FIELDS}
        return {
            variable_of(name): as_text(value)
            for name, value in values.items()
            if value is not None and value != ()
        }


FIELDS: Final = MappingProxyType({field.name: field for field in dataclasses.fields(Settings)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason why these settings are refused; the code is stable."""

    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Settings with where each came from; with problems they are for display only."""

    settings: Settings
    origins: Mapping[str, str]
    problems: tuple[Problem, ...]


def variable_of(name: str) -> str:
    return PREFIX + name.upper()


class _Collector:
    """Takes values from the weakest source to the strongest, and every problem on the way."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins = dict.fromkeys(FIELDS, "default")
        self.problems: list[Problem] = []

    def refuse(self, code: str, text: str) -> None:
        self.problems.append(Problem(code=code, text=text))

    def take(self, name: str, raw: object, *, base: Path, origin: str, is_text: bool) -> None:
        kind: Kind = FIELDS[name].metadata["kind"]
        try:
            if is_text:
                self.values[name] = kind.from_text(str(raw), base)
            else:
                self.values[name] = kind.from_value(raw, base)
        except KindError as error:
            self.refuse("config.E002", f"{name} ({origin}) {error}.")
        else:
            self.origins[name] = origin

    def refuse_unknown(self, name: str, shown: str, origin: str) -> None:
        if f"{name}_file" in FIELDS or any(word in name.split("_") for word in SECRET_WORDS):
            text = (
                f"{shown} ({origin}) would be a secret in the open; give it by file: {name}_file."
            )
        else:
            text = f"{shown} ({origin}) is not a setting; `veen config show` lists them."
        self.refuse("config.E001", text)


def _from_file(into: _Collector, path: Path) -> None:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        into.refuse("config.E003", f"{path} cannot be read: {error}.")
        return
    for name, raw in table.items():
        if name in FIELDS:
            into.take(name, raw, base=path.parent, origin=str(path), is_text=False)
        else:
            into.refuse_unknown(name, name, str(path))


def _from_environ(into: _Collector, environ: Mapping[str, str]) -> None:
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in COMMAND_VARIABLES:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in FIELDS:
            text = environ[variable]
            into.take(name, text, base=Path.cwd(), origin=variable, is_text=True)
        else:
            into.refuse_unknown(name, variable, "environment")


def _from_flags(into: _Collector, flags: Mapping[str, object]) -> None:
    for name, value in flags.items():
        assert name in FIELDS, f"a command offers a flag for no setting: {name}"
        if value is not None and value != ():
            flag = "--" + name.replace("_", "-")
            into.take(name, value, base=Path.cwd(), origin=flag, is_text=False)


def _named_file(environ: Mapping[str, str], config_file: Path | None) -> Path | None:
    named = config_file or environ.get("VEEN_CONFIG")
    return Path(named).absolute() if named else None


def _lying_file(flags: Mapping[str, object], environ: Mapping[str, str]) -> Path | None:
    place = flags.get("data_dir") or environ.get("VEEN_DATA_DIR") or default_data_dir()
    found = Path(str(place)).expanduser().absolute() / FILE_NAME
    return found if found.exists() else None


def _check(into: _Collector, settings: Settings) -> None:
    if settings.profiles:
        _check_profiles(into, settings.profiles)
    if (settings.anchor_tsa_url is None) != (settings.anchor_tsa_cert is None):
        into.refuse("config.E014", "anchor_tsa_url and anchor_tsa_cert go together.")
    if settings.anchor_tsa_url is not None and settings.zone == "offline":
        into.refuse("config.E015", "nothing goes out of the offline zone: no anchor_tsa_url there.")
    for adapter in ADAPTERS:
        if getattr(settings, adapter):
            _check_adapter(into, settings, adapter)
    if settings.database_url and urlsplit(settings.database_url).password:
        into.refuse(
            "config.E012", "database_url carries a password; give it by database_password_file."
        )


def _check_profiles(into: _Collector, profiles: tuple[str, ...]) -> None:
    from hub.wire.profile import parse_profile  # noqa: PLC0415 - only when there are any

    try:
        for text in profiles:
            parse_profile(text)
    except VeenError as flaw:
        into.refuse("config.E010", f"profiles: {flaw.detail}.")


def _check_adapter(into: _Collector, settings: Settings, name: str) -> None:
    from recorder.adapters.guard import AllowList, check_bind  # noqa: PLC0415 - only when it is on

    bind, allow = getattr(settings, f"{name}_bind"), getattr(settings, f"{name}_allow")
    try:
        AllowList(allow)
    except VeenError as flaw:
        into.refuse("config.E016", f"{name}_allow: {flaw.detail}.")
    try:
        check_bind(bind, allow, needed=f"{name}_allow")
    except VeenError as flaw:
        into.refuse("config.E017", f"{name}_bind: {flaw.detail}.")


def read(
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> Loaded:
    """Read all sources and report every problem; for `config check` and `config show`."""
    flags = flags or {}
    environ = os.environ if environ is None else environ
    collector = _Collector()
    named = _named_file(environ, config_file)
    file = named or _lying_file(flags, environ)
    if file is not None:
        _from_file(collector, file)
    if file is not None and named is None and "data_dir" in collector.values:
        # It was found because it lies in data_dir; it cannot send us elsewhere.
        collector.refuse("config.E013", f"{file} lies in data_dir and must not name one.")
    _from_environ(collector, environ)
    _from_flags(collector, flags)
    settings = Settings(**collector.values)
    _check(collector, settings)
    return Loaded(settings=settings, origins=collector.origins, problems=tuple(collector.problems))


def load(
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> Settings:
    """The settings, or C.CONFIG with every problem in its detail."""
    loaded = read(flags=flags, environ=environ, config_file=config_file)
    if loaded.problems:
        raise VeenError(ErrorCode.CONFIG, " ".join(map(str, loaded.problems)))
    return loaded.settings
