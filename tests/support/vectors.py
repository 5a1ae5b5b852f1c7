"""The shared vectors, loaded so that no new section of them goes unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, TypeAlias

FOLDER: Final = Path(__file__).parent.parent / "vectors" / "veen"

Section: TypeAlias = dict[str, Any]

# Every section of every file. A new one fails here until somebody decides what tests it.
SECTIONS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(f"status {sections}".split())
    for name, sections in {
        "attachments": "index_base root_rule empty_root coids roots upstream_inputs "
        "circularity_note message attachments aad_based_att_root",
        "cap_tokens": "rule valid invalid",
        "cbor_negative": "base msg payload_hdr checkpoint mmr_proof",
        "identifiers": "keys hub labels stream_names identity admin_streams wallet operation "
        "discovery_streams",
        "manifest_rotation": "old_seed new_seed old_pk new_pk hub_id streams routing_key leaves "
        "manifest_cbor manifest_signed_digest manifest_id rotation_cbor rotation_signed_digest "
        "fork_cbor fork_hub_id recorder_admin_seed reader_key_record_cbor must_fail",
        "messages": "hpke body_aead vectors payload_hdr",
        "mmr_more": "leaf consistency range",
        "mmr_proofs": "leaves dir_rule peaks_after_rule receipt_time receipt_time_note "
        "checkpoint_time must_fail self_check",
        "mmr_roots": "leaf_rule peak_order single_peak_root leaves states upstream_inputs",
        "overlay_bodies": "rule bodies",
        "pow": "rule upstream_known solved",
        "profiles": "profiles legacy_text_key_profile",
        "query_canonical": "rule upstream_canonical_strings rows evidence number_note",
        "receipts_checkpoints": "signature_rule receipts equivocation_pair checkpoints log_entry",
        "schema_ids": "plain_hash_rule operation_rule plain operations",
        "upstream_constants": "upstream constants limits hub_defaults",
    }.items()
}


def load(name: str) -> Section:
    """One file; fails when its sections are not exactly the known ones."""
    found: Section = json.loads((FOLDER / f"{name}.json").read_text())
    unknown, missing = found.keys() - SECTIONS[name], SECTIONS[name] - found.keys()
    assert not unknown, f"{name}.json has sections that nothing tests: {sorted(unknown)}"
    assert not missing, f"{name}.json lost sections: {sorted(missing)}"
    return found


def unhex(text: str | None) -> bytes:
    """Bytes of a field that must be there."""
    assert text is not None
    return bytes.fromhex(text)


def message(letter: str) -> Section:
    """Message A or B of messages.json."""
    (found,) = (one for one in load("messages")["vectors"] if one["name"].startswith(letter + " "))
    assert isinstance(found, dict)
    return found
