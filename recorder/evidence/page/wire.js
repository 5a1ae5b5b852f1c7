// The objects of the wire, each read strictly; signed parts are cut from the received bytes.

const MSG_BYTES_MAX = 1048576, BODY_BYTES_MAX = 1048320, HDR_BYTES_MAX = 16384;
const PACK_BYTES_MAX = 16 * 1024 * 1024, MANIFEST_BYTES_MAX = 8 * 1024 * 1024;
const OBJECT_BYTES_MAX = 16 * 1024, ROTATIONS_MAX = 1024;
const STREAM_NAME = /^[a-z0-9][a-z0-9._-]*(?:\/[a-z0-9][a-z0-9._-]*){1,7}$/;

// The signed digest of an array: its first items under the head of a shorter array.
function signedPart(raw, head, end) {
  return joined(Uint8Array.of(head), raw.subarray(1, end));
}

function decodePack(data) {
  if (data.length > PACK_BYTES_MAX) throw new Refusal(`a pack of ${data.length} bytes`, "E.SIZE");
  const r = new Reader(data);
  const fields = r.mapLength(10, 11);
  if (r.name("format").tstr(64) !== "veen.evidence") throw new Refusal("not an evidence pack");
  r.name("ver").uint({ exactly: 1 });
  const pack = { hubId: r.name("hub_id").bstr(32), stream: r.name("stream").tstr(128) };
  if (!STREAM_NAME.test(pack.stream)) throw new Refusal("not the name of a stream");
  pack.msg = r.name("msg").bstr(null, MSG_BYTES_MAX);
  pack.receipt = r.name("receipt").bstr(null, OBJECT_BYTES_MAX);
  pack.proof = r.name("proof").bstr(null, OBJECT_BYTES_MAX);
  pack.checkpoint = r.name("checkpoint").bstr(null, OBJECT_BYTES_MAX);
  pack.manifest = r.name("manifest").bstr(null, MANIFEST_BYTES_MAX);
  const count = r.name("rotations").arrayLength(0, ROTATIONS_MAX);
  pack.rotations = Array.from({ length: count }, () => r.bstr(null, OBJECT_BYTES_MAX));
  pack.opening = fields > 10 ? r.name("opening").bstr(32) : null;
  r.end();
  return pack;
}

function decodeMsg(data) {
  const r = new Reader(data).array(10);
  r.uint({ exactly: 1 });
  const msg = {
    profileId: r.bstr(32), label: r.bstr(32), clientId: r.bstr(32), clientSeq: r.uint(),
    prevAck: r.uint(), authRef: r.bstrOrNull(32), ctHash: r.bstr(32), ciphertext: r.bstr(),
  };
  msg.signed = signedPart(data, 0x89, r.pos);
  msg.sig = r.bstr(64);
  r.end();
  return msg;
}

async function leafHash(msg) {
  const parts = [msg.label, msg.profileId, msg.ctHash, msg.clientId, u64be(msg.clientSeq)];
  return ht("veen/leaf", ...parts);
}

function decodeReceipt(data) {
  const r = new Reader(data).array(7);
  r.uint({ exactly: 1 });
  const receipt = {
    label: r.bstr(32), streamSeq: r.uint(), leafHash: r.bstr(32), mmrRoot: r.bstr(32),
    hubTs: r.uint(),
  };
  receipt.signed = signedPart(data, 0x86, r.pos);
  receipt.hubSig = r.bstr(64);
  r.end();
  if (receipt.streamSeq === 0n) throw new Refusal("stream_seq is 0; sequences start at 1");
  return receipt;
}

function readCheckpoint(r) {
  const start = r.pos;
  const length = r.arrayLength(7, 8);
  r.uint({ exactly: 1 });
  const checkpoint = {
    labelPrev: r.bstr(32), labelCurr: r.bstr(32), uptoSeq: r.uint(), mmrRoot: r.bstr(32),
    epoch: r.uint(),
  };
  checkpoint.signed = joined(Uint8Array.of(0x86), r.data.subarray(start + 1, r.pos));
  checkpoint.hubSig = r.bstr(64);
  if (length > 7) {
    const witnesses = r.arrayLength(1, 64); // None at all is seven items.
    for (let i = 0; i < witnesses; i += 1) r.bstr(64);
  }
  if (checkpoint.uptoSeq === 0n) throw new Refusal("upto_seq is 0; an empty log has no root");
  checkpoint.raw = r.data.subarray(start, r.pos);
  return checkpoint;
}

function decodeCheckpoint(data) {
  const r = new Reader(data);
  const checkpoint = readCheckpoint(r);
  r.end();
  return checkpoint;
}

async function decodeManifest(data) {
  const r = new Reader(data).array(7);
  r.uint({ exactly: 1 });
  const manifest = {
    hubPk: r.bstr(32), profileId: r.bstr(32), createdAt: r.uint(), previous: r.bstr(32),
  };
  const count = r.arrayLength(0, 2 ** 32);
  manifest.checkpoints = new Map();
  let last = "";
  for (let i = 0; i < count; i += 1) {
    const checkpoint = readCheckpoint(r);
    const label = hex(checkpoint.labelCurr);
    if (label <= last) throw new Refusal("checkpoints are not sorted by label_curr, each once");
    manifest.checkpoints.set(label, checkpoint);
    last = label;
  }
  manifest.signed = signedPart(data, 0x86, r.pos);
  manifest.sig = r.bstr(64);
  r.end();
  manifest.id = await ht("veen/manifest-id", data);
  return manifest;
}

function decodeRotation(data) {
  const r = new Reader(data).array(8);
  r.uint({ exactly: 1 });
  const record = {
    hubId: r.bstr(32), oldPk: r.bstr(32), newPk: r.bstr(32), ts: r.uint(), manifestId: r.bstr(32),
  };
  record.signed = signedPart(data, 0x86, r.pos);
  record.oldSig = r.bstr(64);
  record.newSig = r.bstr(64);
  r.end();
  return record;
}

async function verifyRotation(record) {
  if (same(record.oldPk, record.newPk)) throw new Refusal("a rotation to the same key", "V.TRUST");
  const digest = await ht("veen/hub-rotate", record.signed);
  await verifySignature(record.oldPk, record.oldSig, digest);
  await verifySignature(record.newPk, record.newSig, digest);
}

async function verifySigned(signed, signature, publicKey, tag = "veen/sig") {
  await verifySignature(publicKey, signature, await ht(tag, signed));
}

function decodeHeader(data) {
  const r = new Reader(data);
  const pairs = r.mapLength(1, 5);
  const header = { schema: r.key(1).bstr(32), parentId: null, capRef: null, expiresAt: null };
  let last = 1n;
  for (let i = 1; i < pairs; i += 1) {
    const key = r.uint({ maximum: 5 });
    if (key <= last) throw new Refusal(`payload_hdr key ${key} after ${last}`);
    last = key;
    if (key === 5n) header.expiresAt = r.uint();
    else if (key === 4n) header.capRef = r.bstr(32);
    else if (key === 2n) header.parentId = r.bstr(32);
    else r.bstr(32);
  }
  r.end();
  return header;
}
