"""A syslog message as an event [RFC 5424 6; SDR0 3.2.1].

origin is `HOSTNAME/APP-NAME`, subject_id HOSTNAME, event_time TIMESTAMP where there is one. What is
no RFC 5424 message is recorded too, as `raw` with the reason: nothing is dropped for its form.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from hub.canonical_json import Encodable
from recorder.event import EVENT_TIME_MAX, fit_text, format_time

MESSAGE_BYTES_MAX: Final = 65_536
SEVERITIES: Final = (
    "emergency", "alert", "critical", "error", "warning", "notice", "informational", "debug",
)  # fmt: skip
_PRI_MAX: Final = 191
_NIL: Final = "-"
_BOM: Final = "\ufeff"
_HEADER: Final = re.compile(
    r"<([0-9]{1,3})>([1-9][0-9]{0,2}) (\S{1,64}) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) "
    r"([!-~]{1,32}) (.*)",
    re.DOTALL,
)
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_SD_NAME: Final = r'[^\s=\]"]{1,32}'
_SD_VALUE: Final = r'(?:[^"\\\]]|\\.)*'
_ELEMENT: Final = re.compile(rf'\[({_SD_NAME})((?: {_SD_NAME}="{_SD_VALUE}")*)\]', re.DOTALL)
_PARAM: Final = re.compile(rf' ({_SD_NAME})="({_SD_VALUE})"', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\\]])')
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def event_of(data: bytes, *, event_type: str, peer: str) -> dict[str, Encodable]:
    """The event of one message as it came from `peer`."""
    # What is not UTF-8 is kept as escapes; the form feed of a transport is not part of it.
    text = data.decode(errors="backslashreplace")
    found = _HEADER.fullmatch(text)
    if found is None:
        return _raw(text, event_type, peer, "no RFC 5424 header")
    pri, version, when, host, app, proc_id, msg_id, rest = found.groups()
    if int(pri) > _PRI_MAX or version != "1":
        return _raw(text, event_type, peer, "unknown PRI or VERSION")
    try:
        millis = None if when == _NIL else parse_time(when)
        structured, message = _structured_data(rest)
    except ValueError as flaw:
        return _raw(text, event_type, peer, str(flaw))
    payload: dict[str, Encodable] = {
        "facility": int(pri) // 8,
        "severity": SEVERITIES[int(pri) % 8],
        "message": message.removeprefix(_BOM),
        "peer": peer,
    }
    named = {"hostname": host, "app_name": app, "procid": proc_id, "msgid": msg_id}
    payload |= {name: value for name, value in named.items() if value != _NIL}
    if structured:
        payload["structured_data"] = structured
    names = [name for name in (host, app) if name != _NIL]
    event: dict[str, Encodable] = {
        "event_type": event_type,
        "subject_id": fit_text("" if host == _NIL else host),
        "origin": fit_text("/".join(names) or peer),
        "payload": payload,
    }
    return event if millis is None else {**event, "event_time": format_time(millis)}


def _raw(text: str, event_type: str, peer: str, reason: str) -> dict[str, Encodable]:
    payload: dict[str, Encodable] = {"raw": text, "error": reason, "peer": peer}
    return {
        "event_type": event_type,
        "subject_id": "",
        "origin": fit_text(peer),
        "payload": payload,
    }


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of a TIMESTAMP; ValueError says what is wrong."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("not a TIMESTAMP")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    sign, hours, minutes = match[8], match[9], match[10]
    offset = timedelta()
    if sign is not None:
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))
    except ValueError:
        raise ValueError("no such date or time of day") from None
    millis = (moment - _EPOCH) // timedelta(milliseconds=1) + int(f"{match[7] or '':0<3}"[:3])
    if not 0 <= millis <= EVENT_TIME_MAX:
        raise ValueError("a time before 1970 or after 9999")
    return millis


def _structured_data(rest: str) -> tuple[dict[str, Encodable], str]:
    """STRUCTURED-DATA and MSG."""
    if rest == _NIL or rest.startswith("- "):
        return {}, rest[2:]
    found: dict[str, Encodable] = {}
    pos = 0
    while match := _ELEMENT.match(rest, pos):
        params: dict[str, list[Encodable]] = {}
        for name, value in _PARAM.findall(match[2]):
            params.setdefault(name, []).append(_ESCAPED.sub(r"\1", value))
        # A name may stand there twice; then its values are a list.
        found[match[1]] = {
            name: values[0] if len(values) == 1 else values for name, values in params.items()
        }
        pos = match.end()
    if pos == 0 or (pos < len(rest) and rest[pos] != " "):
        raise ValueError("broken STRUCTURED-DATA")
    return found, rest[pos + 1 :]
