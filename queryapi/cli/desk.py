"""Where queries are asked, and with which token [interfaces]."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hub.cli.output import emit, json_option, note, progress, progress_end
from hub.cli.place import Place, place_options

if TYPE_CHECKING:
    from queryapi.client import Client, Query
    from queryapi.contract.digest import ResultDigest

F = TypeVar("F", bound=Callable[..., Any])
PATH: Final = click.Path(path_type=Path)
DEPTH: Final = 72  # answers nest a little deeper than payloads


def desk_options(command: F) -> F:
    """`--web-url`, `--token-file`, `--timeout`, `--json` and the place, as one `client`."""

    @place_options
    @json_option
    @click.option("--web-url", envvar="VEEN_WEB_URL", metavar="URL", help="Address of the API.")
    @click.option(
        "--token-file", envvar="VEEN_API_TOKEN_FILE", type=PATH, help="File with a token."
    )
    @click.option("--timeout", "timeout_s", type=float, default=600.0, help="Seconds to wait.")
    @functools.wraps(command)
    def with_client(
        *,
        place: Place,
        web_url: str | None,
        token_file: Path | None,
        timeout_s: float,
        **more: Any,  # noqa: ANN401 - the command's own options
    ) -> Any:  # noqa: ANN401
        client = open_client(place, web_url, token_file)
        return command(client=client, timeout_s=timeout_s, **more)

    return with_client  # type: ignore[return-value]


def open_client(place: Place, web_url: str | None, token_file: Path | None) -> Client:
    """A client of the named API, or of the bundle that runs here."""
    from hub import keystore  # noqa: PLC0415
    from queryapi.client import Client  # noqa: PLC0415

    url = web_url or place.running().get("web_url")
    if not url:
        raise click.UsageError("which API? give --web-url, or run `veen up`")
    path = token_file or place.secret("admin.token")
    if token_file is None and not path.exists():
        raise click.UsageError("asking needs a token: give --token-file")
    token = keystore.read_private(path).decode("ascii", "replace").strip()
    return Client(str(url), token)


def waited(query: Query, timeout_s: float) -> None:
    """Show progress until the query is over; its failure, or TimeoutError when the time is."""
    from queryapi.client import failure_of, watch  # noqa: PLC0415

    try:
        for status in watch(query, timeout_s):
            if status["status"] == "failed":
                raise failure_of(status)
            if status["status"] == "completed":
                return
            progress(_sentence(status))
    finally:
        progress_end()
    note(f"{query.result_id} goes on; `veen query status {query.result_id}` shows it")
    raise TimeoutError(f"not finished after {timeout_s:g} s")


def _sentence(status: dict[str, Any]) -> str:
    done = status["progress"]
    width = 24
    if not done["total"]:
        return f"{status['status']}  {done['step'] or ''}"
    filled = width * done["done"] // done["total"]
    bar = "#" * filled + "." * (width - filled)
    return f"{status['status']}  {done['step']}  [{bar}] {done['done']}/{done['total']}"


def saved(query: Query, folder: Path, *, as_json: bool) -> None:
    """Keep all that verifies an answer, and show its digest."""
    digest = query.save(folder)
    emit(dict(digest.to_json()), as_json=as_json)
    note_evidence(digest)


def note_evidence(digest: ResultDigest) -> None:
    """What was verified, and what that rests on."""
    from queryapi.contract.evidence import NOTES  # noqa: PLC0415

    mode = digest.evidence_policy.mode
    note(f"evidence {mode}, unreadable events {digest.unreadable_count}")
    note(NOTES[mode])


def show(value: Any) -> None:  # noqa: ANN401 - a JSON value with exact numbers
    """One document on stdout, numbers as they are."""
    from hub import canonical_json  # noqa: PLC0415

    click.echo(canonical_json.encode_text(value, depth_max=DEPTH, is_bounded=False))
