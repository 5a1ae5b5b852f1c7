// The page: takes a file and a fingerprint, shows every check; texts go in as text, never as markup.

const BROWSERS = "Chrome or Edge 137, Firefox 129, Safari 17";
const state = { data: null, name: "", fingerprint: null, run: 0 };

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

// --- taking the file --------------------------------------------------------------------------

// The pack inside a page of ours; whatever else that page does, only these bytes are read from it.
function packInPage(text) {
  const found = /<script type="application\/vnd\.veen\.evidence" id="pack">([A-Za-z0-9+/=]*)<\//.exec(text);
  return found === null || !found[1] ? null : Uint8Array.from(atob(found[1]), (c) => c.charCodeAt(0));
}

async function readFile(file) {
  if (file.size > 2 * PACK_BYTES_MAX) throw new Refusal("no evidence pack is that large", "E.SIZE");
  const bytes = new Uint8Array(await file.arrayBuffer());
  const start = new TextDecoder().decode(bytes.subarray(0, 15)).toLowerCase();
  if (!start.startsWith("<!doctype html")) return bytes;
  const inside = packInPage(new TextDecoder().decode(bytes));
  if (inside === null) throw new Refusal("there is no evidence in this page");
  return inside;
}

async function takeFile(file) {
  state.name = file.name;
  try {
    state.data = await readFile(file);
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    state.data = null;
    showVerdict("not valid", refusal.message);
    return;
  }
  await judge();
}

function readFingerprint(text) {
  const digits = text.toLowerCase().replace(/[\s:.-]/g, "");
  return { digits, isHex: /^[0-9a-f]*$/.test(digits), isWhole: /^[0-9a-f]{64}$/.test(digits) };
}

async function takeFingerprint() {
  const { digits, isHex, isWhole } = readFingerprint(byId("fingerprint").value);
  state.fingerprint = isWhole ? digits : null;
  const said = !digits ? "" : !isHex ? "Only the digits 0 to 9 and a to f belong here."
    : isWhole ? "" : `${digits.length} of 64 digits`;
  byId("fingerprint-note").textContent = said;
  await judge();
}

// --- showing ----------------------------------------------------------------------------------

const SENTENCES = {
  valid: (o) => `Event ${o.receipt.streamSeq} of ${o.pack.stream} is in the log of the hub you ` +
    `trust, at exactly this place, under a root that this hub signed.`,
  "signer unknown": () => (state.fingerprint
    ? "The evidence fits together, but the fingerprint you typed is no key of the hub that signed " +
      "it: a typing error, or evidence of another hub."
    : "The evidence is whole and fits together. Whether the right hub signed it is open until " +
      "the fingerprint you were given by its operator is typed in."),
  "not valid": (o) => `${o.report.checks.filter((c) => !c.ok).length} of ` +
    `${o.report.checks.length} checks fail. Do not rely on this file.`,
};

function showVerdict(word, sentence) {
  const verdict = byId("verdict");
  verdict.className = `verdict is-${word.replace(" ", "-")}`;
  byId("word").textContent = word.toUpperCase();
  byId("sentence").textContent = sentence;
  document.title = `${word.toUpperCase()} · ${state.name || "VEEN evidence"}`;
}

function time(seconds) {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString().replace(".000Z", "Z");
}

function copied(text) {
  const button = element("button", { type: "button", class: "hash", title: `${text} (click: copy)` },
    shortHex(text));
  button.dataset.full = text;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.dataset.said = "copied";
    } catch {
      button.textContent = text; // No clipboard here: then at least in full.
    }
  });
  return button;
}

function rows(target, pairs) {
  target.replaceChildren(...pairs.filter(([, value]) => value !== null).flatMap(([name, value]) => [
    element("dt", {}, name), element("dd", {}, value)]));
}

const CONTENT = {
  sealed: "Content sealed. The maker of this pack did not disclose it; that the event exists, its " +
    "author, place and time are proven all the same.",
  refused: "The disclosed secret does not open this message.",
  unknown_schema: "Opened, but not an event of the recorder; its bytes are shown as they are.",
  undecodable: "Opened, but not what its schema promises; its bytes are shown as they are.",
  cap_mismatch: "Opened, but the author named another capability inside than outside.",
};

function showEvent(o) {
  const event = o.event ?? {};
  rows(byId("fields"), [
    ["event_type", event.event_type ?? null],
    ["subject_id", event.subject_id ?? null],
    ["origin", event.origin ?? null],
    ["event_time", event.event_time ?? null],
    ["hub_commit_seq", o.receipt ? String(o.receipt.streamSeq) : null],
    ["hub_commit_time", o.receipt ? time(o.receipt.hubTs) : null],
    ["principal_id", o.msg ? copied(hex(o.msg.clientId)) : null],
    ["stream", o.pack ? element("span", {}, o.pack.stream,
      element("small", {}, " as the maker of the pack calls it")) : null],
  ]);
  byId("content-note").textContent = CONTENT[o.content] ?? "";
  byId("content-note").hidden = o.content === "opened";
  const body = o.event ? o.event.payload_lines.join("\n")
    : o.body ? hex(o.body.subarray(0, 4096)).replace(/.{64}/g, "$&\n") : "";
  byId("payload").textContent = body;
  byId("payload-box").hidden = !body;
}

function showIds(o) {
  rows(byId("ids"), [
    ["log (hub_id)", o.pack ? copied(hex(o.pack.hubId)) : null],
    ["signed by", o.manifest ? copied(hex(o.manifest.hubPk)) : null],
    ["key changes", o.chain ? String(o.chain.keys.length - 1) : null],
    ["label", o.receipt ? copied(hex(o.receipt.label)) : null],
    ["leaf_hash", o.receipt ? copied(hex(o.receipt.leafHash)) : null],
    ["manifest_id", o.manifest ? copied(hex(o.manifest.id)) : null],
    ["manifest made", o.manifest ? time(o.manifest.createdAt) : null],
    ["covers up to", o.checkpoint ? `sequence ${o.checkpoint.uptoSeq}` : null],
    ["mmr_root", o.checkpoint ? copied(hex(o.checkpoint.mmrRoot)) : null],
  ]);
}

function showChecks(o) {
  const verdicts = o.report.verdicts();
  if (o.report.word() === "signer unknown") verdicts.integrity = "signer unknown";
  byId("verdicts").replaceChildren(...VERDICTS.map((verdict) => element("li",
    { class: `chip is-${verdicts[verdict].replace(" ", "-")}` },
    element("b", {}, verdict), element("span", {}, verdicts[verdict]))));
  byId("check-list").replaceChildren(...o.report.checks.map((check) => {
    const kind = check.ok ? "ok" : check.name === TRUSTED ? "open" : "bad";
    return element("li", { class: `check is-${kind}` },
      element("span", { class: "mark", "aria-hidden": "true" }, ""),
      element("div", {},
        element("b", {}, check.name),
        element("span", { class: "sr-only" }, { ok: " holds", open: " is open", bad: " fails" }[kind]),
        element("p", {}, check.detail || MEANING[meaningKey(check.name)] || "")),
      element("span", { class: "kind" }, check.verdict));
  }));
}

async function showTree(o) {
  const part = byId("tree-part");
  part.hidden = !(o.proof && o.receipt && o.checkpoint);
  if (part.hidden) return;
  const walk = await walkProof(o.proof, o.receipt.streamSeq, o.checkpoint.uptoSeq);
  const { drawing, words } = drawTree(walk, o.checkpoint.mmrRoot);
  byId("tree").replaceChildren(drawing);
  byId("tree-words").textContent = words;
}

async function judge() {
  if (state.data === null) return;
  state.run += 1;
  const { run } = state;
  let outcome;
  try {
    outcome = await verifyPack(state.data, state.fingerprint);
  } catch (failure) {
    showVerdict("not valid", failure.name === "NotSupportedError"
      ? `This browser has no Ed25519; use ${BROWSERS} or newer.` : `An error of ours: ${failure}`);
    return;
  }
  if (run !== state.run) return; // Something newer was given meanwhile.
  byId("file-name").textContent = `${state.name || "embedded pack"}, ${state.data.length} bytes`;
  showVerdict(outcome.report.word(), SENTENCES[outcome.report.word()](outcome));
  showEvent(outcome);
  showIds(outcome);
  showChecks(outcome);
  await showTree(outcome);
  document.body.classList.add("is-judged");
}

// --- start ------------------------------------------------------------------------------------

function listen() {
  const zone = byId("drop");
  byId("file").addEventListener("change", (event) => {
    if (event.target.files.length) takeFile(event.target.files[0]);
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      zone.classList.toggle("is-over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) takeFile(event.dataTransfer.files[0]);
    });
  }
  byId("fingerprint").addEventListener("input", takeFingerprint);
}

async function begin() {
  if (!globalThis.crypto?.subtle) {
    showVerdict("not valid", `This browser has no WebCrypto here; use ${BROWSERS} or newer.`);
    return;
  }
  listen();
  const inside = byId("pack").textContent.trim();
  if (inside) {
    state.data = Uint8Array.from(atob(inside), (char) => char.charCodeAt(0));
    document.body.classList.add("is-embedded");
  }
  await takeFingerprint();
}

// For whoever wants to check this page: its parts, to be called from the console.
globalThis.veen = Object.freeze({
  verifyPack, packInPage, hex, unhex, sha256, ht, verifySignature, keySchedule, chacha20, poly1305,
  chachaBlock, hchacha20, openChaCha, openXChaCha, openMessage, decodePack, decodeMsg,
  decodeReceipt, decodeCheckpoint, decodeManifest, decodeRotation, verifyRotation, decodeProof,
  verifyProof, earlierRoot, decodeHeader, decodeEvent, checkCanonicalJson, leafHash,
});
begin();
