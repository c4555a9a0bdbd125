// Nodes nested by any labels, pods in them, coloured by what the reader asks for.

import { h, replace, update, select, search, exporting, same, plural, link, podLink, podPath, nodePath, meter, bytes, cores, facts, figures, table, svgText } from "./dom.js";
import { store, ask, shortKey, longKey } from "./store.js";
import { theme, onTheme } from "./colors.js";
import { grouped, split, tally } from "./counting.js";
import { allNodes } from "./layout.js";
import { FULL, NAMED, pictureOf, drawOn, svgOf, steer, podColor, mixed, keyOf, workloadOf, nameWorkloads, domainOf } from "./picture.js";
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
  const asked = query.get("color") ?? (store.nodes.size > FEW ? "use" : "workload");
  const colour = COLOURS.some(([name]) => name === asked) ? asked : "workload";
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
      exporting("topology", () => ask(colour === "rule" ? "audit" : "simulation"), () => svgText(svgOf(state.picture, state.how)))),
    h("div", { class: "split" }, h("div", {}, holder, trouble, legend, h("details", {}, h("summary", {}, "Domains as a table"), domains)), details),
    same(`berth ${COMMANDS[colour] ?? "simulate"} ${store.given} -o json`));

  function draw() {
    if (!holder.isConnected) return;
    const podsOf = store.podsByNode();
    const match = matcher(filter, state.broken);
    if (colour === "workload") nameWorkloads();
    const nodes = [...store.nodes.values()];
    const picture = (state.picture = pictureOf(nodes, keys, podsOf, { width: holder.clientWidth - 18, height: innerHeight - 290, waiting: store.waiting() }));
    state.how = { match, colour, broken: state.broken, chosen };
    drawOn(canvas, picture, state.how);
    const { root } = picture;
    canvas.setAttribute("aria-label", `${plural(store.nodes.size, "node")} and ${plural(store.pods.size, "pod")} by ${keys.map(shortKey).join(", ") || "nothing"}. Arrow keys choose a node, Enter opens it.`);
    update(legend, legendOf(podsOf, match, colour, state.broken, filter, to));
    update(domains, domainTable(root, podsOf, to));
    update(details, detailsOf(chosen, podsOf, root, match, filter, to));
    if (!store.nodes.size && !store.source.loading) replace(legend, h("p", { class: "empty" }, store.source.live ? "The cluster has no nodes." : "There are no nodes in these files: dump them, too (kubectl get nodes,pods -A -o json)."));
    if (!chosen && !filter) look(() => details.isConnected && update(details, detailsOf(chosen, store.podsByNode(), root, match, filter, to)));
  }

  steer(canvas, () => ({ picture: state.picture, pods: colour !== "use" || Boolean(state.how.match), chosen }), (at) => to({ at }));
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && chosen.startsWith("node:")) go(nodePath(chosen.slice(5)));
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
      if (["namespace", "workload", "phase", "node"].includes(key)) return pod[key].toLowerCase() === value;
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
  const colors = theme();
  if (colour === "use") return [h("span", {}, "the fuller or stronger, the more of its cpu or memory is asked for"), FULL.map(([from, name]) =>
    h("span", {}, h("i", { class: "swatch", style: { background: mixed(colors.card, colors[name], 0.45) } }), from ? ` from ${100 * from} %` : " less")), SIGNS()];
  const pods = [...podsOf.values()].flat().filter(match ?? (() => true));
  const shown = [...grouped(pods, (pod) => NAMED[colour](pod, broken) ?? HOLD)].sort((a, b) => b[1].length - a[1].length);
  const words = (name, pod) => (colour === "workload" ? `namespace=${pod.namespace} workload=${pod.workload}` : name === HOLD ? "" : `${colour}=${name}`);
  return [
    shown.slice(0, 14).map(([name, those]) => {
      const [pod] = those, find = words(name, pod);
      return h("button", { type: "button", "aria-pressed": String(find === filter && find !== ""), onclick: () => to({ find: find === filter ? "" : find }) },
        h("i", { class: "swatch", style: { background: podColor(pod, colour, colors, broken) } }), `${name} ${those.length.toLocaleString("en")}`);
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
  return table(["domain", ...["nodes", "pods", "closed", "cpu asked", "memory asked"].map(figures)], rows);
}

const sum = (things, of) => things.reduce((all, each) => all + each[of], 0);

function share(nodes, pods, of) {
  const total = sum(nodes, of);
  return total ? `${Math.round((100 * sum(pods, of)) / total)} %` : "–";
}

function detailsOf(chosen, podsOf, root, match, filter, to) {
  const waiting = store.waiting();
  const [kind, name] = split(chosen, ":");
  if (kind === "pod" && store.pods.has(name)) return podDetails(store.pods.get(name));
  if (kind === "node" && store.nodes.has(name)) return nodeDetails(store.nodes.get(name), podsOf.get(name) ?? []);
  if (kind === "domain") return domainDetails(name, root, podsOf, to);
  const nodes = [...store.nodes.values()], pods = [...store.pods.values()], placed = pods.filter((pod) => pod.node), found = pods.filter(match ?? (() => true));
  return [
    !filter && attention(),
    h("h2", {}, filter ? "Found" : "The cluster"),
    facts([["nodes", nodes.length.toLocaleString("en")], ["pods", pods.length.toLocaleString("en")], ...(filter ? [["found", found.length]] : []),
      ["without a node", waiting.length ? link("/pending", String(waiting.length)) : "0"]]),
    total("cpu", nodes, placed, cores), total("memory", nodes, placed, bytes),
    filter && foundPods(found),
    h("p", { class: "soft" }, "Choose a domain, a node or a pod in the picture."),
  ];
}

function foundPods(pods) {
  return [h("ul", { class: "plain" }, pods.slice(0, 25).map((pod) => h("li", {}, podLink(pod.namespace, pod.name), h("span", { class: "soft" }, pod.node ? ` on ${pod.node}` : " on no node")))),
    pods.length > 25 && h("p", { class: "soft" }, `and ${pods.length - 25} more`)];
}

function total(of, nodes, pods, words) {
  const all = sum(nodes, of), used = sum(pods, of);
  return meter(`${of} asked for`, used, all, `${words(used)} of ${words(all)}`);
}

function podDetails(pod) {
  return [
    h("h2", {}, pod.name),
    facts([["namespace", pod.namespace], ["workload", pod.workload], ["phase", pod.phase], ["node", pod.node ? link(nodePath(pod.node), pod.node) : "none"],
      ["asks for", `${cores(pod.cpu)} cpu, ${bytes(pod.memory)} memory`]]),
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
  return h("details", {}, h("summary", {}, "Labels"), facts(Object.entries(labels), { class: "mono" }));
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
    const [key, value] = split(each, "=");
    domain = domain.children.find((child) => child.name === value && child.key === key) ?? domain;
  }
  const nodes = allNodes(domain), pods = nodes.flatMap((node) => podsOf.get(node.name) ?? []);
  return [
    h("h2", {}, domain.path.map(([key, value]) => `${shortKey(key)} ${value || "none"}`).join(", ")),
    facts([["nodes", nodes.length], ["pods", pods.length]]),
    total("cpu", nodes, pods, cores), total("memory", nodes, pods, bytes),
    h("h3", {}, "Workloads"),
    h("ul", { class: "plain" }, tally(pods, workloadOf).slice(0, 25).map(([workload, number]) => h("li", {}, `${number} × ${workload}`))),
    offered(`domain:${name}`),
    h("p", {}, h("button", { type: "button", onclick: () => to({ at: "" }) }, "Back to the cluster")),
  ];
}
