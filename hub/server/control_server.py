"""The control socket: verbs that need the hub's key or lock [interfaces, Control].

It is a socket file of mode 0600 in the data directory: who may open it may act. Every changing
verb is recorded on hub/admission before it is answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

from hub import label as labels
from hub.admission import records
from hub.admission.records import LabelClass, RetentionPolicy, Revocation, RevocationKind
from hub.control import LINE_BYTES_MAX, SOCKET_NAME
from hub.errors import ErrorCode, VeenError
from hub.server import tokens
from hub.server.core import HubCore
from hub.server.retention import Progress, Retention
from hub.server.writer import Writer
from hub.types import UINT64_MAX, ZERO32, Hash, Label, UnixSeconds
from hub.wire.manifest import Manifest

log = logging.getLogger("hub")
_BOUNDS = ("keep_s", "keep_messages")
Verb = Callable[[dict[str, Any], Progress], Awaitable[dict[str, Any]]]


class ControlServer:
    """Serves one connection at a time per task; acts run in the writer's loop."""

    def __init__(self, writer: Writer, url: str, stop: Callable[[], None]) -> None:
        self._writer = writer
        self._core: HubCore = writer.core
        self._url = url
        self._stop = stop
        self.retention = Retention(self._core, writer.refresh_workers)
        self._server: asyncio.AbstractServer | None = None
        self._verbs: dict[str, Verb] = {
            "status": self._status,
            "checkpoint": self._checkpoint,
            "rotate": self._rotate,
            "revoke": self._revoke,
            "prune": self._prune,
            "retention_set": self._retention_set,
            "retention_list": self._retention_list,
            "token_add": self._token_add,
            "token_list": self._token_list,
            "token_revoke": self._token_revoke,
            "label_class": self._label_class,
            "label_classes": self._label_classes,
            "strays": self._strays,
            "clock_accept": self._clock_accept,
            "anchor_failed": self._anchor_failed,
            "stop": self._stop_hub,
        }

    async def start(self) -> None:
        """Listen, with a mode nobody else can use even for a moment."""
        root = self._core.config.data_dir
        (root / SOCKET_NAME).unlink(missing_ok=True)
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, f"/proc/self/fd/{folder}/{SOCKET_NAME}", limit=LINE_BYTES_MAX
            )
        finally:
            os.umask(before)
            os.close(folder)

    async def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
        (self._core.config.data_dir / SOCKET_NAME).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def progress(figures: dict[str, Any]) -> None:
            writer.write(json.dumps({"progress": figures}).encode() + b"\n")
            await writer.drain()

        try:
            while line := await reader.readline():
                answer = await self._act(line, progress)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            return
        finally:
            writer.close()

    async def _act(self, line: bytes, progress: Progress) -> dict[str, Any]:
        try:
            request = json.loads(line)
            verb = self._verbs[request.pop("verb")]
        except (ValueError, KeyError, AttributeError, TypeError):
            return _refused(VeenError(ErrorCode.FORMAT, "no such verb"))
        try:
            self._core.line.drain()  # a verb sees the log as it is on the disk
            return {"ok": True, **await verb(request, progress)}
        except VeenError as refusal:
            return _refused(refusal)
        except (ValueError, KeyError, TypeError) as flaw:
            return _refused(VeenError(ErrorCode.FORMAT, f"bad argument: {flaw!r}"))
        except OSError as failure:
            return _refused(VeenError(ErrorCode.STORE, str(failure)))
        except Exception:  # an operator gets an answer, and the flaw stands in the log
            log.exception("control.verb_failed")
            return _refused(VeenError(ErrorCode.INTERNAL, "the hub failed; see its log"))

    # -- verbs

    async def _status(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        core, store = self._core, self._core.store
        reasons = self._writer.reasons_not_ready()
        latest = core.checkpoints.latest
        return {
            "hub_pk": core.identity.key.public.hex(),
            "hub_id": core.identity.hub_id.hex(),
            "url": self._url,
            "writable": core.read_only is None and not store.segments.failed,
            "reason": "; ".join(reasons) or None,
            "reasons": reasons,
            "labels": len(store.state.labels),
            "messages": store.state.entries,
            "log_bytes": self._writer.log_bytes(),
            "segments": store.segments.number,
            "last_manifest_id": latest.hex() if latest else None,
            "last_manifest_at": core.checkpoints.created_at or None,
            "uncheckpointed": core.checkpoints.new_messages(),
            "fsyncs": store.disk.syncs,
            "workers": len(self._writer.peers),
            "pid": os.getpid(),
        }

    async def _checkpoint(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        manifest = Manifest.decode(self._core.checkpoint())
        return {
            "manifest_id": manifest.id.hex(),
            "created_at": manifest.created_at,
            "manifest": manifest.encode().hex(),
            "checkpoints": [
                {
                    "label": item.label_curr.hex(),
                    "upto_seq": item.upto_seq,
                    "mmr_root": item.mmr_root.hex(),
                }
                for item in manifest.checkpoints
            ],
        }

    async def _rotate(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        record = self._core.rotate()
        self._writer.refresh_workers()
        self._core.write_runtime(self._url)
        return {
            "hub_id": record.hub_id.hex(),
            "old_pk": record.old_pk.hex(),
            "new_pk": record.new_pk.hex(),
            "manifest_id": record.manifest_id.hex(),
            "record": record.encode().hex(),
        }

    async def _revoke(self, args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        target = bytes.fromhex(args["target"])
        if len(target) != len(ZERO32):
            raise VeenError(ErrorCode.FORMAT, "target is 32 bytes in hex")
        reason, ttl = args.get("reason"), args.get("ttl")
        revocation = Revocation(
            kind=RevocationKind(args["kind"]),
            target=Hash(target),
            reason=None if reason is None else str(reason),
            ts=UnixSeconds(self._core.now()),
            ttl=None if ttl is None else _uint(ttl, "ttl"),
        )
        receipt = self._core.record(records.REVOCATION, revocation.encode())
        return {
            "label": receipt.label.hex(),
            "stream_seq": receipt.stream_seq,
            "receipt": receipt.encode().hex(),
        }

    async def _prune(self, args: dict[str, Any], progress: Progress) -> dict[str, Any]:
        label, reason = self._label(args), str(args["reason"])
        before_seq = self._first_kept(label, args)
        return await self.retention.prune(label, before_seq, reason, progress)

    def _first_kept(self, label: Label, args: dict[str, Any]) -> int:
        """The first sequence whose payload stays, named by itself or by age."""
        if "older_than_s" not in args:
            return _uint(args["before_seq"], "before_seq")
        oldest = self._core.now() - _uint(args["older_than_s"], "older_than_s")
        return self._core.reader.first_at_or_after(label, oldest)

    async def _retention_set(self, args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        """A policy for a stream, a label or a class; without a bound it is taken back."""
        bounds = {name: _uint(args[name], name) for name in _BOUNDS if args.get(name) is not None}
        target = str(args["class"]) if "class" in args else self._label(args)
        receipt = self.retention.set_policy(RetentionPolicy(target=target, **bounds))
        return {"policies": self._policies(), "receipt": receipt.encode().hex()}

    async def _retention_list(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        return {"policies": self._policies()}

    def _policies(self) -> list[dict[str, Any]]:
        rows = []
        for policy in self._core.gate.policies.values():
            row: dict[str, Any] = policy.detail()
            rows.append({**row, "label": row["label"].hex()} if "label" in row else row)
        return sorted(rows, key=str)

    def _label(self, args: dict[str, Any]) -> Label:
        if "stream" in args:
            return self._labels([args["stream"]])[0]
        label = bytes.fromhex(args["label"])
        if len(label) != len(ZERO32):
            raise VeenError(ErrorCode.FORMAT, "a label is 32 bytes in hex")
        return Label(label)

    def _labels(self, streams: list[str]) -> list[Label]:
        key = self._core.config.routing_key
        if key is None:
            raise VeenError(
                ErrorCode.FORMAT, "this hub has no routing key: name labels, not streams"
            )
        return [labels.derive(key, labels.stream_id(name)) for name in streams]

    async def _token_add(self, args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        streams = [str(name) for name in args.get("streams", [])]
        found: list[Label] | None = None
        if not args.get("all"):
            found = self._labels(streams) if streams else []
            found += [self._label({"label": text}) for text in args.get("labels", [])]
            if not found:
                raise VeenError(ErrorCode.FORMAT, "name streams or labels, or say all")
        store, name = self._core.store, str(args["name"])
        tokens.check_free(store.layout.tokens, name)
        self._core.record_act("token_add", {"name": name})
        return {
            "name": name,
            "token": tokens.add(store.layout.tokens, store.disk, name, found, streams),
        }

    async def _token_list(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        return {"tokens": tokens.listing(self._core.store.layout.tokens)}

    async def _token_revoke(self, args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        store, name = self._core.store, str(args["name"])
        tokens.check_known(store.layout.tokens, name)
        self._core.record_act("token_revoke", {"name": name})
        tokens.revoke(store.layout.tokens, store.disk, name)
        return {"name": args["name"]}

    async def _label_class(self, args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        sensitivity, hint = args.get("sensitivity"), args.get("retention_hint")
        given = LabelClass(
            label=self._label(args),
            name=str(args["class"]),
            sensitivity=None if sensitivity is None else str(sensitivity),
            retention_hint=None if hint is None else _uint(hint, "retention_hint"),
        )
        receipt = self._core.record(records.LABEL_CLASS, given.encode())
        said = {"label": given.label.hex(), "class": given.name}
        shown = {"sensitivity": given.sensitivity, "retention_hint": given.retention_hint}
        held = {name: value for name, value in shown.items() if value is not None}
        return {**said, **held, "stream_seq": receipt.stream_seq}

    async def _label_classes(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        gate = self._core.gate
        return {
            "classes": [
                {
                    "label": label.hex(),
                    "class": name,
                    "sensitivity": gate.sensitivity.get(label),
                    "retention_hint": gate.retention.get(label),
                }
                for label, name in sorted(gate.classes.items())
            ]
        }

    async def _strays(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        return {"strays": self._core.strays.listing()}

    async def _clock_accept(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        return {"now": self._core.accept_clock()}

    async def _anchor_failed(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        """Whoever anchors is another process; its failures are counted where OBS0 looks."""
        self._writer.metrics.anchor_fail.inc()
        return {}

    async def _stop_hub(self, _args: dict[str, Any], _progress: Progress) -> dict[str, Any]:
        self._stop()
        return {"stopping": True}


def _uint(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= UINT64_MAX:
        raise VeenError(ErrorCode.FORMAT, f"{name} is not an unsigned integer")
    return value


def _refused(refusal: VeenError) -> dict[str, Any]:
    return {"ok": False, "code": str(refusal.code), "detail": refusal.detail}
