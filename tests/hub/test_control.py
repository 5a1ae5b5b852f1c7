"""Asking a running hub to act: what its silence is called."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hub import control
from hub.errors import ErrorCode, TimedOutError, VeenError


def test_a_hub_that_does_not_answer_is_late(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / control.SOCKET_NAME))
        silent.listen()
        with pytest.raises(TimedOutError) as late:
            control.call(tmp_path, "status", timeout_s=0.05)
    assert late.value.code is ErrorCode.UNREACHABLE


def test_a_directory_without_hub_is_unreachable_and_not_late(tmp_path: Path) -> None:
    with pytest.raises(VeenError) as refusal:
        control.call(tmp_path, "status", timeout_s=0.05)
    assert refusal.value.code is ErrorCode.UNREACHABLE
    assert not isinstance(refusal.value, TimedOutError)
