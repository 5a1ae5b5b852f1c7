// The judgement of a pack: the checks of recorder/evidence/verify.py, same names, same order.

const VERDICTS = ["integrity", "binding", "position", "consistency", "completeness", "freshness"];
const TRUSTED = "signer is the hub you trust";

class Report {
  constructor() {
    this.checks = [];
  }

  // Makes one check; a refusal is listed and does not end the verification.
  async check(verdict, name, judge) {
    try {
      const found = await judge();
      this.checks.push({ verdict, name, ok: true, detail: "" });
      return found;
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      this.checks.push({ verdict, name, ok: false, detail: refusal.message });
      return null;
    }
  }

  verdicts() {
    return Object.fromEntries(VERDICTS.map((verdict) => {
      const made = this.checks.filter((check) => check.verdict === verdict);
      const holds = made.every((check) => check.ok) ? "holds" : "fails";
      return [verdict, made.length ? holds : "not checked"];
    }));
  }

  word() {
    const failed = this.checks.filter((check) => !check.ok).map((check) => check.name);
    if (!failed.length && this.checks.length) return "valid";
    return failed.length === 1 && failed[0] === TRUSTED ? "signer unknown" : "not valid";
  }
}

async function quietly(decode, data) {
  try {
    return await decode(data);
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    return null;
  }
}

async function readChain(pack, manifest) {
  if (manifest === null) throw new Refusal("the manifest is not readable", "V.TRUST");
  const records = pack.rotations.map(decodeRotation);
  const keys = [records.length ? records[0].oldPk : manifest.hubPk];
  for (const record of records) {
    if (!same(record.hubId, pack.hubId)) throw new Refusal("a record of another log", "V.TRUST");
    if (!same(record.oldPk, keys.at(-1)) || keys.some((key) => same(key, record.newPk))) {
      throw new Refusal("a rotation record does not follow the one before", "V.TRUST");
    }
    await verifyRotation(record);
    keys.push(record.newPk);
  }
  if (!same(await ht("veen/hub-id", keys[0]), pack.hubId)) {
    throw new Refusal("hub_id is not that of the log's first key", "V.TRUST");
  }
  if (!keys.some((key) => same(key, manifest.hubPk))) {
    throw new Refusal("the manifest is by no key of this log", "V.TRUST");
  }
  const ended = new Map(records.map((record) => [hex(record.oldPk), record.manifestId]));
  return { keys: keys.map(hex), active: hex(keys.at(-1)), ended };
}

function checkTrust(fingerprint, chain) {
  if (chain === null) throw new Refusal("signer unknown: the pack does not say who", "V.TRUST");
  if (fingerprint === null) throw new Refusal("signer unknown: no fingerprint given", "V.TRUST");
  if (!chain.keys.includes(fingerprint)) {
    throw new Refusal("signer unknown: this fingerprint is none of the pack's hub", "V.TRUST");
  }
  return true;
}

// Which pinned key signed: the keys in use first, then those that were superseded.
async function signerOf(signed, signature, pins) {
  for (const key of [...pins.active, ...pins.ended.keys()]) {
    try {
      await verifySigned(signed, signature, unhex(key));
      return key;
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
    }
  }
  throw new Refusal("signed by no key that is pinned here", "V.TRUST");
}

async function verifyManifest(manifest, pins) {
  const key = hex(manifest.hubPk);
  const end = pins.ended.get(key);
  if (!pins.active.includes(key) && !(end && same(end, manifest.id))) {
    throw new Refusal("of no active key and no ended key's last one", "V.TRUST");
  }
  await verifySigned(manifest.signed, manifest.sig, manifest.hubPk, "veen/manifest");
  for (const checkpoint of manifest.checkpoints.values()) {
    await verifySigned(checkpoint.signed, checkpoint.hubSig, manifest.hubPk);
  }
  return true;
}

async function checkMessage(report, msg) {
  await report.check("integrity", "ct_hash is that of the ciphertext (I1)", async () => {
    if (!same(await sha256(msg.ciphertext), msg.ctHash)) {
      throw new Refusal("ct_hash is not the hash of the ciphertext");
    }
    return true;
  });
  await report.check("integrity", "message is signed by its client_id", async () => {
    await verifySigned(msg.signed, msg.sig, msg.clientId);
    return true;
  });
}

async function checkReceipt(report, receipt, msg, pins, trusted, proof) {
  const signer = await report.check("integrity", "receipt is signed by a pinned key",
    () => signerOf(receipt.signed, receipt.hubSig, pins));
  if (msg !== null) {
    await report.check("binding", "receipt is for this message (I2)", async () => {
      if (!same(msg.label, receipt.label) || !same(await leafHash(msg), receipt.leafHash)) {
        throw new Refusal("the receipt is for another message", "V.PROOF");
      }
      return true;
    });
  }
  if (signer !== null && pins.ended.has(signer)) {
    const name = "leaf is included under the last manifest of the superseded key";
    await report.check("integrity", name, async () => {
      if (trusted === null || !same(trusted.id, pins.ended.get(signer)) || proof === null) {
        throw new Refusal("needed: the manifest that ended the key, and a proof", "V.TRUST");
      }
      const checkpoint = trusted.checkpoints.get(hex(receipt.label));
      if (checkpoint === undefined || receipt.streamSeq > checkpoint.uptoSeq) {
        throw new Refusal("the receipt is later than the key's last manifest", "V.TRUST");
      }
      if (!same(proof.leafHash, receipt.leafHash)) throw new Refusal("another leaf", "V.PROOF");
      await verifyProof(proof, receipt.streamSeq, checkpoint.uptoSeq, checkpoint.mmrRoot);
      return true;
    });
  }
}

async function checkProof(report, proof, receipt, trusted) {
  if (receipt === null) {
    await report.check("position", "proof comes with the receipt of its place", () => {
      throw new Refusal("a proof carries no place; only the receipt says it", "V.PROOF");
    });
    return;
  }
  await report.check("binding", "proof is for the receipt's leaf", () => {
    if (!same(proof.leafHash, receipt.leafHash)) throw new Refusal("another leaf", "V.PROOF");
    return true;
  });
  const name = `leaf stands at ${receipt.streamSeq} under a signed root (I3)`;
  await report.check("position", name, async () => {
    const checkpoint = trusted?.checkpoints.get(hex(receipt.label));
    const roots = checkpoint ? [[checkpoint.uptoSeq, checkpoint.mmrRoot]] : [];
    roots.push([receipt.streamSeq, receipt.mmrRoot]);
    const reasons = [];
    for (const [size, root] of roots) {
      try {
        await verifyProof(proof, receipt.streamSeq, size, root);
        return true;
      } catch (refusal) {
        if (!(refusal instanceof Refusal)) throw refusal;
        reasons.push(`size ${size}: ${refusal.message}`);
      }
    }
    throw new Refusal(reasons.join("; "), "V.PROOF");
  });
}

// hub/verify.py, verify_evidence
async function checkEvidence(report, pack, pins) {
  const canonical = (what, decode, data) =>
    report.check("integrity", `${what} is canonical`, () => decode(data));
  const receipt = await canonical("receipt", decodeReceipt, pack.receipt);
  const msg = await canonical("message", decodeMsg, pack.msg);
  if (msg !== null) await checkMessage(report, msg);
  const proof = await canonical("proof", decodeProof, pack.proof);
  const manifest = await canonical("manifest", decodeManifest, pack.manifest);
  let isTrusted = false;
  if (manifest !== null) {
    isTrusted = await report.check("integrity",
      "manifest and its checkpoints are signed by a pinned key",
      () => verifyManifest(manifest, pins));
  }
  const trusted = isTrusted ? manifest : null;
  if (receipt === null && msg !== null) {
    await report.check("binding", "message comes with its receipt", () => {
      throw new Refusal("no receipt for this message is at hand", "V.PROOF");
    });
  }
  if (receipt !== null) await checkReceipt(report, receipt, msg, pins, trusted, proof);
  if (proof !== null) await checkProof(report, proof, receipt, trusted);
  return { receipt, msg, proof, manifest };
}

// What a pack promises beyond its pieces.
async function checkWhole(report, pack, { receipt, proof, manifest }) {
  const find = () => {
    const checkpoint = decodeCheckpoint(pack.checkpoint);
    if (manifest === null || receipt === null) throw new Refusal("not readable", "V.PROOF");
    const found = manifest.checkpoints.get(hex(receipt.label));
    if (found === undefined || !same(found.raw, pack.checkpoint)) {
      throw new Refusal("the manifest has another checkpoint for this label, or none", "V.PROOF");
    }
    return checkpoint;
  };
  const reach = async () => {
    const checkpoint = find();
    if (proof === null) throw new Refusal("the proof is not readable", "V.PROOF");
    await verifyProof(proof, receipt.streamSeq, checkpoint.uptoSeq, checkpoint.mmrRoot);
    return checkpoint;
  };
  const checkpoint =
    await report.check("binding", "checkpoint is the manifest's own for this label", find);
  await report.check("position", "proof reaches the manifest's checkpoint", reach);
  await report.check("consistency", "receipt's root follows from the same proof", async () => {
    const { uptoSeq } = await reach();
    if (!same(await earlierRoot(proof, receipt.streamSeq, uptoSeq), receipt.mmrRoot)) {
      throw new Refusal("the log of the receipt is no prefix of the checkpoint's", "V.PROOF");
    }
    return true;
  });
  return checkpoint;
}

// Judges the bytes of a pack; fingerprint is 64 hex digits of the hub's key, or null.
async function verifyPack(data, fingerprint) {
  const report = new Report();
  const outcome = { report, signer: "unknown", content: "sealed", pack: null };
  const pack = await report.check("integrity", "pack is canonical", () => decodePack(data));
  if (pack === null) return outcome;
  const manifest = await quietly(decodeManifest, pack.manifest);
  const chain = await report.check("consistency",
    "rotation records form one chain from the log's first key", () => readChain(pack, manifest));
  const trusted =
    await report.check("integrity", TRUSTED, () => checkTrust(fingerprint, chain));
  const pins = chain
    ? { active: [chain.active], ended: chain.ended }
    : { active: manifest ? [hex(manifest.hubPk)] : [], ended: new Map() };
  const parts = await checkEvidence(report, pack, pins);
  const checkpoint = await checkWhole(report, pack, parts);
  const reading = await readContent(report, parts.msg, pack.opening);
  return {
    ...outcome, ...parts, ...reading, pack, chain, checkpoint,
    signer: trusted ? "trusted" : "unknown",
  };
}
