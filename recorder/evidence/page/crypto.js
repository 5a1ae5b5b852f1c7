// Hashes, signatures and the HPKE key schedule over WebCrypto; nothing here is ours but the order.

const utf8 = new TextEncoder();

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function unhex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function same(a, b) {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

function u64be(number) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(number));
  return bytes;
}

async function sha256(data) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
}

// Ht(tag, x) = H(utf8(tag) || 0x00 || x)
async function ht(tag, ...parts) {
  return sha256(joined(utf8.encode(tag), new Uint8Array(1), ...parts));
}

async function hmac(key, data) {
  // WebCrypto takes no empty key; HMAC fills a short one up with zeros anyway.
  const raw = key.length ? key : new Uint8Array(64);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", raw, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

// Points of small order, as their 255 bits of y: with such a key one signature fits many messages.
const SMALL_ORDER = [
  "00".repeat(32),
  "01" + "00".repeat(31),
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ec" + "ff".repeat(30) + "7f",
  "ed" + "ff".repeat(30) + "7f",
  "ee" + "ff".repeat(30) + "7f",
];

function isSoundPoint(bytes) {
  const y = Uint8Array.from(bytes);
  y[31] &= 0x7f;
  const isOverPrime = y[31] === 0x7f && y[0] >= 0xed && y.subarray(1, 31).every((b) => b === 0xff);
  return !isOverPrime && !SMALL_ORDER.includes(hex(y));
}

// Refuses unless publicKey signed exactly this digest.
async function verifySignature(publicKey, signature, digest) {
  let holds = isSoundPoint(publicKey) && isSoundPoint(signature.subarray(0, 32));
  if (holds) {
    try {
      const usages = ["verify"];
      const key = await crypto.subtle.importKey("raw", publicKey, "Ed25519", false, usages);
      holds = await crypto.subtle.verify("Ed25519", key, signature, digest);
    } catch (flaw) {
      if (flaw.name === "NotSupportedError") throw flaw;
      holds = false; // Bytes that are no point of the curve.
    }
  }
  if (!holds) throw new Refusal("signature does not verify", "E.SIG");
}

// --- HPKE base mode from a disclosed shared secret (RFC 9180; hub/crypto/hpke.py) -------------

const SUITE = joined(utf8.encode("HPKE-v1HPKE"), Uint8Array.of(0, 0x20, 0, 1, 0, 3));
const EMPTY = new Uint8Array(0);

async function expand(prk, label, info, length) {
  const size = Uint8Array.of(length >> 8, length & 255);
  const input = joined(size, SUITE, utf8.encode(label), info, Uint8Array.of(1));
  return (await hmac(prk, input)).subarray(0, length);
}

async function keySchedule(sharedSecret) {
  const pskHash = await hmac(EMPTY, joined(SUITE, utf8.encode("psk_id_hash")));
  const infoHash = await hmac(EMPTY, joined(SUITE, utf8.encode("info_hash")));
  const context = joined(Uint8Array.of(0), pskHash, infoHash);
  const secret = await hmac(sharedSecret, joined(SUITE, utf8.encode("secret")));
  const exporter = await expand(secret, "exp", context, 32);
  return {
    key: await expand(secret, "key", context, 32),
    nonce: await expand(secret, "base_nonce", context, 12),
    exporter,
    bodyKey: await expand(exporter, "sec", utf8.encode("veen/body-k"), 32),
  };
}
