// Where everything goes: domains within domains, nodes in them, pods in those; sizes follow the number of nodes.

import { grouped, ORDER } from "./counting.js";

// Few nodes are drawn with their names and pods, one below the other as far as it takes: pods with their names where
// there is room for that, else as squares. `pods` are the sizes, the best first; `name` is the least width of a name.
const square = (pod) => ({ pod, gap: Math.round(pod / 5) });
const LARGE = [
  { most: 12, least: 150, head: 20, pad: 6, pods: [{ pod: 21, gap: 3, name: 96 }, square(18), square(13)] },
  { most: 48, least: 128, head: 17, pad: 5, pods: [square(14), square(10)] },
];
const MOST_ROWS = 12; // of pods in a node
const PHONE = 500; // up to which width whoever reads has to scroll anyway
const HEAD = 20, PAD = 7, SPACE = 8, NONE = "";
// Many nodes are cells that fit the screen; as long as cells are large enough they show their pods.
const SMALLEST = 6, LARGEST = 64, WITH_PODS = 22;

// The domain of all nodes, with domains by the first key in it, by the next key in those; the innermost have the nodes.
export function domainsOf(nodes, [key, ...keys], path = []) {
  const [own, name] = path.at(-1) ?? ["", ""], order = (a, b) => ORDER.compare(a.name, b.name);
  if (key === undefined) return { name, key: own, path, children: [], nodes: nodes.toSorted(order) };
  const children = [...grouped(nodes, (node) => node.labels[key] ?? NONE)].map(([value, those]) => domainsOf(those, keys, [...path, [key, value]]));
  return { name, key: own, path, children: children.sort((a, b) => (a.name === NONE) - (b.name === NONE) || order(a, b)), nodes: [] };
}

export function allNodes(domain) {
  return domain.children.length ? domain.children.flatMap(allNodes) : domain.nodes;
}

// Where everything goes; `count` says how many pods a node is to have room for.
export function layout(root, count, width, height, all) {
  const found = LARGE.find((each) => all <= each.most);
  const drawn = found ? large(root, found, count, width, height) : fitted(root, width, height);
  return { ...drawn, domains: collect(root, "domain"), nodes: collect(root, "node") };
}

function large(root, { pods, ...common }, count, width, height) {
  let how;
  const tall = () => measured(root, how, width, 0).h;
  for (const size of pods) {
    how = { mode: { ...common, ...size, width: common.least, rows: 2 }, count };
    // As wide as the nodes may be without another row of them.
    const least = tall();
    for (let wider = 3; wider >= 1; wider -= 0.05) {
      how.mode.width = Math.round(common.least * wider);
      if (tall() <= least + 1 && root.w <= width) break;
    }
    if (tall() <= height) break;
  }
  // What is left of the screen is the nodes'.
  while (how.mode.rows < 4 && width > PHONE && tall() <= height) how.mode.rows += 1;
  while (how.mode.rows > 2 && tall() > height) how.mode.rows -= 1;
  tall();
  move(root, 0, 0);
  return { mode: how.mode, width: Math.max(root.w, 200), height: root.h };
}

// --- few nodes: every part gets its size first, with its children placed relative to it, and then its place ------

function measured(domain, how, width, depth) {
  const top = depth ? HEAD : 0, pad = depth ? PAD : 0;
  const inner = Math.max(width - 2 * pad, how.mode.width);
  const parts = domain.children.length ? domain.children : domain.nodes.map((node) => ({ node }));
  const space = domain.children.length ? SPACE : 5;
  // Children share the width: side by side where they fit, so that zones can be compared.
  const share = Math.max((inner - (parts.length - 1) * SPACE) / parts.length, how.mode.width + 2 * PAD);
  let x = 0, y = 0, row = 0, widest = 0;
  domain.parts = parts;
  for (const part of parts) {
    const size = part.node ? box(part, how) : measured(part, how, share, depth + 1);
    if (x > 0 && x + size.w > inner + 0.5) { x = 0; y += row + space; row = 0; }
    part.dx = pad + x;
    part.dy = top + pad + y;
    x += size.w + space;
    row = Math.max(row, size.h);
    widest = Math.max(widest, x - space);
  }
  level(domain);
  domain.w = widest + 2 * pad;
  domain.h = top + 2 * pad + y + row;
  return domain;
}

// Domains of one row are drawn equally high.
function level(domain) {
  const rows = new Map();
  for (const child of domain.children) rows.set(child.dy, Math.max(rows.get(child.dy) ?? 0, child.h));
  for (const child of domain.children) child.h = rows.get(child.dy);
}

function box(part, { mode, count }) {
  part.w = mode.width;
  const inner = mode.width - 2 * mode.pad + mode.gap;
  part.across = Math.max(1, Math.floor(inner / ((mode.name ?? mode.pod) + mode.gap)));
  mode.podWidth = mode.name ? inner / part.across - mode.gap : mode.pod;
  const rows = Math.max(mode.rows, Math.ceil(count(part.node) / part.across));
  part.h = mode.head + 2 * mode.pad + Math.min(rows, MOST_ROWS) * (mode.pod + mode.gap) - mode.gap;
  return part;
}

function move(domain, x, y) {
  domain.x = x;
  domain.y = y;
  for (const part of domain.parts) part.node ? Object.assign(part, { x: x + part.dx, y: y + part.dy }) : move(part, x + part.dx, y + part.dy);
}

// --- many nodes: a map that fills the screen, domains by their number of nodes ------------------------------------

function fitted(root, width, height) {
  for (let tall = Math.max(height, 240); ; tall *= 1.25) {
    divide(root, 0, 0, width, tall, 0);
    const leaves = leavesOf(root);
    const cell = Math.min(LARGEST, ...leaves.map((leaf) => cellOf(leaf.inner, leaf.nodes.length)));
    if (cell < SMALLEST && tall < 40 * height) continue;
    leaves.forEach((leaf) => grid(leaf, Math.max(cell, 1)));
    const gap = cell > 12 ? 3 : 1;
    const pod = cell >= WITH_PODS ? 4 : 0;
    return { mode: { width: cell - gap, pod, podWidth: pod, gap: 1, head: 0, pad: 2 }, width, height: tall };
  }
}

function divide(domain, x, y, w, h, depth) {
  const top = depth ? Math.min(HEAD, h / 3) : 0, pad = depth ? (w > 60 && h > 60 ? 5 : 2) : 0;
  Object.assign(domain, { x, y, w, h, top });
  domain.inner = { x: x + pad, y: y + top + (top ? 0 : pad), w: Math.max(w - 2 * pad, 1), h: Math.max(h - top - pad, 1) };
  if (domain.children.length) squarified(domain.children.map((child) => [child, allNodes(child).length]), { ...domain.inner }, depth + 1);
}

// Rows of parts whose rectangles are as square as they can be, in the order in which the parts are given.
function squarified(parts, free, depth) {
  let rest = parts;
  while (rest.length) {
    const total = rest.reduce((sum, [, size]) => sum + size, 0);
    const wide = free.w >= free.h, side = wide ? free.h : free.w, long = wide ? free.w : free.h;
    let count = 1, best = Infinity;
    for (let n = 1; n <= rest.length; n++) {
      const row = rest.slice(0, n), sum = row.reduce((all, [, size]) => all + size, 0), thick = (long * sum) / total;
      const worst = Math.max(...row.map(([, size]) => { const along = (side * size) / sum; return Math.max(along / thick, thick / along); }));
      if (worst > best) break;
      [count, best] = [n, worst];
    }
    const row = rest.slice(0, count), sum = row.reduce((all, [, size]) => all + size, 0), thick = (long * sum) / total;
    let at = wide ? free.y : free.x;
    for (const [part, size] of row) {
      const along = (side * size) / sum, gap = 4;
      if (wide) divide(part, free.x, at, Math.max(thick - gap, 4), Math.max(along - gap, 4), depth);
      else divide(part, at, free.y, Math.max(along - gap, 4), Math.max(thick - gap, 4), depth);
      at += along;
    }
    if (wide) { free.x += thick; free.w -= thick; } else { free.y += thick; free.h -= thick; }
    rest = rest.slice(count);
  }
}

function cellOf({ w, h }, number) {
  let best = 0;
  for (let across = 1; across <= number; across++) {
    const size = Math.min(w / across, h / Math.ceil(number / across));
    if (size < best) break;
    best = size;
  }
  return Math.floor(best);
}

function grid(leaf, cell) {
  const across = Math.max(1, Math.floor(leaf.inner.w / cell)), size = cell - (cell > 12 ? 3 : 1);
  leaf.parts = leaf.nodes.map((node, i) => ({
    node, x: leaf.inner.x + (i % across) * cell, y: leaf.inner.y + Math.floor(i / across) * cell, w: size, h: size,
    across: Math.max(1, Math.floor((size - 3) / 5)),
  }));
}

const leavesOf = (domain) => (domain.children.length ? domain.children.flatMap(leavesOf) : [domain]);

function collect(domain, what) {
  const own = what === "domain" ? (domain.key ? [domain] : []) : (domain.parts ?? []).filter((part) => part.node);
  return [...own, ...domain.children.flatMap((child) => collect(child, what))];
}
