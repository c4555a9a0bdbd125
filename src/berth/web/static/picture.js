// The picture of a cluster: domains, nodes, their pods, and a tray for pods without a node. Whoever draws it says how:
// `colour`, which pods are `broken`, `moved`, found (`match`), and what is `chosen`.

import { plural, bytes, cores } from "./dom.js";
import { store, shortKey } from "./store.js";
import { colorOf, nameColors, theme, PHASES } from "./colors.js";
import { split } from "./counting.js";
import { CanvasPainter, SvgPainter } from "./painters.js";
import { domainsOf, layout, allNodes } from "./layout.js";

export const FULL = [[0.95, "bad"], [0.8, "warn"], [0, "accent"]]; // from which use on a node is drawn how
const HOLLOW = ["Pending", "Terminating", "NotReady"];
const EDGE = 8, TRAY = { head: 20, pad: 6, gap: 9, rows: 3 };

export const keyOf = (pod) => `${pod.namespace}/${pod.name}`;
export const workloadOf = (pod) => `${pod.namespace}/${pod.workload}`;
export const nameWorkloads = () => nameColors("workload", new Set([...store.pods.values()].map(workloadOf)));
// What a pod is called where it is coloured by that; undefined if it breaks no rule.
export const NAMED = {
  workload: workloadOf, namespace: (pod) => pod.namespace, phase: (pod) => pod.phase, rule: (pod, broken) => broken.get(keyOf(pod))?.rule,
};
export const domainOf = (path) => `domain:${path.map((each) => each.join("=")).join(",")}`;

export function pictureOf(nodes, keys, podsOf, { width, height, waiting = [], count = (node) => podsOf.get(node.name)?.length ?? 0 }) {
  const root = domainsOf(nodes, keys);
  const drawn = layout(root, count, width, height, nodes.length);
  return { ...drawn, root, podsOf, ...tray(drawn, waiting, width) };
}

// Pods that have no node lie below the nodes.
function tray({ mode, width, height }, pods, room) {
  if (!pods.length) return { tray: null };
  const pod = mode.name ? mode.pod : Math.max(mode.pod, 10), podWidth = mode.name ? mode.podWidth : pod, gap = mode.name ? mode.gap : 2;
  const across = Math.max(1, Math.floor((Math.max(width, Math.min(room, 400)) - 2 * TRAY.pad + gap) / (podWidth + gap)));
  const rows = Math.min(TRAY.rows, Math.ceil(pods.length / across));
  const h = TRAY.head + 2 * TRAY.pad + rows * (pod + gap) - gap;
  const own = { x: 0, y: height + TRAY.gap, w: Math.max(width, Math.min(room, 400)), h, across, pods, mode: { pod, podWidth, gap, head: TRAY.head, pad: TRAY.pad, name: mode.name } };
  return { tray: own, width: Math.max(width, own.w), height: height + TRAY.gap + h };
}

export const sizeOf = ({ width, height }) => [width + 2 * EDGE, height + 2 * EDGE];

export const drawOn = (canvas, picture, how) => paint(new CanvasPainter(canvas, ...sizeOf(picture)), picture, how);

// A drawing of its own, in which nothing is chosen.
export function svgOf(picture, how) {
  const painter = new SvgPainter(...sizeOf(picture), theme().card);
  paint(painter, picture, { ...how, chosen: "" });
  return painter.svg;
}

function paint(painter, picture, how) {
  const colors = theme();
  for (const domain of picture.domains) paintDomain(painter, domain, picture, how, colors);
  for (const part of picture.nodes) paintNode(painter, part, picture.mode, picture.podsOf.get(part.node.name) ?? [], how, colors);
  if (picture.tray) paintTray(painter, picture.tray, how, colors);
}

function paintDomain(painter, domain, { podsOf }, { match, chosen }, colors) {
  const x = domain.x + EDGE, y = domain.y + EDGE, own = allNodes(domain);
  const is = domainOf(domain.path) === chosen;
  painter.rect(x, y, domain.w, domain.h, { fill: domain.path.length % 2 ? colors.sunk : colors.card, stroke: is ? colors.accent : colors.line, line: is ? 2 : 1, radius: 6 });
  if ((domain.top ?? 20) < 12) return;
  const pods = own.flatMap((node) => podsOf.get(node.name) ?? []), found = match ? pods.filter(match).length : 0;
  const there = own.filter((node) => !node.absent).length;
  const words = match ? `${found.toLocaleString("en")} found` : `${plural(there, "node")} · ${plural(pods.length, "pod")}`;
  const short = match ? String(found) : `${there} · ${pods.length}`, name = domain.name || `no ${shortKey(domain.key)}`;
  const count = [words, short].find((each) => domain.w > 24 + name.length * 7.4 + each.length * 6.2);
  if (count) painter.text(x + domain.w - 7, y + 11, count, { fill: match && found ? colors.accent : colors.soft, size: 11, weight: match && found ? 600 : 400, align: "right" });
  painter.text(x + 6, y + 11, name, { fill: colors.text, size: 12, weight: 600, room: domain.w - 10 });
}

function paintTray(painter, tray, how, colors) {
  const x = tray.x + EDGE, y = tray.y + EDGE;
  painter.rect(x, y, tray.w, tray.h, { stroke: colors.bad, radius: 6, dash: [5, 4] });
  painter.text(x + 7, y + 12, `✕ ${plural(tray.pods.length, "pod")} without a node`, { fill: colors.bad, size: 12, weight: 600 });
  paintPods(painter, tray, tray.mode, tray.pods, how, colors);
}

function paintNode(painter, part, mode, pods, how, colors) {
  const { node } = part, { chosen, match, colour } = how, x = part.x + EDGE, y = part.y + EDGE;
  const bad = node.state !== "Ready", closed = node.unschedulable, is = chosen === `node:${node.name}`;
  if (node.absent) {
    painter.rect(x, y, part.w, part.h, { stroke: is ? colors.accent : colors.line, line: is ? 2 : 1, radius: mode.pod ? 4 : 2, dash: [3, 3] });
    if (mode.head) painter.text(x + mode.pad, y + mode.head / 2 + 2, `${node.absent}: ${node.name}`, { fill: colors.soft, size: 11, room: part.w - 2 * mode.pad });
    return;
  }
  const plain = colour === "use" && !match, edge = is ? colors.accent : bad ? colors.bad : closed ? colors.warn : node.changed ? colors.accent : undefined;
  if (!mode.pod) {
    const { fill, mark } = cellColor(pods, how, colors);
    painter.rect(x, y, part.w, part.h, { fill });
    if (plain) level(painter, x, y, part.w, part.h, shareOf(node, pods), colors, node.was);
    painter.rect(x, y, part.w, part.h, { stroke: is ? colors.text : edge, line: is ? 2 : 1.5, radius: 2 });
    if (mark || bad) painter.line(x + 2, y + part.h - 2, x + part.w - 2, y + 2, colors.bad, 1.5);
    return;
  }
  painter.rect(x, y, part.w, part.h, { fill: colors.card, stroke: edge ?? colors.line, line: is ? 2.5 : edge ? 1.5 : 1, radius: 4, dash: closed && !is ? [4, 3] : undefined });
  if (mode.head) nodeHead(painter, part, mode, shareOf(node, pods), colors);
  else if (bad) painter.line(x, y + part.h, x + part.w, y, colors.bad, 1.5);
  if (!plain) { paintPods(painter, part, mode, pods, how, colors); return; }
  const top = mode.head ? mode.head + 2 : 1, share = shareOf(node, pods);
  level(painter, x + 1.5, y + top, part.w - 3, part.h - top - 1.5, share, colors, node.was);
  if (mode.head) painter.text(x + mode.pad, y + part.h - 11, plural(pods.length, "pod"), { fill: colors.text, size: 11, room: part.w - 2 * mode.pad });
}

function nodeHead(painter, { node, x, y, w }, mode, share, colors) {
  const bad = node.state !== "Ready", middle = y + EDGE + mode.head / 2 + 2, percent = `${Math.round(100 * share)} %`;
  const mark = bad ? "✕ " : node.unschedulable ? "⊘ " : "";
  painter.text(x + EDGE + w - mode.pad, middle, percent, { fill: colors.soft, size: 10, align: "right" });
  const [, name] = FULL.find(([from]) => share >= from), wide = w - 2 * mode.pad;
  painter.rect(x + EDGE + mode.pad, y + EDGE + mode.head + 1, wide, 2, { fill: colors.sunk });
  if (share) painter.rect(x + EDGE + mode.pad, y + EDGE + mode.head + 1, wide * Math.min(share, 1), 2, { fill: colors[name] });
  painter.text(x + EDGE + mode.pad, middle, mark + node.name, { fill: bad ? colors.bad : colors.soft, size: 11, room: w - 2 * mode.pad - 34 });
}

// As many pods as there is room for, and how many more there are.
function paintPods(painter, part, mode, pods, how, colors) {
  const x = part.x + EDGE + mode.pad, y = part.y + EDGE + mode.head + mode.pad;
  const across = mode.podWidth + mode.gap, down = mode.pod + mode.gap;
  const rows = Math.max(1, Math.floor((part.h - mode.head - 2 * mode.pad + mode.gap) / down)), most = part.across * rows;
  const shown = pods.length > most && mode.pod > 8 ? most - 1 : most;
  const placeOf = (i) => [x + (i % part.across) * across, y + Math.floor(i / part.across) * down];
  pods.slice(0, shown).forEach((pod, i) => paintPod(painter, pod, ...placeOf(i), mode, how, colors));
  if (shown < most) {
    const [px, py] = placeOf(shown);
    painter.text(px + mode.podWidth / 2, py + mode.pod / 2, `+${pods.length - shown}`, { fill: colors.soft, size: 9, align: "center" });
  }
}

function paintPod(painter, pod, x, y, mode, { colour, match, chosen, broken, moved }, colors) {
  const key = keyOf(pod), w = mode.podWidth, faint = match && !match(pod);
  const fill = faint ? colors.sunk : podColor(pod, colour, colors, broken), hollow = HOLLOW.includes(pod.phase);
  const ring = chosen === `pod:${key}` || moved?.has(key) ? colors.text : undefined, radius = mode.pod > 6 ? 3 : 0;
  if (mode.name) {
    painter.rect(x, y, w, mode.pod, { fill: hollow ? colors.card : mixed(colors.card, fill, 0.28), stroke: ring ?? (hollow ? fill : undefined), line: ring ? 2 : 1.5, radius, dash: hollow && !ring ? [3, 2] : undefined });
    painter.rect(x, y, 5, mode.pod, { fill, radius: 2 });
    painter.text(x + 9, y + mode.pod / 2 + 0.5, nameOf(pod), { fill: faint ? colors.soft : colors.text, size: 11, room: w - 12 });
  } else painter.rect(x, y, w, mode.pod, { fill: hollow ? colors.card : fill, stroke: ring ?? (hollow ? fill : undefined), line: 2, radius });
  if (!faint && broken.has(key) && mode.pod > 5) painter.line(x, y, x + (mode.name ? 5 : w), y + mode.pod, mode.name ? colors.bad : colors.card, 1.5);
}

// A pod of a deployment without the hash that all its pods have.
function nameOf({ name, workload }) {
  const owner = workload.slice(workload.indexOf("/") + 1), last = name.lastIndexOf("-");
  return workload.startsWith("Deployment/") && last > owner.length && name.startsWith(`${owner}-`) ? `${owner} ${name.slice(last + 1)}` : name;
}

// How full a node is, as a vessel would show it; what it has got since it `was` less full stands out.
function level(painter, x, y, w, h, share, colors, was = share) {
  const [, name] = FULL.find(([from]) => share >= from);
  if (h < 14) { painter.rect(x, y, w, h, { fill: mixed(colors.sunk, colors[name], share ? 0.12 + 0.78 * Math.min(share, 1) : 0), radius: 2 }); return; }
  const tall = Math.max(h * Math.min(share, 1), share ? 1 : 0);
  painter.rect(x, y + h - tall, w, tall, { fill: mixed(colors.card, colors[name], 0.45) });
  if (was < share) painter.rect(x, y + h - tall, w, Math.max(1, tall - h * was), { fill: colors[name] });
}

function cellColor(pods, { match, colour, broken }, colors) {
  const shown = match ? pods.filter(match) : pods;
  if (colour === "rule") {
    const first = shown.find((pod) => broken.has(keyOf(pod)));
    return { fill: first ? podColor(first, colour, colors, broken) : shown.length ? colors.line : colors.sunk, mark: Boolean(first) };
  }
  if (match) return { fill: mixed(colors.sunk, colors.accent, shown.length ? 0.4 + 0.6 * (shown.length / pods.length) : 0) };
  if (colour === "use") return { fill: colors.sunk };
  const most = new Map();
  for (const pod of shown) { const own = podColor(pod, colour, colors, broken); most.set(own, (most.get(own) ?? 0) + 1); }
  const top = [...most].sort((a, b) => b[1] - a[1])[0];
  return { fill: top ? top[0] : colors.sunk };
}

export function podColor(pod, colour, colors, broken) {
  if (colour === "phase") return colors[PHASES[pod.phase] ?? "soft"];
  if (colour === "use") return colors.accent;
  const name = NAMED[colour](pod, broken);
  return name === undefined ? colors.line : colorOf(colour, name);
}

// How much of a node is asked for: what is known of it, or else what its pods ask for.
function shareOf(node, pods) {
  const sum = (of) => pods.reduce((total, pod) => total + pod[of], 0);
  return node.share ?? Math.max(node.cpu ? sum("cpu") / node.cpu : 0, node.memory ? sum("memory") / node.memory : 0);
}

export function mixed(from, to, share) {
  const parse = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(",")})`;
}

// What is at a point of the picture, as an address has it; `pods`: whether they are drawn.
function hit(picture, left, top, pods = true) {
  if (!picture) return null;
  const x = left - EDGE, y = top - EDGE;
  const inside = (part) => x >= part.x && y >= part.y && x <= part.x + part.w && y <= part.y + part.h;
  if (picture.tray && inside(picture.tray)) return podAt(picture.tray, picture.tray.mode, picture.tray.pods, x, y);
  const part = picture.nodes.find(inside);
  if (!part) {
    const domain = picture.domains.filter(inside).pop();
    return domain ? domainOf(domain.path) : null;
  }
  return (pods && picture.mode.pod > 3 && podAt(part, picture.mode, picture.podsOf.get(part.node.name) ?? [], x, y)) || `node:${part.node.name}`;
}

function podAt(part, mode, pods, x, y) {
  const column = Math.floor((x - part.x - mode.pad) / (mode.podWidth + mode.gap)), row = Math.floor((y - part.y - mode.head - mode.pad) / (mode.pod + mode.gap));
  const pod = column >= 0 && column < part.across && row >= 0 ? pods[row * part.across + column] : undefined;
  return pod ? `pod:${keyOf(pod)}` : null;
}

// What the mouse is over, in words.
function told(picture, found) {
  if (!found) return "";
  const [kind, name] = split(found, ":");
  if (kind === "domain") return name.split(",").map((each) => split(each, "=")).map(([key, value]) => `${shortKey(key)} ${value}`).join(", ");
  if (kind === "node") {
    const { node } = picture.nodes.find((part) => part.node.name === name), pods = picture.podsOf.get(name) ?? [];
    const state = [node.absent, !node.absent && node.state !== "Ready" && "not ready", node.unschedulable && "cordoned"].filter(Boolean);
    return [name, ...state, !node.absent && plural(pods.length, "pod"), !node.absent && `${Math.round(100 * shareOf(node, pods))} % asked for`].filter(Boolean).join(" · ");
  }
  const pod = [...(picture.tray?.pods ?? []), ...[...picture.podsOf.values()].flat()].find((each) => keyOf(each) === name);
  return pod ? `${name} · ${pod.workload} · ${pod.phase} · ${cores(pod.cpu)} cpu, ${bytes(pod.memory)}` : name;
}

// The next node in the direction of an arrow key; null if the key steers nothing.
function steered({ nodes }, chosen, key) {
  const at = nodes.findIndex((part) => chosen === `node:${part.node.name}`), steps = { ArrowRight: 1, ArrowLeft: -1 };
  let next = steps[key] ? at + steps[key] : -1;
  if (key === "ArrowDown" || key === "ArrowUp") {
    const own = nodes[Math.max(at, 0)], sign = key === "ArrowDown" ? 1 : -1;
    const others = nodes.map((part, i) => [i, (part.y - own.y) * sign, Math.abs(part.x - own.x)]).filter(([, dy]) => dy > 2);
    next = others.sort((a, b) => a[1] + a[2] * 2 - b[1] - b[2] * 2)[0]?.[0] ?? at;
  }
  return next < 0 || next >= nodes.length ? null : `node:${nodes[next].node.name}`;
}

// Lets a reader steer in the picture on a canvas: what the mouse is over is told, a click or an arrow key takes it.
// `shown` says which picture that is, whether its pods are drawn, and what is chosen.
export function steer(canvas, shown, take) {
  let last;
  const over = ({ offsetX, offsetY }) => hit(shown().picture, offsetX, offsetY, shown().pods);
  canvas.addEventListener("click", (event) => {
    const found = over(event);
    if (found) take(found);
  });
  canvas.addEventListener("mousemove", (event) => {
    const found = over(event);
    if (found !== last) canvas.title = told(shown().picture, (last = found));
    canvas.classList.toggle("over", Boolean(found));
  });
  canvas.addEventListener("keydown", (event) => {
    const next = steered(shown().picture, shown().chosen, event.key);
    if (next) { event.preventDefault(); take(next); }
  });
}
