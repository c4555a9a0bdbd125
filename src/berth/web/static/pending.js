// The pods without a node: by the reason why, then by workload.

import { h, update, wordsSvg, card, exporting, same, plural, podLink, search } from "./dom.js";
import { store, ask } from "./store.js";
import { refreshed } from "./refreshed.js";

export function pending(view, query, go) {
  const filter = query.get("find") ?? "";
  return refreshed(view, () => ask("pending"), (answer) => {
    const match = (each) => `${each.namespace}/${each.workload}`.toLowerCase().includes(filter.toLowerCase());
    const groups = answer.groups.map((group) => ({ ...group, workloads: group.workloads.filter(match) })).filter((group) => group.workloads.length);
    update(view,
      h("div", { class: "bar" }, search("Find", filter, "namespace or workload", (value) => go("/pending", { find: value })),
        exporting("pending", () => ask("simulation"), () => wordsSvg(view))),
      h("p", { class: "big" }, answer.pods ? `${plural(answer.pods, "pod")} without a node` : "Every pod has a node."),
      groups.map(reason),
      answer.placeablePods > 0 && card("good", `${plural(answer.placeablePods, "pod")} would find a node now`,
        h("p", { class: "soft" }, "The scheduler has not come to them yet, or does not run."),
        h("ul", { class: "plain" }, answer.placeable.map((each) => h("li", {}, podLink(each.namespace, each.name), ` → ${each.node}`)))),
      same(`berth simulate ${store.given} -o json`));
  });
}

function reason(group) {
  return card("bad", `${plural(group.pods, "pod")}: ${group.title}`,
    h("p", { class: "soft" }, h("span", { class: "tag bad" }, group.reason), " ", group.message, group.messages > 1 && ` (${group.messages - 1} more sentences with other figures)`),
    h("ul", { class: "plain" }, group.workloads.map((each) => (each.count === 1 ? single(each)
      : h("li", {}, h("details", { open: group.workloads.length === 1 && each.count <= 5 }, h("summary", {}, `${each.namespace}/${each.workload} · ${plural(each.count, "pod")}`),
        h("ul", { class: "plain" }, each.pods.map((pod) => h("li", {}, podLink(each.namespace, pod.name), h("span", { class: "soft" }, ` number ${pod.turn} in the queue`))),
          each.count > each.pods.length && h("li", { class: "soft" }, `and ${each.count - each.pods.length} more`))))))));
}

function single({ namespace, workload, pods: [pod] }) {
  return h("li", {}, podLink(namespace, pod.name), h("span", { class: "soft" }, ` ${workload.startsWith("Pod/") ? "" : `of ${workload}, `}number ${pod.turn} in the queue`));
}
