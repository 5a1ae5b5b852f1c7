// ChaCha20-Poly1305 and XChaCha20-Poly1305, which WebCrypto does not have (RFC 8439, XChaCha draft).

function rotated(word, bits) {
  return (word << bits) | (word >>> (32 - bits));
}

function quarterRound(s, a, b, c, d) {
  s[a] += s[b]; s[d] = rotated(s[d] ^ s[a], 16);
  s[c] += s[d]; s[b] = rotated(s[b] ^ s[c], 12);
  s[a] += s[b]; s[d] = rotated(s[d] ^ s[a], 8);
  s[c] += s[d]; s[b] = rotated(s[b] ^ s[c], 7);
}

function twentyRounds(state) {
  for (let round = 0; round < 10; round += 1) {
    quarterRound(state, 0, 4, 8, 12);
    quarterRound(state, 1, 5, 9, 13);
    quarterRound(state, 2, 6, 10, 14);
    quarterRound(state, 3, 7, 11, 15);
    quarterRound(state, 0, 5, 10, 15);
    quarterRound(state, 1, 6, 11, 12);
    quarterRound(state, 2, 7, 8, 13);
    quarterRound(state, 3, 4, 9, 14);
  }
}

function littleWords(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Uint32Array.from({ length: bytes.length / 4 }, (_, at) => view.getUint32(4 * at, true));
}

function littleBytes(words) {
  const bytes = new Uint8Array(4 * words.length);
  const view = new DataView(bytes.buffer);
  words.forEach((word, at) => view.setUint32(4 * at, word, true));
  return bytes;
}

const SIGMA = littleWords(utf8.encode("expand 32-byte k"));

function initialState(key, last16) {
  const state = new Uint32Array(16);
  state.set(SIGMA);
  state.set(littleWords(key), 4);
  state.set(littleWords(last16), 12);
  return state;
}

function chachaBlock(key, counter, nonce) {
  const start = initialState(key, joined(littleBytes(Uint32Array.of(counter)), nonce));
  const state = Uint32Array.from(start);
  twentyRounds(state);
  return littleBytes(state.map((word, at) => word + start[at]));
}

function chacha20(key, counter, nonce, data) {
  const out = new Uint8Array(data.length);
  for (let at = 0; at < data.length; at += 64) {
    const block = chachaBlock(key, counter + at / 64, nonce);
    const end = Math.min(at + 64, data.length);
    for (let i = at; i < end; i += 1) out[i] = data[i] ^ block[i - at];
  }
  return out;
}

function hchacha20(key, nonce16) {
  const state = initialState(key, nonce16);
  twentyRounds(state);
  return joined(littleBytes(state.subarray(0, 4)), littleBytes(state.subarray(12, 16)));
}

function littleNumber(bytes) {
  let number = 0n;
  for (let at = bytes.length - 1; at >= 0; at -= 1) number = (number << 8n) | BigInt(bytes[at]);
  return number;
}

const POLY_PRIME = (1n << 130n) - 5n;

function poly1305(key, data) {
  const r = littleNumber(key.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
  let sum = 0n;
  for (let at = 0; at < data.length; at += 16) {
    const block = data.subarray(at, at + 16);
    const number = littleNumber(block) | (1n << BigInt(8 * block.length));
    sum = ((sum + number) * r) % POLY_PRIME;
  }
  let tag = (sum + littleNumber(key.subarray(16))) & ((1n << 128n) - 1n);
  return Uint8Array.from({ length: 16 }, () => {
    const byte = Number(tag & 255n);
    tag >>= 8n;
    return byte;
  });
}

function padded16(data) {
  return joined(data, new Uint8Array(-data.length & 15));
}

// RFC 8439 2.8; the tag stands behind the ciphertext.
function openChaCha(key, nonce12, sealed, aad) {
  if (sealed.length < 16) throw new Refusal(`does not open: ${sealed.length} bytes`);
  const body = sealed.subarray(0, sealed.length - 16);
  const sizes = new Uint8Array(16);
  const view = new DataView(sizes.buffer);
  view.setBigUint64(0, BigInt(aad.length), true);
  view.setBigUint64(8, BigInt(body.length), true);
  const polyKey = chachaBlock(key, 0, nonce12).subarray(0, 32);
  const tag = poly1305(polyKey, joined(padded16(aad), padded16(body), sizes));
  if (!same(tag, sealed.subarray(sealed.length - 16))) {
    throw new Refusal("does not open: wrong key, or changed bytes");
  }
  return chacha20(key, 1, nonce12, body);
}

function openXChaCha(key, nonce24, sealed, aad) {
  const nonce12 = joined(new Uint8Array(4), nonce24.subarray(16));
  return openChaCha(hchacha20(key, nonce24.subarray(0, 16)), nonce12, sealed, aad);
}
