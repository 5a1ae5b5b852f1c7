"""The act `checkpoint.now`: a signed manifest of everything, on demand [SDR0 3.2.4]."""

from __future__ import annotations

from dataclasses import dataclass

from hub.types import Label, ManifestId
from hub.wire.manifest import Manifest
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.verb import Result, Verb, keep
from recorder.event import format_time
from recorder.models import Act, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArgs:
    pass


def described(manifest: Manifest) -> Result:
    """A manifest as answers and events show it; labels of no stream here have a null name."""
    names = {
        Label(bytes.fromhex(label)): name
        for name, label in Stream.objects.values_list("name", "label")
    }
    return {
        "manifest_id": manifest.id.hex(),
        "created_at": format_time(manifest.created_at * 1000),
        "streams": [
            {
                "name": names.get(one.label_curr),
                "label": one.label_curr.hex(),
                "upto_seq": one.upto_seq,
                "mmr_root": one.mmr_root.hex(),
            }
            for one in manifest.checkpoints
        ],
    }


class CheckpointNow(Verb[NoArgs]):
    """Before the hub is asked, the manifest that is newest then is noted.

    A newer one found after a stop is the one that was asked for, so no second one is made.
    """

    name = "checkpoint.now"
    event_type = "checkpoint.made"

    def check(self, found: object) -> NoArgs:
        Arguments(found).close()
        return NoArgs()

    def apply(self, args: NoArgs, act: Act, authority: Authority) -> Result:
        del args, act, authority
        return {"asked": True}

    def settle(self, args: NoArgs, act: Act, authority: Authority) -> Result:
        del args
        newest = _newest(authority)
        if "previous" not in act.result:
            keep(act, {"previous": newest})
        if newest is None or newest == act.result["previous"]:
            newest = str(authority.ask_hub("checkpoint")["manifest_id"])
        manifest = authority.client.manifest(ManifestId(bytes.fromhex(newest)))
        return described(manifest)

    def payload(self, args: NoArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("manifest_id", "created_at", "streams")}


def _newest(authority: Authority) -> str | None:
    found = authority.ask_hub("status")["last_manifest_id"]
    return None if found is None else str(found)
