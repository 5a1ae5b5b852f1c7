// The mmr_proof and its binding to a position: every length and side follows from the two sizes.

function bitLength(number) {
  return number.toString(2).length * (number > 0n);
}

function bitCount(number) {
  return [...number.toString(2)].filter((bit) => bit === "1").length;
}

function mask(height) {
  return (1n << BigInt(height)) - 1n;
}

async function nodeHash(left, right) {
  return ht("veen/mmr-node", left, right);
}

async function bag(peaks) {
  return peaks.length === 1 ? peaks[0] : ht("veen/mmr-root", ...peaks);
}

function peakHeight(index, size) {
  return bitLength(index ^ size) - 1;
}

function peakRank(height, size) {
  return bitCount(size & mask(height));
}

function decodeProof(data) {
  const r = new Reader(data);
  r.mapLength(4, 4);
  r.key(1).uint({ exactly: 1 });
  const proof = { leafHash: r.key(2).bstr(32) };
  const steps = r.key(3).arrayLength(0, 64);
  proof.path = Array.from({ length: steps }, () => {
    r.mapLength(2, 2);
    return { dir: Number(r.key(1).uint({ maximum: 1 })), sib: r.key(2).bstr(32) };
  });
  const peaks = r.key(4).arrayLength(0, 64);
  proof.peaksAfter = Array.from({ length: peaks }, () => r.bstr(32));
  r.end();
  return proof;
}

// Refuses unless the proof's leaf stands at seq (1-based) of the log of `size` leaves and this root.
async function verifyProof(proof, seq, size, root) {
  if (seq < 1n || seq > size) throw new Refusal(`no sequence ${seq} in a log of ${size}`, "V.PROOF");
  const index = seq - 1n;
  const height = peakHeight(index, size);
  if (proof.peaksAfter.length !== bitCount(size) - 1) {
    throw new Refusal(`${proof.peaksAfter.length} other peaks do not fit size ${size}`, "V.PROOF");
  }
  if (proof.path.length !== height) {
    throw new Refusal(`path of ${proof.path.length} steps, ${height} are asked for`, "V.PROOF");
  }
  let node = proof.leafHash;
  for (const [level, { dir, sib }] of proof.path.entries()) {
    if (BigInt(dir) !== ((index & mask(height)) >> BigInt(level) & 1n)) {
      throw new Refusal(`step ${level} goes to the wrong side`, "V.PROOF");
    }
    node = dir ? await nodeHash(sib, node) : await nodeHash(node, sib);
  }
  const rank = peakRank(height, size);
  const peaks = [...proof.peaksAfter.slice(0, rank), node, ...proof.peaksAfter.slice(rank)];
  if (!same(await bag(peaks), root)) {
    throw new Refusal("the proof does not reproduce the root", "V.PROOF");
  }
}

// The root of the log of `seq` leaves, from a proof of its last leaf in one of `size`.
async function earlierRoot(proof, seq, size) {
  const index = seq - 1n;
  const height = peakHeight(index, size);
  const place = index & mask(height);
  let node = proof.leafHash;
  const peaks = [];
  for (const [level, { sib }] of proof.path.entries()) {
    if ((place >> BigInt(level) & 1n) === 0n) continue; // What stands to the right came later.
    if ((place & mask(level)) === mask(level)) node = await nodeHash(sib, node);
    else peaks.push(sib);
  }
  return bag([node, ...peaks, ...proof.peaksAfter.slice(peakRank(height, size))]);
}

// Every hash on the way, for the drawing; it judges nothing.
async function walkProof(proof, seq, size) {
  const steps = [];
  let node = proof.leafHash;
  for (const { dir, sib } of proof.path) {
    const parent = dir ? await nodeHash(sib, node) : await nodeHash(node, sib);
    steps.push({ dir, sib, node, parent });
    node = parent;
  }
  const rank = Math.min(peakRank(proof.path.length, size), proof.peaksAfter.length);
  const peaks = [...proof.peaksAfter.slice(0, rank), node, ...proof.peaksAfter.slice(rank)];
  return { leaf: proof.leafHash, seq, size, steps, peaks, rank, root: await bag(peaks) };
}
