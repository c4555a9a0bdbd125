// Clusters and workloads: who is where, who stays apart or together, and who waits.

import { h, replace, wordsSvg, exporting, same, search, table, plural } from "./dom.js";
import { store, ask } from "./store.js";
import { refreshed } from "./refreshed.js";

export function fleet(view, query, go) {
  const filter = query.get("find") ?? "";
  return refreshed(view, () => ask("fleet"), (answer) => {
    const { clusters } = answer;
    const bindings = answer.bindings.filter((each) => `${each.namespace}/${each.workload} ${JSON.stringify(each.labels)}`.toLowerCase().includes(filter.toLowerCase()));
    if (!clusters.length && !answer.bindings.length) {
      replace(view, h("p", { class: "empty" }, "There are no clusters here: this is not a Karmada control plane, or none has joined."), same("berth fleet simulate -f FILE"));
      return;
    }
    const waiting = bindings.filter((each) => !each.clusters.length);
    replace(view,
      h("div", { class: "bar" }, search("Find", filter, "workload or label", (value) => go("/fleet", { find: value })), exporting("fleet", () => Promise.resolve(answer), () => wordsSvg(view))),
      h("p", { class: waiting.length ? "big bad-text" : "big" }, waiting.length ? `${plural(waiting.length, "workload")} on no cluster` : `${plural(bindings.length, "workload")} on ${plural(clusters.length, "cluster")}`),
      waiting.length > 0 && h("section", { class: "card bad" }, h("ul", {}, waiting.map((each) => h("li", {}, h("b", {}, `${each.namespace ?? ""}/${each.workload}`), ": ", each.message ?? "not looked at yet")))),
      h("div", { class: "card" }, table(["workload", "rule", ...clusters.map((each) => h("span", {}, each.name, h("div", { class: "soft" }, [each.region, each.ready === "True" ? "" : "not ready"].filter(Boolean).join(", "))))],
        bindings.slice(0, 300).map((each) => [
          h("div", {}, `${each.namespace ? `${each.namespace}/` : ""}${each.workload}`),
          rule(each.affinity),
          ...clusters.map((cluster) => {
            const on = each.clusters.find((target) => target.name === cluster.name);
            return on ? h("b", { class: "good-text" }, `✓ ${on.replicas ?? ""}`) : h("span", { class: "soft" }, "·");
          })]))),
      same(`berth fleet simulate ${store.source.command} -o json`));
  });
}

function rule(affinity) {
  if (!affinity) return "";
  const apart = affinity.antiAffinity ?? affinity.workloadAntiAffinity, together = affinity.affinity ?? affinity.workloadAffinity;
  return [together && "together", apart && "apart"].filter(Boolean).join(", ");
}
