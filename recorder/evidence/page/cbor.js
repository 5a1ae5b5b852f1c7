// The strict reader of hub/wire/cbor.py: definite lengths, minimal heads, nothing behind the end.

class Refusal extends Error {
  constructor(detail, code = "E.FORMAT") {
    super(`${code}: ${detail}`);
    this.code = code;
  }
}

const BSTR = 2, TSTR = 3, ARRAY = 4, MAP = 5, NULL = 0xf6;

class Reader {
  constructor(data) {
    this.data = data;
    this.pos = 0;
  }

  remain() {
    return this.data.length - this.pos;
  }

  // Numbers have 64 bits on the wire, so they are BigInt until they are known to be small.
  head(major) {
    const at = this.pos;
    if (this.remain() < 1) throw new Refusal(`truncated at byte ${at}`);
    const first = this.data[at];
    if (first >> 5 !== major) {
      throw new Refusal(`byte ${at}: major type ${first >> 5}, expected ${major}`);
    }
    const info = first & 31;
    this.pos += 1;
    if (info < 24) return BigInt(info);
    if (info > 27) throw new Refusal(`byte ${at}: indefinite or reserved length`);
    const width = 1 << (info - 24);
    if (this.remain() < width) throw new Refusal(`truncated at byte ${at}`);
    let number = 0n;
    for (let i = 0; i < width; i += 1) number = (number << 8n) | BigInt(this.data[this.pos + i]);
    if (number < 24n || (width > 1 && number >> BigInt(4 * width) === 0n)) {
      throw new Refusal(`byte ${at}: integer is not minimal`);
    }
    this.pos += width;
    return number;
  }

  uint({ exactly = null, maximum = null } = {}) {
    const at = this.pos;
    const number = this.head(0);
    if (exactly !== null && number !== BigInt(exactly)) {
      throw new Refusal(`byte ${at}: ${number}, expected ${exactly}`);
    }
    if (maximum !== null && number > BigInt(maximum)) {
      throw new Refusal(`byte ${at}: ${number} is over ${maximum}`);
    }
    return number;
  }

  // A length is compared with what remains before anything is cut off.
  take(major, size, maximum) {
    const at = this.pos;
    const length = this.head(major);
    if (size !== null && length !== BigInt(size)) {
      throw new Refusal(`byte ${at}: ${length} bytes, expected ${size}`);
    }
    if (maximum !== null && length > BigInt(maximum)) {
      throw new Refusal(`byte ${at}: ${length} bytes, at most ${maximum}`);
    }
    if (length > BigInt(this.remain())) {
      throw new Refusal(`byte ${at}: ${length} bytes claimed, ${this.remain()} remain`);
    }
    const start = this.pos;
    this.pos += Number(length);
    return this.data.subarray(start, this.pos);
  }

  bstr(size = null, maximum = null) {
    return this.take(BSTR, size, maximum);
  }

  tstr(maximum = null) {
    const at = this.pos;
    const bytes = this.take(TSTR, null, maximum);
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new Refusal(`byte ${at}: text is not UTF-8`);
    }
  }

  bstrOrNull(size) {
    if (this.remain() < 1) throw new Refusal(`truncated at byte ${this.pos}`);
    if (this.data[this.pos] !== NULL) return this.bstr(size);
    this.pos += 1;
    return null;
  }

  array(length) {
    const at = this.pos;
    const claimed = this.head(ARRAY);
    if (claimed !== BigInt(length)) {
      throw new Refusal(`byte ${at}: array of ${claimed}, expected ${length}`);
    }
    return this;
  }

  lengthOf(major, minimum, maximum, itemBytes) {
    const at = this.pos;
    const length = this.head(major);
    if (length < BigInt(minimum) || length > BigInt(maximum)) {
      throw new Refusal(`byte ${at}: ${length} items, allowed ${minimum} to ${maximum}`);
    }
    if (length * BigInt(itemBytes) > BigInt(this.remain())) {
      throw new Refusal(`byte ${at}: ${length} items claimed, too few bytes remain`);
    }
    return Number(length);
  }

  arrayLength(minimum, maximum) {
    return this.lengthOf(ARRAY, minimum, maximum, 1);
  }

  mapLength(minimum, maximum) {
    return this.lengthOf(MAP, minimum, maximum, 2);
  }

  key(number) {
    this.uint({ exactly: number });
    return this;
  }

  name(text) {
    const at = this.pos;
    if (this.tstr(256) !== text) throw new Refusal(`byte ${at}: expected key ${text}`);
    return this;
  }

  // Trailing bytes would give one object two encodings.
  end() {
    if (this.remain() > 0) throw new Refusal(`${this.remain()} trailing bytes`);
  }
}
