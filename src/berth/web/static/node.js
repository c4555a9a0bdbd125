// One node, by itself.

import { h, replace, update, wordsSvg, card, same, exporting, podLink, figures, table, plural, cores, bytes, link } from "./dom.js";
import { store, ask, shortKey, kubectl } from "./store.js";
import { nodeFacts, labelsOf } from "./topology.js";
import { offered } from "./offers.js";

const MOST = 300;

export function node(view, query, go, [name]) {
  const draw = () => {
    const found = store.nodes.get(name), pods = [...store.pods.values()].filter((pod) => pod.node === name);
    if (!found) replace(view, h("div", { class: "card bad" }, h("p", { class: "big" }, `There is no node ${name}.`)));
    else update(view,
      h("div", { class: "bar" }, h("h1", {}, name), exporting(name, () => ask(`nodes/${encodeURIComponent(name)}`), () => wordsSvg(view))),
      h("div", { class: "columns" },
        h("section", { class: "card" }, nodeFacts(found, pods), places(found), labelsOf(found), offered(`node:${name}`)),
        card("", plural(pods.length, "pod"), pods.length ? listed(pods) : h("p", { class: "empty" }, "No pod runs here."))),
      same(kubectl(`describe node ${name}`), kubectl(`get node ${name} -o json`)));
  };
  draw();
  return { change: draw };
}

// The domains it is in, each with a way to see the others there.
function places({ labels }) {
  const found = ["region", "zone"].map((key) => [key, labels[`topology.kubernetes.io/${key}`]]).filter(([, value]) => value);
  return found.length > 0 && h("p", {}, found.map(([key, value], i) => [i > 0 && ", ", link(`/topology?by=${key}&at=${encodeURIComponent(`domain:topology.kubernetes.io/${key}=${value}`)}`, `${shortKey(key)} ${value}`)]));
}

function listed(pods) {
  const rows = pods.toSorted((a, b) => b.cpu - a.cpu).slice(0, MOST).map((pod) => [podLink(pod.namespace, pod.name), pod.workload, pod.phase, cores(pod.cpu), bytes(pod.memory)]);
  return [table(["pod", "workload", "phase", figures("cpu"), figures("memory")], rows), pods.length > MOST && h("p", { class: "soft" }, `and ${pods.length - MOST} more`)];
}
