"""Newer reader keys from the web process; nothing of the answer is believed unsigned [wire]."""

from __future__ import annotations

import binascii
from base64 import b64decode
from pathlib import Path

from hub import keystore
from hub.errors import ErrorCode, VeenError
from hub.wire.readerkey import ReaderKeyRecord
from recorder.gateway_client import GatewayClient
from recorder.sdk_standing import Standing

STREAMS = "/api/record/streams"


def refresh(standing: Standing, token_file: Path) -> list[str]:
    """Ask for the newest reader keys; returns the streams that got one. Raises on a forged one."""
    url = standing.connection.web_url
    if url is None:
        raise VeenError(ErrorCode.CONFIG, "the connection file names no web_url")
    token = keystore.read_private(token_file).decode("ascii", "replace").strip()
    with GatewayClient(url, token, timeout_s=10.0) as client:
        answer = client.get(STREAMS)
    if answer.status != 200:
        detail = f"{STREAMS} answers {answer.status}"
        raise VeenError(ErrorCode.PROTOCOL, detail)
    return [name for name, record in _records(answer.body) if standing.offer(name, record)]


def _records(found: object) -> list[tuple[str, ReaderKeyRecord]]:
    try:
        rows: list[dict[str, str]] = found["streams"]  # type: ignore[index]
        return [
            (str(one["name"]), ReaderKeyRecord.decode(b64decode(one["reader_key"], validate=True)))
            for one in rows
            if one.get("reader_key")
        ]
    except (AttributeError, KeyError, TypeError, binascii.Error) as flaw:
        raise VeenError(ErrorCode.PROTOCOL, f"{STREAMS} is not as expected") from flaw
