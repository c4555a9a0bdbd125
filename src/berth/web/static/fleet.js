// Clusters and workloads: who is where, who stays apart or together, and who waits.

import { h, replace, update, wordsSvg, card, exporting, same, search, table, plural } from "./dom.js";
import { store, ask } from "./store.js";
import { refreshed } from "./refreshed.js";

const titled = (each) => `${each.namespace ? `${each.namespace}/` : ""}${each.workload}`;

export function fleet(view, query, go) {
  const filter = query.get("find") ?? "";
  return refreshed(view, () => ask("fleet"), (answer) => {
    const { clusters } = answer, words = filter.toLowerCase();
    const bindings = answer.bindings.filter((each) => `${titled(each)} ${JSON.stringify(each.labels)} ${each.rules.join(" ")}`.toLowerCase().includes(words));
    const groups = answer.groups.filter((group) => `${group.namespace}/${group.name} ${JSON.stringify(group.members)}`.toLowerCase().includes(words));
    if (!clusters.length && !answer.bindings.length) {
      replace(view, card("", "No fleet here",
        h("p", {}, "This is no control plane of Karmada, or no cluster has joined it. With some, this view shows which workload is on which cluster, groups that stay apart or together, and who waits and why."),
        h("p", { class: "soft" }, "To look at a fleet: ", h("code", {}, "berth web --kubeconfig KARMADA"), ", or a dump of its clusters and bindings: ", h("code", {}, "berth web -f FILE"))), same(`berth fleet simulate ${store.source.command}`));
      return;
    }
    const waiting = bindings.filter((each) => each.waits !== null), broken = groups.filter((group) => !group.ok).length;
    const bad = [waiting.length && `${plural(waiting.length, "workload waits", "workloads wait")}`, broken && `${plural(broken, "group")} broken`].filter(Boolean);
    update(view,
      h("div", { class: "bar" }, search("Find", filter, "workload, group or label", (value) => go("/fleet", { find: value })), exporting("fleet", () => ask("fleet/simulation"), () => wordsSvg(view))),
      h("p", { class: bad.length ? "big bad-text" : "big good-text" }, bad.length ? bad.join(", ") : `✓ ${plural(bindings.length, "workload")} on ${plural(clusters.length, "cluster")}, none waits`),
      waiting.length > 0 && card("bad", "Who waits, and why", h("ul", {}, waiting.slice(0, 100).map((each) => h("li", {}, h("b", {}, titled(each)), each.clusters.length > 0 && " (stays where it is)", ": ", each.waits)))),
      groups.length > 0 && card("", "Groups", groups.slice(0, 100).map(group)),
      card("", "Where everything is", matrix(clusters, bindings)),
      same(`berth fleet simulate ${store.source.command} -o json`));
  });
}

function group({ rule, namespace, name, ok, wrong, members }) {
  const verdict = ok ? (rule === "apart" ? "✓ apart" : "✓ together") : rule === "apart" ? `✕ together on ${wrong.join(", ")}` : `✕ scattered over ${wrong.join(", ")}`;
  return h("div", { class: "story" }, h("b", {}, `${namespace}/${name}`), " ", h("span", { class: "tag" }, `stay ${rule}`), " ", h("span", { class: `tag ${ok ? "good" : "bad"}` }, verdict),
    h("div", { class: "strip", role: "list" }, members.map((each) => h("div", { class: `domain ${each.clusters.some((on) => wrong.includes(on)) ? "broken" : ""} ${each.clusters.length ? "" : "unusable"}`, role: "listitem" },
      h("span", {}, each.workload), h("b", {}, each.clusters.join(", ") || "waits")))));
}

function matrix(clusters, bindings) {
  const heads = clusters.map((each) => h("span", {}, each.name, h("div", { class: "soft" }, [each.region, each.ready === "True" ? "" : "✕ not ready"].filter(Boolean).join(", "))));
  return [table(["workload", "rules", ...heads], bindings.slice(0, 300).map((each) => [
    titled(each), h("span", { class: "soft" }, each.rules.join("; ")),
    ...clusters.map((cluster) => {
      const on = each.clusters.find((target) => target.name === cluster.name);
      return on ? h("b", { class: "good-text" }, `✓ ${on.replicas ?? ""}`) : h("span", { class: "soft", "aria-label": "not there" }, "·");
    })])), bindings.length > 300 && h("p", { class: "soft" }, `the first 300 of ${bindings.length}`)];
}
