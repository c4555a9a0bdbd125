// Nodes nested by any labels, pods in them, coloured by what the reader asks for.

import { h, replace, update, select, search, exporting, same, plural, link, podLink, podPath, nodePath, meter, bytes, cores, table } from "./dom.js";
import { store, ask, shortKey, longKey } from "./store.js";
import { nameColors, theme, onTheme } from "./colors.js";
import { CanvasPainter, SvgPainter } from "./painters.js";
import { allNodes } from "./layout.js";
import { FULL, pictureOf, sizeOf, paint, hit, told, steered, podColor, mixed, keyOf, domainOf } from "./picture.js";
import { refreshed } from "./refreshed.js";
import { attention, look } from "./attention.js";
import { offered } from "./offers.js";

const COLOURS = [["workload", "workload"], ["namespace", "namespace"], ["phase", "phase"], ["rule", "broken rule"], ["use", "use of the node"]];
const COMMANDS = { rule: "audit" };
const HOLD = "all rules hold";
const SIGNS = () => h("span", {}, "hollow: not ready yet, or ending · dashed ⊘: cordoned · ✕ or struck: not ready");
const FLAT = "-"; // in the address: nested by nothing
const FEW = 48; // nodes up to which workloads can be told apart by their colours

export function topology(view, query, go) {
  const keys = (query.get("by") ?? defaultKeys()).split(",").filter((key) => key && key !== FLAT).map(longKey);
  const colour = query.get("color") ?? (store.nodes.size > FEW ? "use" : "workload");
  const filter = query.get("find") ?? "";
  const chosen = query.get("at") ?? "";
  const state = { broken: new Map(), picture: null };

  const canvas = h("canvas", { tabindex: 0, role: "img" });
  const holder = h("div", { class: "drawing" }, canvas);
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Legend: press to find" });
  const details = h("aside", { "aria-label": "Details" });
  const domains = h("div"), trouble = h("div");
  const to = (changes) => go("/topology", { by: addressed(keys), color: colour, find: filter, at: chosen, ...changes });

  replace(view,
    h("div", { class: "bar" },
      nesting(keys, to), select("Colour by", colour, COLOURS, (value) => to({ color: value })),
      search("Find pods", filter, "name, namespace=, label=value", (value) => to({ find: value })),
      exporting("topology", () => ask(colour === "rule" ? "audit" : "simulation"), () => svg())),
    h("div", { class: "split" }, h("div", {}, holder, trouble, legend, h("details", {}, h("summary", {}, "Domains as a table"), domains)), details),
    same(`berth ${COMMANDS[colour] ?? "simulate"} ${store.given} -o json`));

  function draw() {
    if (!holder.isConnected) return;
    const podsOf = store.podsByNode();
    const match = matcher(filter, state.broken);
    if (colour === "workload") nameColors("workload", new Set([...store.pods.values()].map((pod) => `${pod.namespace}/${pod.workload}`)));
    const nodes = [...store.nodes.values()];
    const picture = (state.picture = pictureOf(nodes, keys, podsOf, { width: holder.clientWidth - 18, height: innerHeight - 290, waiting: store.waiting() }));
    state.how = { match, colour, broken: state.broken, chosen };
    paint(new CanvasPainter(canvas, ...sizeOf(picture)), picture, state.how);
    const { root } = picture;
    canvas.setAttribute("aria-label", `${plural(store.nodes.size, "node")} and ${plural(store.pods.size, "pod")} by ${keys.map(shortKey).join(", ") || "nothing"}. Arrow keys choose a node, Enter opens it.`);
    update(legend, legendOf(podsOf, match, colour, state.broken, filter, to));
    update(domains, domainTable(root, podsOf, to));
    update(details, detailsOf(chosen, podsOf, root, match, filter, to));
    if (!store.nodes.size && !store.source.loading) replace(legend, h("p", { class: "empty" }, store.source.live ? "The cluster has no nodes." : "There are no nodes in these files: dump them, too (kubectl get nodes,pods -A -o json)."));
    if (!chosen && !filter) look(() => details.isConnected && update(details, detailsOf(chosen, store.podsByNode(), root, match, filter, to)));
  }

  function svg() {
    const painter = new SvgPainter(...sizeOf(state.picture), theme().card);
    paint(painter, state.picture, { ...state.how, chosen: "" });
    return painter.toString();
  }

  const at = (event) => hit(state.picture, event.offsetX, event.offsetY, colour !== "use" || Boolean(state.how.match));
  canvas.addEventListener("click", (event) => {
    const found = at(event);
    if (found) to({ at: found });
  });
  canvas.addEventListener("mousemove", (event) => {
    const found = at(event);
    if (found !== state.over) canvas.title = told(state.picture, (state.over = found));
    canvas.classList.toggle("over", Boolean(found));
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && chosen.startsWith("node:")) { go(nodePath(chosen.slice(5))); return; }
    const next = steered(state.picture, chosen, event.key);
    if (next) { event.preventDefault(); to({ at: next }); }
  });
  const rules = colour === "rule" && refreshed(trouble, () => ask("audit"), ({ violations }) => {
    replace(trouble);
    state.broken = new Map(violations.filter((each) => each.hard).map((each) => [`${each.namespace}/${each.pod}`, each]).reverse()); // the first counts
    draw();
  });
  onTheme(draw, holder);
  const resized = new ResizeObserver(() => draw());
  resized.observe(holder);
  draw();
  return {
    change() { draw(); if (rules) rules.change(); },
    end() { resized.disconnect(); if (rules) rules.end(); },
  };
}

const addressed = (keys) => keys.map(shortKey).join(",") || FLAT;

function defaultKeys() {
  const known = store.labelKeys();
  return ["region", "zone"].filter((key) => (known.get(longKey(key))?.size ?? 0) > 1).join(",");
}

function nesting(keys, to) {
  const known = [...store.labelKeys()].filter(([key, values]) => !keys.includes(key) && values.size < store.nodes.size)
    .sort((a, b) => a[1].size - b[1].size || a[0].localeCompare(b[0]));
  const set = (found) => to({ by: addressed(found) });
  return h("div", { role: "group", "aria-label": "Nest by" }, h("div", { class: "label" }, "Nest by"),
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
      if (key === "rule") return broken.get(keyOf(pod))?.rule.toLowerCase() === value;
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

function legendOf(podsOf, match, colour, broken, filter, to) {
  const colors = theme(), counts = new Map();
  if (colour === "use") return [h("span", {}, "the fuller or stronger, the more of its cpu or memory is asked for"), FULL.map(([from, name]) =>
    h("span", {}, h("i", { class: "swatch", style: { background: mixed(colors.card, colors[name], 0.45) } }), from ? ` from ${100 * from} %` : " less")), SIGNS()];
  for (const pods of podsOf.values())
    for (const pod of pods) {
      if (match && !match(pod)) continue;
      const name = colour === "namespace" ? pod.namespace : colour === "phase" ? pod.phase
        : colour === "rule" ? (broken.get(keyOf(pod))?.rule ?? HOLD) : `${pod.namespace}/${pod.workload}`;
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
        h("button", { type: "button", onclick: () => to({ at: domainOf(child.path) }) }, name),
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

function podDetails(pod) {
  return [
    h("h2", {}, pod.name),
    h("dl", {}, h("dt", {}, "namespace"), h("dd", {}, pod.namespace), h("dt", {}, "workload"), h("dd", {}, pod.workload),
      h("dt", {}, "phase"), h("dd", {}, pod.phase), h("dt", {}, "node"), h("dd", {}, pod.node ? link(nodePath(pod.node), pod.node) : "none"),
      h("dt", {}, "asks for"), h("dd", {}, `${cores(pod.cpu)} cpu, ${bytes(pod.memory)} memory`)),
    h("p", {}, link(podPath(pod.namespace, pod.name), pod.node ? "Why there?" : "Why nowhere?")),
    offered(`pod:${keyOf(pod)}`),
    labelsOf(pod),
  ];
}

// State, use and taints of a node.
export function nodeFacts(node, pods) {
  return [
    h("p", {}, h("span", { class: `tag ${node.state === "Ready" ? "good" : "bad"}` }, node.state), " ",
      node.unschedulable && h("span", { class: "tag warn" }, "cordoned")),
    total("cpu", [node], pods, cores), total("memory", [node], pods, bytes),
    meter("pods", pods.length, node.pods, `${pods.length} of ${node.pods}`),
    node.taints.length > 0 && [h("h3", {}, "Taints"), h("ul", { class: "plain mono" }, node.taints.map((taint) => h("li", {}, taint)))],
  ];
}

export function labelsOf({ labels }) {
  return h("details", {}, h("summary", {}, "Labels"), h("dl", {}, Object.entries(labels).map(([key, value]) => [h("dt", { class: "mono" }, key), h("dd", { class: "mono" }, value)])));
}

function nodeDetails(node, pods) {
  return [
    h("h2", {}, link(nodePath(node.name), node.name)), nodeFacts(node, pods), offered(`node:${node.name}`),
    h("h3", {}, "Pods"),
    h("ul", { class: "plain" }, pods.slice(0, 60).map((pod) => h("li", {}, podLink(pod.namespace, pod.name), " ", pod.phase !== "Running" && h("span", { class: "tag" }, pod.phase)))),
    pods.length > 60 && h("p", { class: "soft" }, `and ${pods.length - 60} more`),
    labelsOf(node),
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
  return [
    h("h2", {}, domain.path.map(([key, value]) => `${shortKey(key)} ${value || "none"}`).join(", ")),
    h("dl", {}, h("dt", {}, "nodes"), h("dd", {}, nodes.length), h("dt", {}, "pods"), h("dd", {}, pods.length)),
    total("cpu", nodes, pods, cores), total("memory", nodes, pods, bytes),
    h("h3", {}, "Workloads"),
    h("ul", { class: "plain" }, [...workloads].sort((a, b) => b[1] - a[1]).slice(0, 25).map(([workload, number]) =>
      h("li", {}, `${number} × ${workload}`))),
    offered(`domain:${name}`),
    h("p", {}, h("button", { type: "button", onclick: () => to({ at: "" }) }, "Back to the cluster")),
  ];
}
