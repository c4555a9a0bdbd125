// One pod: why it is where it is, or nowhere; rule by rule, node by node, and what would change it.

import { h, s, update, wordsSvg, card, exporting, same, plural, link, nodePath, nodeLinks, figures, table, svgText } from "./dom.js";
import { store, ask } from "./store.js";
import { refreshed } from "./refreshed.js";
import { colorOf } from "./colors.js";
import { grouped, tally } from "./counting.js";
import { offered } from "./offers.js";

export function pod(view, query, go, [namespace, name]) {
  const path = `pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  return refreshed(view, () => ask(path), (found) => {
    const ranked = found.nodes.filter((each) => each.total !== null);
    const refused = alike(found.nodes.filter((each) => !each.feasible));
    const chart = ranked.length ? waterfall(ranked, found.node) : null;
    const whyNot = refused.length > 0 && card("", `Why not: ${plural(found.nodes.length - ranked.length, "node")}`, matrix(refused));
    const why = chart && card("", found.state === "Running" ? "Why there: if it were placed now" : "Which node, and why",
        found.decision && h("p", {}, found.decision), h("div", { class: "scroll" }, chart), flips(beside(ranked, found.node)), scores(ranked));
    update(view,
      h("div", { class: "bar" }, h("div", {}, h("h1", {}, `${found.namespace}/${found.pod}`), h("span", { class: "soft" }, found.owner ?? "without owner")),
        exporting(found.pod, () => ask(path), () => (chart ? svgText(chart) : wordsSvg(view)))),
      h("section", { class: `card ${found.node && !found.broken.length ? "good" : "bad"}` }, h("p", { class: "big" }, found.message),
        found.node && h("p", {}, "Node: ", link(nodePath(found.node), found.node)), offered(`pod:${namespace}/${name}`)),
      found.broken.length > 0 && section("Rules that do not hold there", found.broken.map((each) => h("li", {}, h("b", {}, each.rule), ": ", [...each.causes, ...each.reasons][0]))),
      found.clues.length > 0 && section("Look at this first", found.clues.map((each) => h("li", {}, each))),
      waits(found),
      found.relaxations.length > 0 && section("The smallest changes that would help", found.relaxations.map((each) =>
        h("li", {}, each.sentence, each.nodes.length > 0 && h("span", { class: "soft" }, ` → ${each.nodes.slice(0, 3).join(", ")}${each.nodes.length > 3 ? ` and ${each.nodes.length - 3} more` : ""}`)))),
      found.preemption && card("warn", "What preemption would do",
        h("p", {}, `Evict ${found.preemption.victims.join(", ")} from ${found.preemption.node}.`)),
      found.node ? [why, whyNot] : [whyNot, why],
      same(`berth explain ${found.pod} -n ${found.namespace} ${store.given} -o json`));
  });
}

const section = (title, items) => card("", title, h("ul", {}, items));

function waits(found) {
  const items = found.waitsFor.map((each) => h("li", {}, each.sentence));
  if (found.queue) items.push(h("li", {}, `number ${found.queue.place} of ${found.queue.waiting} in the queue`));
  if (found.furtherReplicas) items.push(h("li", {}, `${plural(found.furtherReplicas.count, "further replica")} would fit${found.furtherReplicas.orMore ? ", or more" : ""}`));
  if (found.noPreemption) items.push(h("li", {}, found.noPreemption));
  return items.length ? section("What it waits for", items) : null;
}

// Nodes that the same rules refuse for the same reasons, and by rule what each says of them: the figures may differ.
function alike(nodes) {
  const groups = grouped(nodes, ({ rejections }) => JSON.stringify(rejections.map((each) => [each.rule, each.reasons])));
  return [...groups.values()].map((those) => ({
    nodes: those.map(({ name }) => name), rules: grouped(those.flatMap(({ rejections }) => rejections), (each) => each.rule),
  })).sort((a, b) => a.rules.size - b.rules.size || b.nodes.length - a.nodes.length);
}

function matrix(groups) {
  const rules = [...new Set(groups.flatMap((group) => [...group.rules.keys()]))];
  return table(["nodes", ...rules], groups.slice(0, 60).map((group) => [names(group.nodes), ...rules.map((rule) => {
    if (!group.rules.has(rule)) return h("span", { class: "good-text", "aria-label": "no objection" }, "✓");
    const causes = tally(group.rules.get(rule), (each) => each.causes[0] ?? each.reasons[0]);
    return h("div", { class: "bad-text" }, "✕ ", causes[0][0], causes.length > 1 && h("details", { class: "soft" },
      h("summary", {}, `and ${causes.length - 1} more like it`), causes.slice(1, 30).map(([words, number]) => h("div", {}, `${words} (${plural(number, "node")})`))));
  })]), { class: "matrix" });
}

function names(nodes) {
  const number = h("b", {}, plural(nodes.length, "node"));
  if (nodes.length <= 3) return h("div", {}, number, h("div", {}, nodeLinks(nodes)));
  return h("details", {}, h("summary", {}, number), nodeLinks(nodes.slice(0, 200)), nodes.length > 200 && ` and ${nodes.length - 200} more`);
}

// The node that the pod is on, or would be, and the best of the others.
function beside(ranked, node) {
  const own = ranked.find((each) => each.name === node) ?? ranked[0];
  return [own, ranked.find((each) => each !== own)].filter(Boolean);
}

function waterfall(ranked, node) {
  const shown = beside(ranked, node), [own, other] = shown, rules = own.scores.filter((each) => shown.some((row) => row.scores.some((score) => score.rule === each.rule && score.weighted)));
  const most = Math.max(1, ...shown.map((each) => each.total)), width = Math.min(860, innerWidth - 60), left = width < 600 ? 90 : 190, columns = Math.max(1, Math.floor(width / 285)), scale = (width - left - 70) / most;
  const svg = s("svg", { class: "waterfall", width, height: 34 * shown.length + 12 + 20 * Math.ceil(rules.length / columns), role: "img",
    "aria-label": shown.map((each) => `${each.name}: ${each.total}`).join("; ") });
  shown.forEach((each, row) => {
    let x = left;
    svg.append(s("text", { x: 4, y: 34 * row + 21, "font-weight": row ? 400 : 600 }, each.name.slice(0, Math.floor(left / 7))));
    for (const score of each.scores) {
      if (!score.weighted) continue;
      svg.append(s("rect", { x, y: 34 * row + 6, width: Math.max(score.weighted * scale - 1, 1), height: 22, rx: 2, fill: colorOf("score", score.rule) }, s("title", {}, `${score.rule}: ${score.weighted}`)));
      x += score.weighted * scale;
    }
    svg.append(s("text", { x: x + 6, y: 34 * row + 21 }, String(each.total)));
  });
  rules.forEach((each, i) => {
    const x = 4 + (i % columns) * 285, y = 34 * shown.length + 20 + 20 * Math.floor(i / columns);
    const difference = other ? each.weighted - (other.scores.find((score) => score.rule === each.rule)?.weighted ?? 0) : each.weighted;
    svg.append(s("rect", { x, y: y - 10, width: 12, height: 12, rx: 2, fill: colorOf("score", each.rule) }),
      s("text", { x: x + 18, y, class: "soft" }, `${each.rule} ${difference > 0 ? "+" : ""}${difference}`));
  });
  return svg;
}

function flips(shown) {
  if (shown.length < 2) return null;
  const [best, second] = shown.toSorted((a, b) => b.total - a.total), margin = best.total - second.total;
  const found = best.scores.map((score) => {
    const other = second.scores.find((each) => each.rule === score.rule) ?? score;
    const gain = other.normalized - score.normalized; // what one more of weight gives the runner-up
    if (gain > 0) return [score, score.weight + Math.floor(margin / gain) + 1];
    if (gain < 0 && score.weight + margin / gain > 0) return [score, Math.max(0, Math.ceil(score.weight + margin / gain) - 1)];
    return null;
  }).filter(Boolean);
  if (!margin) return h("p", { class: "soft" }, `${best.name} and ${second.name} are equally good: anything decides.`);
  if (!found.length) return h("p", { class: "soft" }, `No weight of a single rule would put ${second.name} before ${best.name}.`);
  return h("p", {}, `${second.name} would come before ${best.name} with `, found.map(([score, weight], i) => [i > 0 && ", or ", h("b", {}, score.rule), ` at weight ${weight} instead of ${score.weight}`]), ".");
}

function scores(ranked) {
  const rules = ranked[0].scores.map((each) => each.rule);
  return h("details", {}, h("summary", {}, `All scores: ${plural(ranked.length, "node")}`),
    table(["node", ...["total", ...rules].map(figures)], ranked.slice(0, 100).map((each) => [link(nodePath(each.name), each.name), each.total, ...rules.map((rule) => each.scores.find((score) => score.rule === rule)?.weighted ?? 0)])),
    ranked.length > 100 && h("p", { class: "soft" }, `the best 100 of ${ranked.length}`));
}
