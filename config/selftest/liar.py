"""A server that lies: it captured honest answers of the API and gives them changed [SDR0 3.4]."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from recorder.web_client import WebClient

Lines = list[dict[str, Any]]
REPLAY: Final = "/api/record/replay"
MANIFESTS: Final = "/api/record/manifests/"


@dataclass(slots=True)
class Liar:
    """Honest answers by path, and the lines of one replay."""

    url: str
    answers: dict[str, bytes] = field(default_factory=dict)
    lines: Lines = field(default_factory=list)

    def capture(self, web_url: str, token: str, streams: Sequence[str], *, to_seq: int) -> None:
        """Ask an honest server; the first of the streams, up to a sequence."""
        web = WebClient(web_url, token=token, timeout_s=60)
        found = web.get(f"{MANIFESTS}latest")
        self.answers[f"{MANIFESTS}latest"] = json.dumps(found).encode()
        asked = {"stream": list(streams), "to_seq": str(to_seq), "with_proofs": "1"}
        self.lines = [json.loads(line) for line in web.read(REPLAY, asked).splitlines()]

    def tell(self, lie: Callable[[Lines], None]) -> None:
        """From now on answer with the lines as this changes them."""
        lines: Lines = json.loads(json.dumps(self.lines))
        lie(lines)
        self.answers[REPLAY] = b"".join(map(_line, lines))


def _line(found: dict[str, Any]) -> bytes:
    """As the API writes it: a payload is its canonical text."""
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@contextmanager
def lying() -> Iterator[Liar]:
    """On a port of its own, for the length of a block."""
    answers: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers[self.path.partition("?")[0]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Liar(url=f"http://127.0.0.1:{server.server_port}", answers=answers)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
