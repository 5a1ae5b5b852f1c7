"""The gateway on a disk that takes no more bytes: clients come back later, nothing is lost."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.recorder.conftest import MakeCast
from tests.support import gateways
from tests.support.gateways import Gateway, Publisher, token_of
from tests.support.live_hub import LiveHub


def event(subject_id: str, **fields: object) -> dict[str, object]:
    return {"event_type": "http.request", "subject_id": subject_id, **fields}


@contextmanager
def no_room(gateway: Gateway) -> Iterator[None]:
    """Every write of the process that makes a file longer is refused by the kernel."""
    before = resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_503_with_a_time_and_the_gateway_goes_on_by_itself(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    cast = make_cast(hub)
    Publisher(tmp_path).publish(cast)
    token = token_of("shop")
    with gateways.running(tmp_path) as gateway:
        assert gateway.post(event("before"), token=token).status == 201
        with no_room(gateway):
            for number in range(3):
                found = gateway.post(event("full", idempotency_key=f"k{number}"), token=token)
                assert (found.status, found.code) == (503, "hub_unavailable"), found
                assert int(found.headers["retry-after"]) > 0
                assert "pending" not in found.body  # it was not kept, and is not said to be
            batch = gateway.post({"events": [event("full"), event("x", y=1)]}, token=token)
            codes = [one["error_code"] for one in batch.body["results"]]
            assert codes == ["hub_unavailable", "invalid_event"]
        after = gateway.post(event("after", idempotency_key="k0"), token=token)
        assert after.status == 201, after
        again = gateway.post(event("after", idempotency_key="k0"), token=token)
        assert (again.status, again.body) == (200, after.body)
    stream = next(iter(cast.types))
    assert [one.subject_id for one in cast.events(hub.url, stream)] == ["before", "after"]
