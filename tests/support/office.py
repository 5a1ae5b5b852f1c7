"""An author without its process: real keys and files, a real hub, acts executed on demand."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.utils import timezone

from hub import label as labels
from hub.authoring import open_message
from hub.client import HubClient
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import WireError
from hub.types import HubId, Label
from hub.wire.profile import PRODUCT
from recorder import services
from recorder.acts import executor
from recorder.acts.authority import SERVICE_TTL_S, Authority, Facts, KeyFiles
from recorder.event import RecorderEvent
from recorder.founding import found_stream, found_streams
from recorder.models import Act
from recorder.scribe import QUERY, RECORDER, Scribe, ServiceKey
from recorder.streams import CHANGES
from tests.support.live_hub import ISSUER, ROUTING_KEY, LiveHub

ALICE = "token:alice"


@dataclass(frozen=True, kw_only=True)
class Read:
    """One event as a reader of the log finds it."""

    seq: int
    principal: str
    event: RecorderEvent

    @property
    def payload(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.event.payload)
        return found


@dataclass(kw_only=True)
class Office:
    """The state of one author; `restart` is what comes after a kill."""

    hub: LiveHub
    root: Path
    token: str
    admin: SigningKey = field(default_factory=SigningKey.generate)
    admin_dh: DhSecret = field(default_factory=DhSecret.generate)
    engine: dict[str, SigningKey] = field(
        default_factory=lambda: {name: SigningKey.generate() for name in (RECORDER, QUERY)}
    )
    _open: Authority | None = None

    @property
    def files(self) -> KeyFiles:
        return KeyFiles(
            gateway_keys=self.root / "gateway.keys",
            gateway_config=self.root / "gateway" / "config.json",
            gateway_state=self.root / "gateway",
            readers_keys=self.root / "readers.keys",
            stream_keys=self.root / "author" / "stream-keys",
        )

    @property
    def authority(self) -> Authority:
        """Made on first use, with the hub's client of the state directory."""
        if self._open is None:
            client = HubClient(
                self.hub.url, self.hub.hub_pk, state_dir=self.root / "author", token=self.token
            )
            services_of = {
                name: ServiceKey.issue(name, key, ISSUER, SERVICE_TTL_S)
                for name, key in self.engine.items()
            }
            scribe = Scribe(client, services_of)
            scribe.authorize()
            self._open = Authority(
                issuer=ISSUER,
                recorder_admin=self.admin,
                admin_dh=self.admin_dh,
                services={name: key.public for name, key in self.engine.items()},
                routing_key=ROUTING_KEY,
                hub_dir=self.hub.data_dir,
                client=client,
                scribe=scribe,
                files=self.files,
                facts=Facts(
                    hub_url=self.hub.url,
                    hub_pk=self.hub.hub_pk,
                    hub_id=HubId(self.hub.hub_id),
                    trust_pk=self.admin.public,
                    web_url="http://127.0.0.1:1",
                    gateway_url="http://127.0.0.1:2",
                ),
                now=timezone.now,
            )
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.scribe.close()
            self._open.client.close()
            self._open = None

    def restart(self) -> None:
        """Everything in memory is gone; files, rows and the hub are as they were."""
        self.close()

    def run(self) -> None:
        """Execute and record whatever waits."""
        executor.run_pending(self.authority)
        self.authority.scribe.record_pending()

    def found(self) -> None:
        """The streams that the product itself writes to."""
        found_streams()
        self.run()

    def found_changes(self) -> None:
        """Only the one that acts are recorded on, which is quicker."""
        found_stream(CHANGES)
        self.run()

    def ask(self, verb: str, reason: str = "because", **args: Any) -> Act:
        return services.submit_act(verb, args, actor=ALICE, reason=reason)

    def do(self, verb: str, reason: str = "because", **args: Any) -> dict[str, Any]:
        """One act from asking to done; its result."""
        act = self.ask(verb, reason, **args)
        self.run()
        act.refresh_from_db()
        assert act.state == Act.State.DONE, (act.error_code, act.message)
        result: dict[str, Any] = act.result
        return result

    def fails(self, verb: str, reason: str = "because", **args: Any) -> Act:
        """One act that is refused only when it is executed."""
        act = self.ask(verb, reason, **args)
        self.run()
        act.refresh_from_db()
        assert act.state == Act.State.FAILED, act
        return act

    def secrets(self, stream: str) -> list[bytes]:
        """What the worker would open a stream with."""
        found = json.loads(self.files.readers_keys.read_bytes())["streams"].get(stream, [])
        return [bytes.fromhex(one["secret"]) for one in found]

    def read(self, stream: str = CHANGES) -> list[Read]:
        """The events of this office on a stream, verified by the client and opened by its keys."""
        label = Label(labels.derive(ROUTING_KEY, labels.stream_id(stream)))
        found = []
        with HubClient(self.hub.url, self.hub.hub_pk, token=self.token) as client:
            for item in client.follow(label):
                try:
                    opened = open_message(item.msg, profile=PRODUCT, secret=self.secrets(stream))
                except WireError:  # another office's, under other keys
                    continue
                found.append(
                    Read(
                        seq=item.receipt.stream_seq,
                        principal=item.msg.client_id.hex(),
                        event=RecorderEvent.decode(opened.body),
                    )
                )
        return found


@contextlib.contextmanager
def opened(hub: LiveHub, root: Path) -> Iterator[Office]:
    """An office on a hub that several tests share."""
    token = str(hub.control("token_add", name=uuid.uuid4().hex, all=True)["token"])
    office = Office(hub=hub, root=root, token=token)
    try:
        yield office
    finally:
        office.close()
