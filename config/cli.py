"""The `veen` command: finds a subcommand, loads only that one, gives one exit code [interfaces]."""

from __future__ import annotations

import difflib
import importlib
import json
import os
import select
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import click

if TYPE_CHECKING:
    from hub.errors import VeenError

VERSION: Final = "0.1.0"

EXIT_OK: Final = 0
EXIT_USAGE: Final = 1
EXIT_NETWORK: Final = 2
EXIT_PROTOCOL: Final = 3
EXIT_VERIFICATION: Final = 7
EXIT_TIMEOUT: Final = 9
EXIT_INTERNAL: Final = 70
EXIT_INTERRUPTED: Final = 130
# Refusals of the recorder's and the query's API that a little patience cures.
NOT_READY: Final = frozenset({"lake_behind", "result_not_ready"})


class Entry(NamedTuple):
    """Where a subcommand lives; its help stands here so that `veen --help` imports nothing."""

    target: str
    help: str


SECTIONS: Final[dict[str, dict[str, Entry]]] = {
    "Run the bundle": {
        "up": Entry("config.up:up", "Start everything; create keys and data on first run."),
        "down": Entry("config.up:down", "Stop what `up` started."),
        "status": Entry("config.up:status", "Show addresses, hub key and processes."),
        "doctor": Entry("config.doctor:doctor", "Check what this machine offers and lacks."),
        "config": Entry("config.settings_cli:config", "Show and check the settings."),
        "backup": Entry("recorder.cli.backup:backup", "Create, verify and restore backups."),
    },
    "Hub and streams": {
        "hub": Entry("recorder.cli.anchor:hub", "Run and maintain a hub."),
        "stream": Entry("recorder.cli.stream:stream", "Read a stream; create, list, keys."),
        "label-class": Entry("hub.cli.labelclass:label_class", "Classes of labels."),
    },
    "Recorder": {
        "recorder": Entry("recorder.cli.group:recorder", "Record, replay, prove events."),
        "query": Entry("queryapi.cli.group:query", "Questions whose answers carry their proof."),
    },
    "Keys and capabilities": {
        "token": Entry("recorder.cli.token:token", "API tokens: create, list, revoke."),
        "keygen": Entry("hub.cli.keys:keygen", "Make a key in a sealed keystore."),
        "id": Entry("hub.cli.keys:identity_card", "Show the identity card of a key."),
        "cap": Entry("hub.cli.cap:cap", "Issue, renew, authorize, show and revoke capabilities."),
    },
    "Messages and evidence": {
        "send": Entry("hub.cli.messages:send", "Seal, sign and submit a message."),
        "receipt": Entry("hub.cli.messages:receipt", "Fetch a receipt."),
        "proof": Entry("hub.cli.messages:proof", "Fetch an inclusion proof."),
        "verify": Entry(
            "queryapi.cli.verify:anything", "Check evidence offline, every check listed."
        ),
        "inspect": Entry("hub.cli.evidence:inspect", "Show the fields of any wire object."),
        "explain": Entry("hub.cli.evidence:explain", "Say what a code means and what to do."),
    },
    "Assurance and development": {
        "selftest": Entry("config.selftest.group:selftest", "Acceptance tests on temporary hubs."),
        "bench": Entry("config.bench:bench", "Measure, with ratios from one run."),
        "test": Entry("config.dev:test", "Run the test suite."),
        "lint": Entry("config.dev:lint", "Run every static check."),
        "fix": Entry("config.dev:fix", "Repair what the linters can repair."),
        "vectors": Entry("config.dev:vectors", "Check all test vectors byte for byte."),
        "fuzz": Entry("config.dev:fuzz", "Search for counterexamples for a while."),
    },
}
COMMANDS: Final = {name: entry for part in SECTIONS.values() for name, entry in part.items()}


class LazyGroup(click.Group):
    """Imports a subcommand's module when it is called, so that no command pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), entry.target
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            close = difflib.get_close_matches(args[0], COMMANDS, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(close)}?" if close else " See `veen --help`."
            ctx.fail(f"there is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, COMMANDS))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), e.help) for name, e in entries.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _end_if_stdout_is_closed()
            raise ConnectionError("the connection was closed by the other side") from None


def _end_if_stdout_is_closed() -> None:
    """Leave quietly when it was our reader (`veen stream | head`) that went away."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # Asks for nothing: errors are reported anyway.
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(EXIT_OK)


EPILOG: Final = """\b
Examples:
  veen up                     start a hub and the console on this machine
  veen explain E.CAP          what a refusal means

\b
Exit codes: 0 ok, 1 usage, 2 network, 3 protocol, 4 refused by the hub, 5 self-test failed,
6 policy, 7 verification failed, 8 gaps found, 9 not ready or timed out, 70 internal."""


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="veen", message="%(prog)s %(version)s")
@click.pass_context
def veen(ctx: click.Context) -> None:
    """A verifiable, durable log: record events, prove them, check them offline."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False


class Failure(NamedTuple):
    exit_code: int
    code: str
    message: str
    remedy: str = ""


def _judge(error: BaseException) -> Failure:
    """The one place where an exception becomes an exit code."""
    from hub.errors import VeenError  # noqa: PLC0415 - not needed when all goes well

    if isinstance(error, VeenError):
        return _judge_refusal(error)
    if isinstance(error, click.ClickException):
        return Failure(EXIT_USAGE, "usage", error.format_message())
    if isinstance(error, TimeoutError):
        return Failure(EXIT_TIMEOUT, "timeout", str(error) or "the time allowed is over")
    if isinstance(error, OSError):
        return _judge_os_error(error)
    http_client = sys.modules.get("http.client")  # If nobody loaded it, it raised nothing.
    if http_client is not None and isinstance(error, http_client.HTTPException):
        return Failure(EXIT_PROTOCOL, "protocol", f"the answer is not HTTP as expected: {error!r}")
    return Failure(
        EXIT_INTERNAL,
        "internal",
        f"an error of ours ({type(error).__name__}: {error})",
        "Run again with VEEN_DEBUG=1 and report what it prints.",
    )


def _judge_refusal(error: VeenError) -> Failure:
    from hub.errors import ERRORS, ProofError, TimedOutError, WireError  # noqa: PLC0415

    if isinstance(error, TimedOutError):
        return Failure(EXIT_TIMEOUT, "timeout", error.detail)
    info = ERRORS[error.code]
    exit_code = info.exit_code
    # Read here and found wrong; a hub's refusal of what we sent has the same code.
    if isinstance(error, WireError):
        exit_code = EXIT_PROTOCOL
    elif isinstance(error, ProofError):
        exit_code = EXIT_VERIFICATION
    elif getattr(error, "error_code", None) in NOT_READY:
        exit_code = EXIT_TIMEOUT
    return Failure(exit_code, error.code, error.detail or info.sentence, info.remedy)


def _judge_os_error(error: OSError) -> Failure:
    # Files of the caller have a name; what has none comes from a socket.
    if error.filename is not None and not isinstance(error, ConnectionError):
        return Failure(EXIT_USAGE, "file", f"{error.filename}: {error.strerror}")
    return Failure(EXIT_NETWORK, "network", error.strerror or str(error))


def _report(failure: Failure, *, as_json: bool) -> None:
    from hub.cli.output import escape  # noqa: PLC0415 - not needed when all goes well

    # One line, whatever a file or a peer put into the message: none forges another or a colour.
    message = escape(" ".join([line.strip() for line in failure.message.splitlines()]))
    text = f"veen: {failure.code}: {message}"
    if failure.remedy:
        text += f"\n      {failure.remedy}"
    click.echo(text, err=True)
    if as_json:
        # A failed command still prints one document; a stream ends in a line that says why.
        error = {"code": failure.code, "message": failure.message}
        click.echo(json.dumps({"error": error}, ensure_ascii=False))


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; a command may return its own."""
    try:
        outcome = veen.main(args=list(args), prog_name="veen", standalone_mode=False)
    except (KeyboardInterrupt, click.exceptions.Abort):
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - nobody is above us, and people get no traceback
        if os.environ.get("VEEN_DEBUG"):
            traceback.print_exception(error)
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(error.ctx.get_usage(), err=True)
        failure = _judge(error)
        _report(failure, as_json="--json" in args)
        return failure.exit_code
    return outcome if isinstance(outcome, int) else EXIT_OK


def main() -> NoReturn:
    """Entry point of `./veen` and of the installed script."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
