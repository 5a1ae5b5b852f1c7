from __future__ import annotations

import pytest

from hub.errors import ErrorCode
from hub.server.http import HttpError, Response
from hub.server.http_head import ResponseHeads, parse_target


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", ""),
        (b"/a/b?c=d&e=%20", "/a/b", "c=d&e=%20"),
        (b"/a?b?c", "/a", "b?c"),
        (b"/%61%2fb%C3%A9", "/a/bé", ""),
        (b"//double", "//double", ""),
        (b"http://hub:80/a?b", "/a", "b"),
        (b"HTTPS://hub", "/", ""),
        (b"http://hub?b", "/", "b"),
        (b"*", "*", ""),
    ],
)
def test_a_target_is_a_decoded_path_and_a_raw_query(target: bytes, path: str, query: str) -> None:
    assert parse_target(target) == (path, query)


@pytest.mark.parametrize(
    "target",
    [b"", b"a", b"ftp://a/", b"/%", b"/%4", b"/%g0", b"/%ff", b"/%0a", b"/%7f", b"/#", b"/\xe9"],
)
def test_a_malformed_target_is_refused(target: bytes) -> None:
    with pytest.raises(HttpError) as refusal:
        parse_target(target)
    assert refusal.value.code is ErrorCode.FORMAT


def test_a_head_is_written_byte_for_byte() -> None:
    heads = ResponseHeads()
    heads.date = "Tue, 18 Nov 2025 06:00:00 GMT"
    response = Response(429, b"", headers=(("Retry-After", "3"),))
    head = heads.render(response, "0123456789abcdef", length=12, chunked=False, close=True)
    assert head == (
        b"HTTP/1.1 429 Too Many Requests\r\n"
        b"Server: veen\r\n"
        b"Cache-Control: no-store\r\n"
        b"X-Content-Type-Options: nosniff\r\n"
        b"Content-Type: application/cbor\r\n"
        b"Date: Tue, 18 Nov 2025 06:00:00 GMT\r\n"
        b"Veen-Request-Id: 0123456789abcdef\r\n"
        b"Content-Length: 12\r\n"
        b"Connection: close\r\n"
        b"Retry-After: 3\r\n"
        b"\r\n"
    )


def test_what_is_kept_of_heads_stays_bounded() -> None:
    heads = ResponseHeads()
    for number in range(1000):
        heads.render(Response(200, b"", f"a/{number}"), "id", length=0, chunked=False, close=False)
    assert len(heads._first_lines) <= 256


def test_an_unknown_status_is_the_applications_error() -> None:
    with pytest.raises(ValueError, match="299"):
        ResponseHeads().render(Response(299, b""), "id", length=0, chunked=False, close=False)
