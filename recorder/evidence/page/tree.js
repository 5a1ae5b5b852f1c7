// The proof as a drawing: from the leaf at the bottom, step by step, to the signed root at the top.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 720, ROW = 64, MIDDLE = WIDTH / 2, ASIDE = 200;

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shortHex(bytes) {
  const text = typeof bytes === "string" ? bytes : hex(bytes);
  return text.length > 16 ? `${text.slice(0, 8)}…${text.slice(-4)}` : text;
}

// A box with a hash in it; the whole hash is its title.
function box(x, y, kind, label, bytes) {
  const width = 150, height = 38;
  return svg("g", { class: `node ${kind}`, transform: `translate(${x} ${y})` },
    svg("title", {}, `${label}: ${hex(bytes)}`),
    svg("rect", { x: -width / 2, y: -height / 2, width, height, rx: 7 }),
    svg("text", { class: "what", y: -3 }, label),
    svg("text", { class: "hash", y: 13 }, shortHex(bytes)));
}

function line(x1, y1, x2, y2, kind = "") {
  const bend = (y1 + y2) / 2;
  return svg("path", { class: `edge ${kind}`, d: `M${x1} ${y1}C${x1} ${bend} ${x2} ${bend} ${x2} ${y2}` });
}

function drawPeaks(walk, y, holds) {
  // Trees stand from the tallest on the left to the smallest on the right, as the log grew.
  const peaks = walk.peaks.map((bytes, at) => ({ bytes, mine: at === walk.rank })).reverse();
  const gap = Math.min(170, (WIDTH - 160) / Math.max(1, peaks.length - 1));
  const start = MIDDLE - (gap * (peaks.length - 1)) / 2;
  const edges = [], nodes = [];
  const compact = gap < 156;
  let mine = MIDDLE;
  peaks.forEach((peak, at) => {
    const x = start + at * gap;
    if (peak.mine) mine = x;
    edges.push(line(x, y - 19, MIDDLE, y - ROW - 10, peak.mine ? "run" : ""));
    if (!compact || peak.mine) {
      const mineIs = walk.steps.length ? "our peak" : `leaf ${walk.seq}`;
      nodes.push(box(x, y, peak.mine ? "run" : "peak", peak.mine ? mineIs : "peak", peak.bytes));
    } else {
      nodes.push(svg("g", { class: "node peak", transform: `translate(${x} ${y})` },
        svg("title", {}, `peak: ${hex(peak.bytes)}`), svg("circle", { r: Math.min(9, gap / 3) })));
    }
  });
  // Our own box is drawn last, so that it covers its neighbours and not they it.
  nodes.sort((a, b) => a.classList.contains("run") - b.classList.contains("run"));
  const root = box(MIDDLE, y - ROW - 29, holds ? "root" : "root bad", "root", walk.root);
  return { edges, nodes: [...nodes, root], mine };
}

function drawTree(walk, signedRoot) {
  const holds = signedRoot !== null && same(walk.root, signedRoot);
  const levels = walk.steps.length;
  const single = walk.peaks.length === 1;
  const bottom = levels * ROW + (single ? 60 : 60 + ROW + 29);
  const edges = [], nodes = [];
  let x = MIDDLE, y = bottom - 30;
  const peakY = y - levels * ROW;
  const above = single ? null : drawPeaks(walk, peakY, holds);
  nodes.push(box(x, y, levels ? "leaf" : "leaf run", `leaf ${walk.seq}`, walk.leaf));
  walk.steps.forEach((step, at) => {
    const side = step.dir ? -1 : 1;
    const isLast = at === levels - 1;
    const parentX = isLast && above ? above.mine : MIDDLE;
    const up = y - ROW;
    edges.push(line(x, y - 19, parentX, up + 19, "run"));
    edges.push(line(x + side * ASIDE, y - 19, parentX, up + 19));
    const sibX = Math.max(80, Math.min(WIDTH - 80, x + side * ASIDE));
    nodes.push(box(sibX, y, "sib", step.dir ? "earlier part" : "later part", step.sib));
    if (!isLast) nodes.push(box(parentX, up, "run", `level ${at + 1}`, step.parent));
    x = parentX;
    y = up;
  });
  if (above) {
    edges.push(...above.edges);
    nodes.push(...above.nodes);
    if (!levels) nodes.shift(); // The leaf is a peak itself and stands among the peaks.
  } else if (levels) {
    nodes.push(box(x, y, holds ? "root" : "root bad", "root", walk.root));
  } else {
    nodes[0] = box(x, y, holds ? "root" : "root bad", `leaf ${walk.seq} = root`, walk.root);
  }
  const words = `The leaf at ${walk.seq} is folded with ${levels} hashes to a peak, which with ` +
    `${walk.peaks.length - 1} other peaks gives the root of ${walk.size} messages; it ` +
    `${holds ? "is" : "is not"} the root that the hub signed.`;
  return {
    words,
    drawing: svg("svg", { viewBox: `0 0 ${WIDTH} ${bottom}`, class: holds ? "tree" : "tree is-broken", role: "img",
      "aria-label": words }, ...edges, ...nodes),
  };
}
