// What a disclosed secret shows: header and body of this one message, and the event inside.

// profile_id to pad_block, for the profiles that a hub takes by default.
const PAD_BLOCKS = new Map([
  ["7b6d324dfa79bdc2928558b784ca937eae43f94534dbe8ad2693ae2033240be1", 0],
  ["97cc14b67f5d900b91289748f05ecabc3e4b898dcee3698aa3d1f1a9697b72b9", 256],
  ["090c739907912130e1baa30fffc8e928caa36834ee72683d09ba1fa2b240364e", 1024],
]);
const EVENT_SCHEMA = "6daf7fd2d1a9cd4905e9b52e610b3072b4c14f9bcfe64b587808f5bf9ca8b62e";
const EVENT_TYPE = /^[A-Za-z0-9._:-]{1,128}$/;
const EVENT_TIME_MAX = 253402300799999n;
const TEXT_BYTES_MAX = 512;

function splitCiphertext(data, padBlock) {
  if (data.length < 40) throw new Refusal("ciphertext is shorter than its prefix");
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const hdr = view.getUint32(32), body = view.getUint32(36);
  if (hdr > HDR_BYTES_MAX || body > BODY_BYTES_MAX) throw new Refusal("over its limit", "E.SIZE");
  const end = 40 + hdr + body;
  if (end > data.length) throw new Refusal("header and body end behind the ciphertext");
  if (padBlock && data.length % padBlock) throw new Refusal(`not a multiple of ${padBlock}`);
  if (data.subarray(end).some((byte) => byte !== 0)) throw new Refusal("padding is not zero");
  return { header: data.subarray(40, 40 + hdr), body: data.subarray(40 + hdr, end) };
}

async function openMessage(msg, sharedSecret) {
  if (msg === null) throw new Refusal("the message itself is not readable", "V.PROOF");
  const padBlock = PAD_BLOCKS.get(hex(msg.profileId));
  if (padBlock === undefined) throw new Refusal(`profile_id ${hex(msg.profileId)}`, "E.PROFILE");
  const parts = splitCiphertext(msg.ciphertext, padBlock);
  const [seq, ack] = [u64be(msg.clientSeq), u64be(msg.prevAck)];
  const ref = msg.authRef ?? new Uint8Array(32);
  const aad = await ht("veen/aad", msg.profileId, msg.label, msg.clientId, seq, ack, ref);
  const keys = await keySchedule(sharedSecret);
  const header = decodeHeader(openChaCha(keys.key, keys.nonce, parts.header, aad));
  const nonce = (await ht("veen/nonce", msg.label, ack, msg.clientId, seq)).subarray(0, 24);
  return { header, body: openXChaCha(keys.bodyKey, nonce, parts.body, aad) };
}

function decodeEvent(data) {
  const r = new Reader(data);
  r.mapLength(5, 5);
  const event = {
    subject_id: r.name("subject_id").tstr(TEXT_BYTES_MAX),
    event_type: r.name("event_type").tstr(),
    event_time: r.name("event_time").uint({ maximum: EVENT_TIME_MAX }),
    origin: r.name("origin").tstr(TEXT_BYTES_MAX),
    payload: r.name("payload").tstr(),
  };
  r.end();
  if (!EVENT_TYPE.test(event.event_type)) throw new Refusal("event_type has other characters");
  if (/\0/.test(event.subject_id + event.origin)) throw new Refusal("U+0000 in a field");
  event.payload_lines = checkCanonicalJson(event.payload);
  event.event_time = new Date(Number(event.event_time)).toISOString();
  return event;
}

// --- canonical JSON (hub/canonical_json.py): the text is refused unless it is its own spelling --

const JSON_DEPTH_MAX = 64, EXPONENT_MAX = 400;
const JSON_STRING = /"(?:[^"\\\u0000-\u001f]|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))*"/y;
const JSON_NUMBER = /-?(0|[1-9][0-9]*)(?:\.([0-9]*[1-9]))?(?![0-9.eE+-])/y;

function checkNumber([text, whole, fraction = ""]) {
  if (text === "-0") throw new Refusal("-0 is spelled 0");
  const exponent = whole === "0" ? -(fraction.search(/[1-9]/) + 1) : whole.length - 1;
  if (exponent > EXPONENT_MAX || exponent < -EXPONENT_MAX) throw new Refusal("out of range");
}

function isAfter(key, last) {
  const [a, b] = [utf8.encode(key), utf8.encode(last)];
  const at = a.findIndex((byte, i) => byte !== b[i]);
  return at >= 0 && (at >= b.length || a[at] > b[at]);
}

// Reads one value without recursion over the text's length; returns indented lines for people.
function checkCanonicalJson(text) {
  let at = 0;
  const lines = [""];
  const put = (piece) => { lines[lines.length - 1] += piece; };
  const line = (depth) => lines.push("  ".repeat(depth));

  function cut(pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found !== null) at = pattern.lastIndex;
    return found;
  }

  function string() {
    const found = cut(JSON_STRING);
    if (found === null) throw new Refusal(`JSON at ${at}`);
    put(found[0]);
    return JSON.parse(found[0]);
  }

  function members(depth, close, readOne) {
    if (depth >= JSON_DEPTH_MAX) throw new Refusal("JSON is nested too deep");
    put(text[at]);
    at += 1;
    if (text[at] === close) {
      put(close);
      at += 1;
      return;
    }
    for (;;) {
      line(depth + 1);
      readOne();
      if (text[at] !== ",") break;
      put(",");
      at += 1;
    }
    if (text[at] !== close) throw new Refusal(`JSON at ${at}`);
    at += 1;
    line(depth);
    put(close);
  }

  function object(depth) {
    let last = null;
    members(depth, "}", () => {
      const key = string();
      if (last !== null && !isAfter(key, last)) throw new Refusal("keys are not in order");
      last = key;
      if (text[at] !== ":") throw new Refusal(`JSON at ${at}`);
      at += 1;
      put(": ");
      value(depth + 1);
    });
  }

  function value(depth) {
    const first = text[at];
    if (first === "{") return object(depth);
    if (first === "[") return members(depth, "]", () => value(depth + 1));
    if (first === '"') return string();
    for (const word of ["true", "false", "null"]) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return put(word);
      }
    }
    const number = cut(JSON_NUMBER);
    if (number === null) throw new Refusal(`JSON at ${at}`);
    checkNumber(number);
    return put(number[0]);
  }

  value(0);
  if (at !== text.length) throw new Refusal("more than one JSON value");
  return lines;
}

// --- the reading, as recorder/evidence/content.py ---------------------------------------------

async function readContent(report, msg, opening) {
  if (opening === null) return { content: "sealed", event: null };
  const opened = await report.check("integrity", "disclosed secret opens the message",
    () => openMessage(msg, opening));
  if (opened === null) return { content: "refused", event: null };
  const ref = opened.header.capRef;
  const isMismatch = ref !== null && (msg.authRef === null || !same(ref, msg.authRef));
  await report.check("binding", "cap_ref is the message's auth_ref", () => {
    if (isMismatch) throw new Refusal("another capability inside than outside", "V.PROOF");
    return true;
  });
  const schema = hex(opened.header.schema);
  const found = { content: "unknown_schema", event: null, schema, body: opened.body };
  if (schema !== EVENT_SCHEMA) return found;
  try {
    const event = decodeEvent(opened.body);
    return isMismatch ? { ...found, content: "cap_mismatch" } : { ...found, content: "opened", event };
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    return { ...found, content: "undecodable" };
  }
}
