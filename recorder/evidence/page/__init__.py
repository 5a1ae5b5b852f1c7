"""veen-verify.html: the verifier as one file that opens from disk and has no network [SDR0 3.2.5].

The page is put together from the sources in this directory. Its own policy allows exactly the one
script and the one style inside it, by their hashes, and no connection of any kind. A pack stands in
it as base64 in a data block, which no browser runs.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from hub.errors import WireError
from recorder.evidence.pack import PACK_BYTES_MAX

PAGE_BYTES_MAX: Final = 2 * PACK_BYTES_MAX
_FOLDER: Final = Path(__file__).parent
# In the order in which they use one another.
SCRIPTS: Final = (
    "cbor.js", "crypto.js", "chacha.js", "wire.js", "proof.js", "content.js", "verify.js",
    "meaning.js", "tree.js", "view.js",
)  # fmt: skip
_START: Final = b"<!doctype html"
_PACK: Final = re.compile(
    rb'<script type="application/vnd\.veen\.evidence" id="pack">([A-Za-z0-9+/=]*)</script>'
)


def render(pack: bytes | None = None) -> str:
    """The page, empty or with a pack inside; the same bytes for the same pack."""
    inside = "" if pack is None else base64.b64encode(pack).decode("ascii")
    before, after = _shell()
    return before + inside + after


@cache
def _shell() -> tuple[str, str]:
    style, script = _source("page.css"), _script()
    policy = "; ".join((
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ))  # fmt: skip
    page = _source("page.html").replace("@POLICY@", policy)
    page = page.replace("@STYLE@", style).replace("@SCRIPT@", script)
    before, _, after = page.partition("@PACK@")
    return before, after


def _script() -> str:
    body = "".join([_source(name) for name in SCRIPTS])
    assert "</script" not in body
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def _source(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode("ascii")


def is_page(start: bytes) -> bool:
    """Whether these first bytes may be those of a page with a pack inside."""
    return start[: len(_START)].lower() == _START


def extract(page: bytes) -> bytes:
    """The pack inside a page, whatever else the page holds; E.FORMAT when there is none."""
    found = _PACK.search(page)
    if found is None or not found[1]:
        raise WireError("there is no evidence in this page")
    try:
        return base64.b64decode(found[1], validate=True)
    except binascii.Error as flaw:
        raise WireError("the evidence in this page is not base64") from flaw
