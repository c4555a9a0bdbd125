// One node, by itself.

import { h, replace, wordsSvg, same, exporting } from "./dom.js";
import { store, ask } from "./store.js";
import { nodeDetails } from "./topology.js";

export function node(view, query, go, [name]) {
  const draw = () => {
    const found = store.nodes.get(name), pods = [...store.pods.values()].filter((pod) => pod.node === name);
    if (!found) replace(view, h("div", { class: "card bad" }, h("p", { class: "big" }, `There is no node ${name}.`)));
    else replace(view, h("div", { class: "bar" }, exporting(name, () => ask(`nodes/${encodeURIComponent(name)}`), () => wordsSvg(view))), h("div", { class: "card" }, nodeDetails(found, pods)),
      same(`kubectl describe node ${name}`, `kubectl get node ${name} -o json`));
  };
  draw();
  return { change: draw };
}
