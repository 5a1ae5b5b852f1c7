"""The page's own ciphers, hashes and readers against published and shared vectors."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from hub.crypto import aead, signing
from hub.errors import VeenError
from tests.recorder.evidence.conftest import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]
VECTORS = Path(__file__).parents[2] / "vectors" / "veen"


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_bytes())


# {name: [arguments]} -> what it gives as hex, or null for a refusal; hex strings become bytes.
CALL = """async ([name, rows]) => {
  const found = [];
  for (const row of rows) {
    try {
      const value = await veen[name](...row.map((one) =>
        typeof one === "string" && one.startsWith("0x") ? veen.unhex(one.slice(2))
        : typeof one === "string" && one.startsWith("n") ? BigInt(one.slice(1)) : one));
      found.push(value instanceof Uint8Array ? veen.hex(value) : true);
    } catch (refusal) { found.push(refusal.code ? null : String(refusal)); }
  }
  return found; }"""


def call(page: Page, name: str, *rows: list[Any]) -> list[Any]:
    ready = [["0x" + one.hex() if isinstance(one, bytes) else one for one in row] for row in rows]
    found: list[Any] = page.evaluate(CALL, [name, ready])
    return found


def test_the_cipher_is_that_of_rfc_8439(page: Page) -> None:
    """Sections 2.3.2, 2.5.2 and 2.8.2."""
    key = bytes(range(32))
    block = call(page, "chachaBlock", [key, 1, bytes.fromhex("000000090000004a00000000")])
    assert block[0].startswith("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e")
    tag = call(
        page,
        "poly1305",
        [
            bytes.fromhex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b"),
            b"Cryptographic Forum Research Group",
        ],
    )
    assert tag == ["a8061dc1305136c6c22b8baf0c0127a9"]
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        b"future, sunscreen would be it."
    )
    sealed = bytes.fromhex(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da9272"
        "8b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831"
        "d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691"
    )
    opened = call(
        page,
        "openChaCha",
        [
            bytes(range(0x80, 0xA0)),
            bytes.fromhex("070000004041424344454647"),
            sealed,
            bytes.fromhex("50515253c0c1c2c3c4c5c6c7"),
        ],
    )
    assert opened == [text.hex()]


def test_hchacha20_is_that_of_the_xchacha_draft(page: Page) -> None:
    nonce = bytes.fromhex("000000090000004a0000000031415927")
    assert call(page, "hchacha20", [bytes(range(32)), nonce]) == [
        "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"
    ]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 63, 64, 65, 300, 70_000])
def test_it_opens_what_the_libraries_seal_and_nothing_else(
    page: Page, rng: random.Random, size: int
) -> None:
    key, nonce, text = rng.randbytes(32), rng.randbytes(24), rng.randbytes(size)
    aad = rng.randbytes(rng.randrange(40))
    for name, used, sealed in (
        ("openChaCha", nonce[:12], ChaCha20Poly1305(key).encrypt(nonce[:12], text, aad)),
        ("openXChaCha", nonce, aead.seal(key, nonce, text, aad)),
    ):
        at = rng.randrange(len(sealed))
        broken = sealed[:at] + bytes((sealed[at] ^ 4,)) + sealed[at + 1 :]
        rows = [[key, used, sealed, aad], [key, used, broken, aad], [key, used, sealed, aad + b"x"]]
        assert call(page, name, *rows) == [text.hex(), None, None]


def test_messages_open_with_the_shared_secret_of_the_vectors(page: Page) -> None:
    script = """async (rows) => Promise.all(rows.map(async ([msg, secret]) => {
      const m = veen.decodeMsg(veen.unhex(msg));
      const keys = await veen.keySchedule(veen.unhex(secret));
      const leaf = veen.hex(await veen.leafHash(m));
      const opened = await veen.openMessage(m, veen.unhex(secret));
      return [veen.hex(keys.key), veen.hex(keys.nonce), veen.hex(keys.exporter),
              veen.hex(keys.bodyKey), leaf, veen.hex(opened.body), veen.hex(opened.header.schema)];
    }))"""
    rows = vectors("messages")["vectors"]
    found = page.evaluate(
        script, [[row["msg_cbor"], row["derived"]["hpke_shared_secret"]] for row in rows]
    )
    for row, got in zip(rows, found, strict=True):
        derived = row["derived"]
        names = ("hpke_key", "hpke_base_nonce", "hpke_exporter_secret", "k_body")
        assert got[:4] == [derived[name] for name in names]
        assert got[4] == (row.get("leaf_hash") or derived.get("leaf_hash") or got[4])


def test_receipts_and_checkpoints_of_the_vectors_decode_and_verify(page: Page) -> None:
    script = """async ([receipts, checkpoints]) => {
      const check = async (one, pk) => veen.verifySignature(
        veen.unhex(pk), one.hubSig, await veen.ht("veen/sig", one.signed));
      for (const [data, pk] of receipts) await check(veen.decodeReceipt(veen.unhex(data)), pk);
      for (const [data, pk] of checkpoints) {
        await check(veen.decodeCheckpoint(veen.unhex(data)), pk);
      }
      return true; }"""
    found = vectors("receipts_checkpoints")
    receipts = [[row["receipt_cbor"], row["hub_pk"]] for row in found["receipts"]]
    checkpoints = [[row["checkpoint_cbor"], row["hub_pk"]] for row in found["checkpoints"]]
    assert receipts
    assert checkpoints
    assert page.evaluate(script, [receipts, checkpoints])


def test_every_proof_of_the_vectors_holds_and_every_wrong_one_does_not(page: Page) -> None:
    script = """async (rows) => Promise.all(rows.map(async ([proof, seq, size, root]) => {
      try { await veen.verifyProof(veen.decodeProof(veen.unhex(proof)), BigInt(seq), BigInt(size),
                                   veen.unhex(root)); return true; }
      catch (refusal) { return refusal.code ? false : String(refusal); } }))"""
    found = vectors("mmr_proofs")

    def rows(many: list[dict[str, Any]]) -> list[list[str]]:
        return [
            [one["mmr_proof_cbor"], str(one["stream_seq"]), str(one["mmr_size"]), one["mmr_root"]]
            for one in many
        ]

    good = rows(found["receipt_time"] + found["checkpoint_time"])
    assert page.evaluate(script, good) == [True] * len(good)
    bad = rows(found["must_fail"])
    assert page.evaluate(script, bad) == [False] * len(bad)


def test_the_manifest_and_rotation_of_the_vectors(page: Page) -> None:
    script = """async ([manifest, rotation]) => {
      const m = await veen.decodeManifest(veen.unhex(manifest));
      const digest = await veen.ht("veen/manifest", m.signed);
      await veen.verifySignature(m.hubPk, m.sig, digest);
      const r = veen.decodeRotation(veen.unhex(rotation));
      await veen.verifyRotation(r);
      return [veen.hex(m.id), veen.hex(digest), veen.hex(m.hubPk), m.checkpoints.size,
              veen.hex(r.hubId), veen.hex(r.newPk),
              veen.hex(await veen.ht("veen/hub-id", r.oldPk))];
    }"""
    found = vectors("manifest_rotation")
    assert page.evaluate(script, [found["manifest_cbor"], found["rotation_cbor"]]) == [
        found["manifest_id"], found["manifest_signed_digest"], found["old_pk"], 2,
        found["hub_id"], found["new_pk"], found["hub_id"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"),
    [("msg", "decodeMsg"), ("payload_hdr", "decodeHeader"), ("checkpoint", "decodeCheckpoint"),
     ("mmr_proof", "decodeProof")],
)  # fmt: skip
def test_every_other_spelling_is_refused(page: Page, kind: str, name: str) -> None:
    rows = vectors("cbor_negative")[kind]
    found = call(page, name, *[[bytes.fromhex(row["cbor"])] for row in rows])
    taken = {row["name"] for row, one in zip(rows, found, strict=True) if one is not None}
    assert taken <= {"ct_hash wrong", "signature bit flipped", "unknown profile_id"}  # well formed
    assert len(taken) < len(rows)


def test_signatures_are_judged_as_by_libsodium(page: Page, rng: random.Random) -> None:
    """Small-order and non-canonical keys, a non-canonical S, and every kind of changed byte."""
    key = signing.SigningKey(rng.randbytes(32))
    digest = rng.randbytes(32)
    good = bytes(key.sign(digest))
    order = 2**252 + 27742317777372353535851937790883648493
    larger = (int.from_bytes(good[32:], "little") + order).to_bytes(32, "little")
    small = [bytes(32), bytes([1]) + bytes(31), bytes([0xEE]) + b"\xff" * 30 + b"\x7f",
             bytes([0xEC]) + b"\xff" * 31,
             bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
             ]  # fmt: skip
    rows: list[list[Any]] = [[bytes(key.public), good, digest],
                             [bytes(key.public), good[:32] + larger, digest]]  # fmt: skip
    rows += [[one, one + bytes(32), digest] for one in small]
    rows += [[bytes(key.public), one + good[32:], digest] for one in small]
    for at in range(0, 64, 5):
        changed = good[:at] + bytes((good[at] ^ 1 << at % 8,)) + good[at + 1 :]
        rows.append([bytes(key.public), changed, digest])
    found = call(page, "verifySignature", *rows)
    assert found == [True if _holds(*row) else None for row in rows]
    assert found.count(True) == 1


def _holds(public: bytes, signature: bytes, digest: bytes) -> bool:
    try:
        signing.verify(public, signature, digest)
    except VeenError:
        return False
    return True
