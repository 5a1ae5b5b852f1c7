from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.wire.captoken import Rate
from recorder.gateway.config import GatewayConfig, GatewayKeys
from recorder.gateway.rate import Bucket
from tests.support.connections import HTTP, IAM, Cast
from tests.support.gateways import Publisher, token_of

CAST = Cast(hub_pk=SigningKey(b"a hub that nobody needs to start").public)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    Publisher(tmp_path).publish(CAST)
    return tmp_path


def document(published: Path, **changes: object) -> bytes:
    found: dict[str, Any] = json.loads((published / "gateway" / "config.json").read_bytes())
    for path, value in changes.items():
        *steps, last = path.split("__")
        place: Any = found
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
    return json.dumps(found).encode()


def test_what_was_published_is_read(published: Path) -> None:
    config = GatewayConfig.parse(document(published))
    assert config.serial == 1
    assert list(config.producers) == ["shop"]
    assert config.producers["shop"].streams == {HTTP, IAM}
    assert list(config.tokens.values()) == ["shop"]
    assert token_of("shop") not in repr(config)
    assert config.targets[HTTP].reader_pk == CAST.readers[HTTP].public
    keys = GatewayKeys.parse((published / "secrets" / "gateway.keys").read_bytes())
    assert keys.keys[CAST.key.public].public == CAST.key.public
    assert CAST.key.seed.hex() not in repr(keys)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ver": 2}, ErrorCode.FORMAT),
        ({"more": 1}, ErrorCode.FORMAT),
        ({"serial": -1}, ErrorCode.FORMAT),
        ({"serial": True}, ErrorCode.FORMAT),
        ({"hub_pk": "x"}, ErrorCode.FORMAT),
        ({"recorder_admin_pk": "00" * 32}, ErrorCode.TRUST),
        ({"streams__0__event_bytes_max": 0}, ErrorCode.POLICY),
        ({"streams__0__name": "other/x"}, ErrorCode.POLICY),
        ({"streams__1__event_types": ["http.error"]}, ErrorCode.POLICY),
        ({"streams__0__colour": 1}, ErrorCode.FORMAT),
        ({"producers__0__principal": "00" * 32}, ErrorCode.CAP),
        ({"producers__0__cap_token": "AA=="}, ErrorCode.FORMAT),
        ({"producers__0__streams": [1]}, ErrorCode.FORMAT),
        ({"tokens__0__sha256": "00"}, ErrorCode.FORMAT),
        ({"tokens": None}, ErrorCode.FORMAT),
        ({"other_tokens": ["00"]}, ErrorCode.FORMAT),
    ],
)
def test_a_wrong_configuration_is_refused(
    published: Path, changes: dict[str, object], code: ErrorCode
) -> None:
    with pytest.raises(VeenError) as refused:
        GatewayConfig.parse(document(published, **changes))
    assert refused.value.code is code


def test_a_forged_reader_key_is_refused(published: Path) -> None:
    forged = replace(CAST.reader_key(HTTP), key_id=7)
    text = b64encode(forged.encode()).decode()
    with pytest.raises(VeenError) as refused:
        GatewayConfig.parse(document(published, streams__0__reader_key=text))
    assert refused.value.code is ErrorCode.SIG


def test_a_name_stands_for_one_producer(published: Path) -> None:
    found = json.loads(document(published))
    found["producers"] *= 2
    with pytest.raises(VeenError, match="twice"):
        GatewayConfig.parse(json.dumps(found).encode())


@pytest.mark.parametrize(
    "found",
    [
        {"ver": 2, "producers": {}},
        {"ver": 1, "producers": []},
        {"ver": 1},
        {"ver": 1, "producers": {"00": "00"}},
        {"ver": 1, "producers": {"00" * 32: "11" * 32}},
    ],
)
def test_a_wrong_key_file_is_refused(found: object) -> None:
    with pytest.raises(VeenError):
        GatewayKeys.parse(json.dumps(found).encode())


def test_a_bucket_starts_full_and_refills_with_time() -> None:
    bucket = Bucket(Rate(per_sec=2, burst=3), 100.0)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(101.0) for _ in range(3)] == [True, True, False]
    assert [bucket.take(1000.0) for _ in range(4)] == [True, True, True, False]
    unlimited = Bucket(None, 0.0)
    assert all(unlimited.take(0.0) for _ in range(100))
