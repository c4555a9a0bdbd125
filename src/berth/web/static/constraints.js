// Every spread constraint and required anti-affinity as a strip: how many pods in each domain, and what is allowed.

import { h, s, update, search, exporting, same, plural, select, sheet, svgText, nodeLinks } from "./dom.js";
import { store, ask, shortKey } from "./store.js";
import { refreshed } from "./refreshed.js";
import { theme } from "./colors.js";
import { ORDER } from "./counting.js";

const KINDS = { spread: "spread", "anti-affinity": "apart" };

export function constraints(view, query, go) {
  const filter = query.get("find") ?? "", only = query.get("only") ?? "all";
  const to = (changes) => go("/constraints", { find: filter, only, ...changes });
  return refreshed(view, () => ask("constraints"), (answer) => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = answer.constraints.filter((each) => (only === "all" || (only === "broken" ? !each.ok : each.hard))
      && words.every((word) => `${each.namespace}/${each.owner} ${each.topologyKey} ${each.selector}`.toLowerCase().includes(word)));
    const broken = answer.constraints.filter((each) => !each.ok).length;
    update(view,
      h("div", { class: "bar" }, search("Find", filter, "workload, key or selector", (value) => to({ find: value })),
        select("Show", only, [["all", "all"], ["hard", "hard ones"], ["broken", "broken ones"]], (value) => to({ only: value })),
        exporting("constraints", () => ask("audit"), () => drawing(shown))),
      h("p", { class: broken ? "bad-text" : "good-text" },
        answer.constraints.length ? `${plural(answer.constraints.length, "constraint")}, ${broken ? `${broken} broken` : "all hold"}` : "No running pod has a spread constraint or a required anti-affinity.",
        shown.some((each) => each.kind === "spread") && h("span", { class: "soft" }, " · the mark in a bar: as many as the maximum skew allows")),
      shown.slice(0, 200).map(strip),
      shown.length > 200 && h("p", { class: "soft" }, `and ${shown.length - 200} more: narrow them down above`),
      same(`berth audit ${store.given} -o json`));
  });
}

function strip(each) {
  const most = Math.max(1, ...each.domains.map((domain) => domain.pods));
  // As many as a domain may have beside the emptiest: the mark in every bar.
  const allowed = each.kind === "spread" ? Math.max(...each.domains.map((domain) => domain.pods)) - each.skew + each.limit : null, scale = Math.max(most, allowed ?? 0);
  const limit = each.kind === "spread" ? `skew ${each.skew} of at most ${each.limit}` : each.ok ? "no two together" : `up to ${each.skew} together, where 1 may be`;
  const named = each.allDomains > each.domains.length ? each.domains : each.domains.toSorted((a, b) => ORDER.compare(a.name, b.name));
  return h("section", { class: `card line ${each.ok ? "" : "bad"}`, "aria-label": `${each.namespace}/${each.owner} by ${each.topologyKey}` },
    h("div", {}, h("b", {}, `${each.namespace}/${each.owner}`),
      h("div", {}, h("span", { class: `tag ${each.ok ? "good" : each.hard ? "bad" : "warn"}` }, each.ok ? "✓ " : "✕ ", limit), " ",
        h("span", { class: "tag" }, `${KINDS[each.kind]} by ${shortKey(each.topologyKey)}, ${each.hard ? "hard" : "soft"}`)),
      h("div", { class: "soft mono", title: each.path }, each.selector || "everything")),
    h("div", {},
      h("div", { class: "strip", role: "list" }, named.slice(0, 60).map((domain) =>
        h("div", { class: `domain ${domain.broken ? "broken" : ""} ${domain.usable ? "" : "unusable"}`, role: "listitem", title: title(domain) },
          h("span", {}, domain.name), h("b", {}, domain.pods), h("div", { class: "fill" }, h("i", { style: { width: `${(100 * domain.pods) / scale}%` } }), allowed !== null && h("u", { style: { left: `${(100 * allowed) / scale}%` } })),
          !domain.usable && h("span", { class: "warn-text" }, each.kind === "spread" ? "counts, no node usable" : "no node usable")))),
      each.allDomains > 60 && h("p", { class: "soft" }, `the fullest 60 of ${each.allDomains} domains`),
      each.kind === "spread" && planned(each),
      each.leftOut.map(leftOut)));
}

// Who is to move for evenness, of a workload that may be moved.
function planned({ moves, staysBecause }) {
  if (!moves.length) return staysBecause && h("p", { class: "warn-text" }, `nobody is moved for evenness: ${staysBecause}`);
  const listed = moves.map(({ pod, node, landsOn }) => h("div", {}, `${pod.split("/")[1]}: ${node} → ${landsOn ?? "a new node"}`));
  return h("details", {}, h("summary", {}, `${plural(moves.length, "pod")} to be moved for evenness`), listed);
}

function leftOut({ nodes, names, why }) {
  const words = `${plural(nodes, "node")} left out: ${why}`;
  if (nodes <= 3) return h("p", { class: "soft" }, words, " (", nodeLinks(names), ")");
  return h("details", { class: "soft" }, h("summary", {}, words), nodeLinks(names), nodes > names.length && ` and ${nodes - names.length} more`);
}

function title(domain) {
  return `${domain.name}: ${plural(domain.pods, "pod")} on ${plural(domain.nodes, "node")}${domain.usable ? "" : "; no node can be used"}${domain.broken ? "; broken" : ""}`;
}

function drawing(shown) {
  const colors = theme(), width = 900, drawn = shown.slice(0, 200);
  const svg = sheet(width, 12 + 88 * drawn.length, colors.card);
  drawn.forEach((each, line) => {
    const y = 12 + 88 * line;
    svg.append(s("text", { x: 8, y: y + 12, "font-size": 13, "font-weight": 600, fill: colors.text }, `${each.namespace}/${each.owner} by ${shortKey(each.topologyKey)}`),
      s("text", { x: width - 8, y: y + 12, "font-size": 12, "text-anchor": "end", fill: each.ok ? colors.good : colors.bad }, each.kind === "spread" ? `skew ${each.skew} / ${each.limit}` : each.ok ? "apart" : "together"));
    const domains = each.domains.slice(0, 30), most = Math.max(1, ...domains.map((domain) => domain.pods)), step = (width - 16) / domains.length;
    domains.forEach((domain, i) => {
      const tall = (40 * domain.pods) / most;
      svg.append(s("rect", { x: 8 + i * step, y: y + 60 - tall, width: Math.max(step - 3, 1), height: tall, fill: domain.broken ? colors.bad : colors.accent }),
        s("text", { x: 8 + i * step + 2, y: y + 73, "font-size": 9, fill: colors.soft }, `${domain.name} ${domain.pods}`.slice(0, Math.max(2, Math.floor(step / 5)))));
    });
  });
  return svgText(svg);
}
