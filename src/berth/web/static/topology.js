// Nodes nested by any labels, pods in them, coloured by what the reader asks for.

import { h, replace, select, search, exporting, same, plural, link, podLink, podPath, nodePath, meter, bytes, cores, table } from "./dom.js";
import { store, ask, shortKey, longKey } from "./store.js";
import { colorOf, nameColors, theme, PHASES, onTheme } from "./colors.js";
import { CanvasPainter, SvgPainter } from "./painters.js";
import { domainsOf, layout, allNodes } from "./layout.js";
import { attention, look } from "./attention.js";

const COLOURS = [["workload", "workload"], ["namespace", "namespace"], ["phase", "phase"], ["rule", "broken rule"], ["use", "use of the node"]];
const COMMANDS = { rule: "audit" };
const HOLLOW = ["Pending", "Terminating", "NotReady"];
const HOLD = "all rules hold";
const SIGNS = () => h("span", {}, "hollow: not ready yet, or ending · dashed ⊘: cordoned · ✕ or struck: not ready");
const FEW = 48; // nodes up to which workloads can be told apart by their colours
const FULL = [[0.95, "bad"], [0.8, "warn"], [0, "accent"]]; // from which use on a node is drawn how

export function topology(view, query, go) {
  const keys = (query.get("by") ?? defaultKeys()).split(",").filter(Boolean).map(longKey);
  const colour = query.get("color") ?? (store.nodes.size > FEW ? "use" : "workload");
  const filter = query.get("find") ?? "";
  const chosen = query.get("at") ?? "";
  const state = { broken: new Map(), picture: null };

  const canvas = h("canvas", { tabindex: 0, role: "img" });
  const holder = h("div", { class: "drawing" }, canvas);
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Legend: press to find" });
  const details = h("aside", { "aria-label": "Details" });
  const domains = h("div");
  const to = (changes) => go("/topology", { by: keys.map(shortKey).join(","), color: colour, find: filter, at: chosen, ...changes });

  replace(view,
    h("div", { class: "bar" },
      nesting(keys, to), select("Colour by", colour, COLOURS, (value) => to({ color: value })),
      search("Find pods", filter, "name, workload, namespace=, label=value", (value) => to({ find: value })),
      exporting("topology", () => ask(colour === "rule" ? "audit" : "simulation"), () => svg())),
    h("div", { class: "split" }, h("div", {}, holder, legend, h("details", {}, h("summary", {}, "Domains as a table"), domains)), details),
    same(`berth ${COMMANDS[colour] ?? "simulate"} ${store.source.command} -o json`));

  function draw() {
    if (!holder.isConnected) return;
    const podsOf = store.podsByNode();
    const match = matcher(filter, state.broken);
    if (colour === "workload") nameColors(new Set([...store.pods.values()].map((pod) => `${pod.namespace}/${pod.workload}`)));
    const root = domainsOf(store.nodes.values(), keys);
    const picture = (state.picture = { ...layout(root, podsOf, holder.clientWidth - 18, innerHeight - 270, store.nodes.size), podsOf, match, root, pods: colour !== "use" || match });
    paint(new CanvasPainter(canvas, picture.width + 16, picture.height + 16), picture, colour, state.broken, chosen);
    canvas.setAttribute("aria-label", `${plural(store.nodes.size, "node")} and ${plural(store.pods.size, "pod")} by ${keys.map(shortKey).join(", ") || "nothing"}. Arrow keys choose a node, Enter opens it.`);
    replace(legend, legendOf(podsOf, match, colour, state.broken, filter, to));
    replace(domains, domainTable(root, podsOf, to));
    replace(details, detailsOf(chosen, podsOf, root, match, filter, to));
    if (!store.nodes.size && !store.source.loading) replace(legend, h("p", { class: "empty" }, store.source.live ? "The cluster has no nodes." : "There are no nodes in these files: dump them, too (kubectl get nodes,pods -A -o json)."));
    if (!chosen && !filter) look(() => details.isConnected && replace(details, detailsOf(chosen, store.podsByNode(), root, match, filter, to)));
  }

  function svg() {
    const { width, height } = state.picture;
    const painter = new SvgPainter(width + 16, height + 16, theme().card);
    paint(painter, state.picture, colour, state.broken, "");
    return painter.toString();
  }

  canvas.addEventListener("click", (event) => {
    const found = hit(state.picture, event.offsetX - 8, event.offsetY - 8);
    if (found) to({ at: found });
  });
  canvas.addEventListener("mousemove", (event) => {
    const found = hit(state.picture, event.offsetX - 8, event.offsetY - 8);
    canvas.title = found?.replace(/^[a-z]+:/, "") ?? "";
  });
  canvas.addEventListener("keydown", (event) => steer(event, state.picture, chosen, to, go));
  if (colour === "rule")
    ask("audit").then(({ violations }) => {
      for (const each of violations) {
        const pod = `${each.namespace}/${each.pod}`;
        if (each.hard && !state.broken.has(pod)) state.broken.set(pod, each);
      }
      draw();
    }, (error) => replace(legend, h("span", { class: "bad-text" }, error.message)));
  onTheme(draw);
  const resized = new ResizeObserver(() => draw());
  resized.observe(holder);
  draw();
  return { change: draw, end: () => resized.disconnect() };
}

function defaultKeys() {
  const known = store.labelKeys();
  return ["region", "zone"].filter((key) => (known.get(longKey(key))?.size ?? 0) > 1).join(",");
}

function nesting(keys, to) {
  const known = [...store.labelKeys()].filter(([key, values]) => !keys.includes(key) && values.size < store.nodes.size)
    .sort((a, b) => a[1].size - b[1].size || a[0].localeCompare(b[0]));
  const set = (found) => to({ by: found.map(shortKey).join(",") });
  return h("div", { role: "group", "aria-label": "Nest by" }, h("div", { class: "soft" }, "Nest by"),
    h("div", { class: "chips" },
      keys.map((key, i) => [i > 0 && h("span", { class: "arrow", "aria-hidden": "true" }, "→"),
        h("span", { class: "chip" }, shortKey(key),
          h("button", { type: "button", "aria-label": `Do not nest by ${shortKey(key)}`, onclick: () => set(keys.filter((each) => each !== key)) }, "×"))]),
      h("select", { "aria-label": "Add a label to nest by", onchange: (event) => event.target.value && set([...keys, event.target.value]) },
        h("option", { value: "" }, keys.length ? "then by …" : "choose a label …"),
        known.map(([key, values]) => h("option", { value: key }, `${shortKey(key)} (${values.size})`)))));
}

// Every word must fit: key=value of the pod, its labels or its node's, or a part of its name.
function matcher(filter, broken) {
  const words = filter.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return (pod) => words.every((word) => {
    const [key, value] = word.split("=");
    if (value !== undefined) {
      if (key === "namespace") return pod.namespace.toLowerCase() === value;
      if (key === "workload") return pod.workload.toLowerCase() === value;
      if (key === "phase") return pod.phase.toLowerCase() === value;
      if (key === "node") return pod.node.toLowerCase() === value;
      if (key === "rule") return broken.get(`${pod.namespace}/${pod.name}`)?.rule.toLowerCase() === value;
      if (key === "state") return isIn(store.nodes.get(pod.node), value);
      const labels = [...Object.entries(pod.labels), ...Object.entries(store.nodes.get(pod.node)?.labels ?? {})];
      return labels.some(([each, own]) => (each.toLowerCase() === key || shortKey(each) === key) && own.toLowerCase() === value);
    }
    return `${pod.namespace}/${pod.name} ${pod.workload}`.toLowerCase().includes(word);
  });
}

function isIn(node, state) {
  return Boolean(node) && (state === "cordoned" ? node.unschedulable : state === "notready" ? node.state !== "Ready" : node.state.toLowerCase() === state);
}

function podColor(pod, colour, colors, broken) {
  if (colour === "namespace") return colorOf(pod.namespace);
  if (colour === "phase") return colors[PHASES[pod.phase] ?? "soft"];
  if (colour === "rule") { const own = broken.get(`${pod.namespace}/${pod.name}`); return own ? colorOf(`rule ${own.rule}`) : colors.line; }
  if (colour === "use") return colors.accent;
  return colorOf(`${pod.namespace}/${pod.workload}`);
}

function paint(painter, { mode, domains, nodes, podsOf, match }, colour, broken, chosen) {
  const colors = theme();
  for (const domain of domains) {
    const x = domain.x + 8, y = domain.y + 8;
    const own = allNodes(domain);
    const pods = own.reduce((sum, node) => sum + (podsOf.get(node.name)?.length ?? 0), 0);
    const is = `domain:${domain.path.map((each) => each.join("=")).join(",")}` === chosen;
    painter.rect(x, y, domain.w, domain.h, { fill: domain.path.length % 2 ? colors.sunk : colors.card, stroke: is ? colors.accent : colors.line, line: is ? 2 : 1, radius: 6 });
    if ((domain.top ?? 20) < 12) continue;
    const found = match ? own.reduce((sum, node) => sum + (podsOf.get(node.name)?.filter(match).length ?? 0), 0) : 0;
    const words = match ? `${found.toLocaleString("en")} found` : `${plural(own.length, "node")} · ${plural(pods, "pod")}`;
    const short = match ? String(found) : `${own.length} · ${pods}`, name = domain.name || `no ${shortKey(domain.key)}`;
    const count = [words, short].find((each) => domain.w > 24 + name.length * 7.4 + each.length * 6.2);
    if (count) painter.text(x + domain.w - 7, y + 11, count, { fill: match && found ? colors.accent : colors.soft, size: 11, weight: match && found ? 600 : 400, align: "right" });
    painter.text(x + 6, y + 11, name, { fill: colors.text, size: 12, weight: 600, room: domain.w - 10 });
  }
  for (const part of nodes) paintNode(painter, part, mode, podsOf.get(part.node.name) ?? [], match, colour, colors, broken, chosen);
}

function paintNode(painter, part, mode, pods, match, colour, colors, broken, chosen) {
  const { node } = part, x = part.x + 8, y = part.y + 8;
  const bad = node.state !== "Ready", closed = node.unschedulable;
  const is = chosen === `node:${node.name}`;
  if (!mode.pod) {
    const { fill, mark } = cellColor(pods, match, colour, colors, broken);
    painter.rect(x, y, part.w, part.h, { fill });
    if (colour === "use" && !match) level(painter, x, y, part.w, part.h, use(node, pods), colors);
    painter.rect(x, y, part.w, part.h, { stroke: is ? colors.text : bad ? colors.bad : closed ? colors.warn : undefined, line: is ? 2 : 1.5, radius: 2 });
    if (mark || bad) painter.line(x + 2, y + part.h - 2, x + part.w - 2, y + 2, colors.bad, 1.5);
    return;
  }
  painter.rect(x, y, part.w, part.h, { fill: colors.card, stroke: is ? colors.accent : bad ? colors.bad : closed ? colors.warn : colors.line, line: is ? 2.5 : bad || closed ? 1.5 : 1, radius: 4, dash: closed && !is ? [4, 3] : undefined });
  if (mode.head) {
    const mark = bad ? "✕ " : closed ? "⊘ " : "";
    painter.text(x + mode.pad, y + mode.head / 2 + 2, mark + node.name, { fill: bad ? colors.bad : colors.soft, size: mode.head > 15 ? 11 : 10, room: part.w - 2 * mode.pad });
  } else if (bad) painter.line(x, y + part.h, x + part.w, y, colors.bad, 1.5);
  if (colour === "use" && !match) {
    const top = mode.head ? mode.head + 2 : 1, share = use(node, pods);
    level(painter, x + 1.5, y + top, part.w - 3, part.h - top - 1.5, share, colors);
    if (mode.head) painter.text(x + mode.pad, y + part.h - 11, `${Math.round(100 * share)} % · ${plural(pods.length, "pod")}`, { fill: colors.text, size: 11, room: part.w - 2 * mode.pad });
    return;
  }
  const step = mode.pod + mode.gap, most = part.across * Math.max(1, Math.floor((part.h - mode.head - 2 * mode.pad + mode.gap) / step));
  pods.slice(0, most).forEach((pod, i) => {
    const px = x + mode.pad + (i % part.across) * step, py = y + mode.head + mode.pad + Math.floor(i / part.across) * step;
    const faint = match && !match(pod);
    const fill = faint ? colors.sunk : podColor(pod, colour, colors, broken);
    const hollow = HOLLOW.includes(pod.phase);
    painter.rect(px, py, mode.pod, mode.pod, { fill: hollow ? colors.card : fill, stroke: hollow ? fill : chosen === `pod:${pod.namespace}/${pod.name}` ? colors.text : undefined, line: 2, radius: mode.pod > 6 ? 2 : 0 });
    if (!faint && broken.has(`${pod.namespace}/${pod.name}`) && mode.pod > 5) painter.line(px, py, px + mode.pod, py + mode.pod, colors.card, 1.5);
  });
  if (pods.length > most && mode.head) painter.text(x + part.w - mode.pad, y + part.h - 5, `+${pods.length - most}`, { fill: colors.soft, size: 9, align: "right" });
}

// How full a node is, as a vessel would show it.
function level(painter, x, y, w, h, share, colors) {
  const [, name] = FULL.find(([from]) => share >= from);
  if (h < 14) { painter.rect(x, y, w, h, { fill: mixed(colors.sunk, colors[name], share ? 0.12 + 0.78 * Math.min(share, 1) : 0), radius: 2 }); return; }
  const tall = Math.max(h * Math.min(share, 1), share ? 1 : 0);
  painter.rect(x, y + h - tall, w, tall, { fill: mixed(colors.card, colors[name], 0.45) });
}

function cellColor(pods, match, colour, colors, broken) {
  const shown = match ? pods.filter(match) : pods;
  if (colour === "rule") {
    const hurt = shown.some((pod) => broken.has(`${pod.namespace}/${pod.name}`));
    const first = shown.find((pod) => broken.has(`${pod.namespace}/${pod.name}`));
    return { fill: first ? podColor(first, colour, colors, broken) : shown.length ? colors.line : colors.sunk, mark: hurt };
  }
  if (match) return { fill: mixed(colors.sunk, colors.accent, shown.length ? 0.4 + 0.6 * (shown.length / pods.length) : 0) };
  if (colour === "use") return { fill: colors.sunk };
  const most = new Map();
  for (const pod of shown) { const own = podColor(pod, colour, colors, broken); most.set(own, (most.get(own) ?? 0) + 1); }
  const top = [...most].sort((a, b) => b[1] - a[1])[0];
  return { fill: top ? top[0] : colors.sunk };
}

export function use(node, pods) {
  const sum = (of) => pods.reduce((total, pod) => total + pod[of], 0);
  return Math.max(node.cpu ? sum("cpu") / node.cpu : 0, node.memory ? sum("memory") / node.memory : 0);
}

function mixed(from, to, share) {
  const parse = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(",")})`;
}

function hit(picture, x, y) {
  if (!picture) return null;
  const inside = (part) => x >= part.x && y >= part.y && x <= part.x + part.w && y <= part.y + part.h;
  const part = picture.nodes.find(inside);
  if (!part) {
    const domain = picture.domains.filter(inside).pop();
    return domain ? `domain:${domain.path.map((each) => each.join("=")).join(",")}` : null;
  }
  const { mode } = picture;
  if (picture.pods && mode.pod > 3) {
    const step = mode.pod + mode.gap;
    const column = Math.floor((x - part.x - mode.pad) / step), row = Math.floor((y - part.y - mode.head - mode.pad) / step);
    const pod = column >= 0 && column < part.across && row >= 0 ? (picture.podsOf.get(part.node.name) ?? [])[row * part.across + column] : undefined;
    if (pod) return `pod:${pod.namespace}/${pod.name}`;
  }
  return `node:${part.node.name}`;
}

function steer(event, picture, chosen, to, go) {
  const { nodes } = picture;
  const at = nodes.findIndex((part) => chosen === `node:${part.node.name}`);
  if (event.key === "Enter" && at >= 0) { go(nodePath(nodes[at].node.name)); return; }
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  let next = steps[event.key] ? at + steps[event.key] : -1;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const own = nodes[Math.max(at, 0)], sign = event.key === "ArrowDown" ? 1 : -1;
    const others = nodes.map((part, i) => [i, (part.y - own.y) * sign, Math.abs(part.x - own.x)]).filter(([, dy]) => dy > 2);
    next = others.sort((a, b) => a[1] + a[2] * 2 - b[1] - b[2] * 2)[0]?.[0] ?? at;
  }
  if (next < 0 || next >= nodes.length) return;
  event.preventDefault();
  to({ at: `node:${nodes[next].node.name}` });
}

function legendOf(podsOf, match, colour, broken, filter, to) {
  const colors = theme(), counts = new Map();
  if (colour === "use") return [h("span", {}, "the fuller or stronger, the more of its cpu or memory is asked for"), FULL.map(([from, name]) =>
    h("span", {}, h("i", { class: "swatch", style: { background: mixed(colors.card, colors[name], 0.45) } }), from ? ` from ${100 * from} %` : " less")), SIGNS()];
  for (const pods of podsOf.values())
    for (const pod of pods) {
      if (match && !match(pod)) continue;
      const name = colour === "namespace" ? pod.namespace : colour === "phase" ? pod.phase
        : colour === "rule" ? (broken.get(`${pod.namespace}/${pod.name}`)?.rule ?? HOLD) : `${pod.namespace}/${pod.workload}`;
      const known = counts.get(name) ?? { number: 0, pod };
      known.number += 1;
      counts.set(name, known);
    }
  const shown = [...counts].sort((a, b) => b[1].number - a[1].number);
  const words = (name, pod) => (colour === "namespace" ? `namespace=${name}` : colour === "phase" ? `phase=${name}` : colour === "rule" ? (name === HOLD ? "" : `rule=${name}`) : `namespace=${pod.namespace} workload=${pod.workload}`);
  return [
    shown.slice(0, 14).map(([name, { number, pod }]) => {
      const find = words(name, pod);
      return h("button", { type: "button", "aria-pressed": String(find === filter && find !== ""), onclick: () => to({ find: find === filter ? "" : find }) },
        h("i", { class: "swatch", style: { background: podColor(pod, colour, colors, broken) } }), `${name} ${number.toLocaleString("en")}`);
    }),
    shown.length > 14 && h("span", {}, `and ${shown.length - 14} more`),
    SIGNS(),
  ];
}

function domainTable(root, podsOf, to) {
  const rows = [];
  const walk = (domain, depth) => {
    for (const child of domain.children) {
      const nodes = allNodes(child), pods = nodes.flatMap((node) => podsOf.get(node.name) ?? []);
      const name = `${"— ".repeat(depth)}${child.name || `no ${shortKey(child.key)}`}`;
      rows.push([
        h("button", { type: "button", onclick: () => to({ at: `domain:${child.path.map((each) => each.join("=")).join(",")}` }) }, name),
        nodes.length, pods.length, nodes.filter((node) => node.state !== "Ready" || node.unschedulable).length,
        share(nodes, pods, "cpu"), share(nodes, pods, "memory")]);
      if (rows.length < 300) walk(child, depth + 1);
    }
  };
  walk(root, 0);
  return table(["domain", { text: "nodes", right: true }, { text: "pods", right: true }, { text: "closed", right: true }, { text: "cpu asked", right: true }, { text: "memory asked", right: true }], rows);
}

function share(nodes, pods, of) {
  const total = nodes.reduce((sum, node) => sum + node[of], 0);
  return total ? `${Math.round((100 * pods.reduce((sum, pod) => sum + pod[of], 0)) / total)} %` : "–";
}

function detailsOf(chosen, podsOf, root, match, filter, to) {
  const waiting = store.waiting();
  const kind = chosen.slice(0, chosen.indexOf(":")), name = chosen.slice(chosen.indexOf(":") + 1);
  if (kind === "pod" && store.pods.has(name)) return podDetails(store.pods.get(name));
  if (kind === "node" && store.nodes.has(name)) return nodeDetails(store.nodes.get(name), podsOf.get(name) ?? []);
  if (kind === "domain") return domainDetails(name, root, podsOf, to);
  const nodes = [...store.nodes.values()], placed = [...store.pods.values()].filter((pod) => pod.node);
  return [
    !filter && attention(),
    h("h2", {}, filter ? "Found" : "The cluster"),
    h("dl", {}, h("dt", {}, "nodes"), h("dd", {}, nodes.length.toLocaleString("en")), h("dt", {}, "pods"), h("dd", {}, store.pods.size.toLocaleString("en")),
      filter && [h("dt", {}, "found"), h("dd", {}, [...store.pods.values()].filter(match ?? (() => true)).length)],
      h("dt", {}, "without a node"), h("dd", {}, waiting.length ? link("/pending", String(waiting.length)) : "0")),
    total("cpu", nodes, placed, cores), total("memory", nodes, placed, bytes),
    filter && foundPods([...store.pods.values()].filter(match ?? (() => true))),
    h("p", { class: "soft" }, "Choose a domain, a node or a pod in the picture."),
  ];
}

function foundPods(pods) {
  return [h("ul", { class: "plain" }, pods.slice(0, 25).map((pod) => h("li", {}, podLink(pod.namespace, pod.name), h("span", { class: "soft" }, pod.node ? ` on ${pod.node}` : " on no node")))),
    pods.length > 25 && h("p", { class: "soft" }, `and ${pods.length - 25} more`)];
}

function total(of, nodes, pods, words) {
  const all = nodes.reduce((sum, node) => sum + node[of], 0), used = pods.reduce((sum, pod) => sum + pod[of], 0);
  return meter(`${of} asked for`, used, all, `${words(used)} of ${words(all)}`);
}

export function podDetails(pod) {
  return [
    h("h2", {}, pod.name),
    h("dl", {}, h("dt", {}, "namespace"), h("dd", {}, pod.namespace), h("dt", {}, "workload"), h("dd", {}, pod.workload),
      h("dt", {}, "phase"), h("dd", {}, pod.phase), h("dt", {}, "node"), h("dd", {}, pod.node ? link(nodePath(pod.node), pod.node) : "none"),
      h("dt", {}, "asks for"), h("dd", {}, `${cores(pod.cpu)} cpu, ${bytes(pod.memory)} memory`)),
    h("p", {}, link(podPath(pod.namespace, pod.name), pod.node ? "Why there?" : "Why nowhere?")),
    h("details", {}, h("summary", {}, "Labels"), h("dl", {}, Object.entries(pod.labels).map(([key, value]) => [h("dt", { class: "mono" }, key), h("dd", { class: "mono" }, value)]))),
  ];
}

export function nodeDetails(node, pods) {
  return [
    h("h2", {}, link(nodePath(node.name), node.name)),
    h("p", {}, h("span", { class: `tag ${node.state === "Ready" ? "good" : "bad"}` }, node.state), " ",
      node.unschedulable && h("span", { class: "tag warn" }, "cordoned")),
    total("cpu", [node], pods, cores), total("memory", [node], pods, bytes),
    meter("pods", pods.length, node.pods, `${pods.length} of ${node.pods}`),
    node.taints.length > 0 && [h("h3", {}, "Taints"), h("ul", { class: "plain mono" }, node.taints.map((taint) => h("li", {}, taint)))],
    h("h3", {}, "Pods"),
    h("ul", { class: "plain" }, pods.slice(0, 60).map((pod) => h("li", {}, podLink(pod.namespace, pod.name), " ", pod.phase !== "Running" && h("span", { class: "tag" }, pod.phase)))),
    pods.length > 60 && h("p", { class: "soft" }, `and ${pods.length - 60} more`),
    h("details", {}, h("summary", {}, "Labels"), h("dl", {}, Object.entries(node.labels).map(([key, value]) => [h("dt", { class: "mono" }, key), h("dd", { class: "mono" }, value)]))),
    h("p", {}, link(`/what-if?do=${encodeURIComponent(`drain ${node.name}`)}`, "What if it is drained?")),
  ];
}

function domainDetails(name, root, podsOf, to) {
  let domain = root;
  for (const each of name.split(",")) {
    const value = each.slice(each.indexOf("=") + 1);
    domain = domain.children.find((child) => child.name === value && child.key === each.slice(0, each.indexOf("="))) ?? domain;
  }
  const nodes = allNodes(domain), pods = nodes.flatMap((node) => podsOf.get(node.name) ?? []);
  const workloads = new Map();
  for (const pod of pods) workloads.set(`${pod.namespace}/${pod.workload}`, (workloads.get(`${pod.namespace}/${pod.workload}`) ?? 0) + 1);
  const last = domain.path.at(-1);
  return [
    h("h2", {}, domain.path.map(([key, value]) => `${shortKey(key)} ${value || "none"}`).join(", ")),
    h("dl", {}, h("dt", {}, "nodes"), h("dd", {}, nodes.length), h("dt", {}, "pods"), h("dd", {}, pods.length)),
    total("cpu", nodes, pods, cores), total("memory", nodes, pods, bytes),
    h("h3", {}, "Workloads"),
    h("ul", { class: "plain" }, [...workloads].sort((a, b) => b[1] - a[1]).slice(0, 25).map(([workload, number]) =>
      h("li", {}, `${number} × ${workload}`))),
    last && h("p", {}, link(`/what-if?do=${encodeURIComponent(`lose ${shortKey(last[0])}=${last[1]}`)}`, "What if it is lost?")),
    h("p", {}, h("button", { type: "button", onclick: () => to({ at: "" }) }, "Back to the cluster")),
  ];
}
