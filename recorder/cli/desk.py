"""Administration from the command line: acts are asked for over HTTP and waited for [interfaces].

The web process and the administrator's token are those of the state directory, unless others are
named. Imports no framework, so commands start at once.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hub.cli.output import json_option, progress, progress_end
from hub.cli.place import Place, place_options
from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from recorder.web_client import WebClient

T = TypeVar("T")
WAIT_S: Final = 10  # of one question; a longer wait asks again
_PATH: Final = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where acts are asked for, and by whom."""

    place: Place
    web_url: str | None = None
    token_file: Path | None = None
    timeout_s: float = 60.0
    reason: str = ""

    def is_open(self) -> bool:
        """Whether a bundle runs here, or another one was named."""
        return self.web_url is not None or bool(self.place.running().get("web_url"))

    def client(self) -> WebClient:
        """A client of the API with the administrator's token."""
        from hub import keystore  # noqa: PLC0415
        from recorder.web_client import WebClient  # noqa: PLC0415

        url = self.web_url or self.place.running().get("web_url")
        if not url:
            raise click.UsageError("nothing is up here: run `veen up`, or give --web-url")
        path = self.token_file or self.place.secret("admin.token")
        token = keystore.read_private(path).decode("ascii", "replace").strip()
        return WebClient(str(url), token=token, timeout_s=max(self.timeout_s, WAIT_S + 10.0))

    def ask(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """Ask for an act and wait until it is done; its result with act_id."""
        found = self.client().post(
            "/api/admin/acts", {"verb": verb, "args": args, "reason": self.reason}
        )
        return self.wait(str(found["act_id"]))

    def wait(self, act_id: str) -> dict[str, Any]:
        """The result of an act once it is done, its refusal, or TimeoutError."""
        client = self.client()
        deadline = time.monotonic() + self.timeout_s
        try:
            while True:
                left_s = max(0.0, deadline - time.monotonic())
                query = {"wait": str(min(WAIT_S, int(left_s) + 1))}
                act = client.get(f"/api/admin/acts/{act_id}", query)
                if act["state"] == "done":
                    return {"act_id": act_id, **act["result"]}
                if act["state"] == "failed":
                    raise _refusal(act)
                why = act["message"] or "the author is busy or away"
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"the act {act_id} is not done yet ({why}); it goes on")
                progress(f"waiting for {act['verb']}: {why}")
        finally:
            progress_end()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of one of the lists for administrators."""
        client = self.client()
        found: list[dict[str, Any]] = []
        query: dict[str, str] = {"limit": "1000"}
        while True:
            page = client.get(f"/api/admin/{name}", query)
            found += page[name]
            if page["next"] is None:
                return found
            query = {**query, "after": str(page["next"])}


def _refusal(act: dict[str, Any]) -> VeenError:
    from recorder.codes import RecordCode, RecordError  # noqa: PLC0415

    code, message = str(act["error_code"]), str(act["message"])
    if code in set(RecordCode):
        return RecordError(RecordCode(code), message)
    return VeenError(ErrorCode(code) if code in set(ErrorCode) else ErrorCode.INTERNAL, message)


def desk_options(command: Callable[..., T]) -> Callable[..., T]:
    """Options that say where acts are asked for; the command gets `desk`."""

    @functools.wraps(command)
    def with_desk(
        place: Place,
        web_url: str | None,
        token_file: Path | None,
        timeout_s: float,
        reason: str,
        **options: object,
    ) -> T:
        desk = Desk(
            place=place, web_url=web_url, token_file=token_file, timeout_s=timeout_s, reason=reason
        )
        return _judged(functools.partial(command, desk=desk, **options))

    found: Callable[..., T] = with_desk
    for option in (
        click.option("--reason", default="", help="Why; it is recorded with the act."),
        click.option("--timeout", "timeout_s", type=float, default=60.0, help="Seconds to wait."),
        click.option(
            "--token-file",
            envvar="VEEN_API_TOKEN_FILE",
            type=_PATH,
            help="File with an administrator's token (default: the bundle's own).",
        ),
        click.option("--web-url", envvar="VEEN_WEB_URL", metavar="URL", help="Address of the API."),
    ):
        found = option(found)
    return place_options(json_option(found))


def _judged(command: Callable[[], T]) -> T:
    """`forbidden` of an administrator's act is a policy, which has an exit code of its own."""
    from recorder.codes import RecordCode, RecordError  # noqa: PLC0415

    try:
        return command()
    except RecordError as refusal:
        if refusal.error_code is RecordCode.FORBIDDEN:
            raise VeenError(ErrorCode.POLICY, refusal.message) from refusal
        raise


def stream_option(command: Callable[..., T]) -> Callable[..., T]:
    """`--stream NAME`, repeatable, given as `streams`."""
    option = click.option("--stream", "streams", multiple=True, help="Stream; may be repeated.")
    return option(command)
