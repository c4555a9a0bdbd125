// What would happen: changes are put together by clicking, the answer is the command's, and nothing is written.

import { h, s, replace, card, exporting, same, plural, podLink, link, nodePath, figures, table } from "./dom.js";
import { store, ask, shortKey } from "./store.js";
import { refreshed } from "./refreshed.js";
import { theme } from "./colors.js";
import { imagined, shareOfUse } from "./imagined.js";
import { firstOffers, whatIfPath } from "./offers.js";

const NODE = () => [...store.nodes.keys()];
const WORKLOAD = () => [...new Set([...store.pods.values()].map((pod) => `${pod.namespace}/${pod.workload.toLowerCase()}`))].filter((each) => !each.includes("/pod/"));
const DOMAIN = () => [...store.labelKeys()].filter(([, values]) => values.size < 60).flatMap(([key, values]) => [...values].map((value) => `${shortKey(key)}=${value}`));
const POD = () => [...store.pods.values()].filter((pod) => pod.node).map((pod) => `${pod.namespace}/${pod.name}`);

// Each change as the command takes it: an option and its value.
const KINDS = {
  drain: { title: "Drain a node", hint: "node", from: NODE },
  lose: { title: "Lose a domain", hint: "zone=a", from: DOMAIN },
  cordon: { title: "Cordon a node", hint: "node", from: NODE },
  label: { title: "Label a node", hint: "node:key=value", from: () => NODE().map((node) => `${node}:`) },
  taint: { title: "Taint a node", hint: "node:key=value:NoSchedule", from: () => NODE().map((node) => `${node}:`) },
  add: { title: "Add nodes", hint: "3=node-like-this", from: () => NODE().map((node) => `1=${node}`) },
  scale: { title: "Scale a workload", hint: "namespace/deployment/web=12", from: () => WORKLOAD().map((each) => `${each}=`) },
  rollout: { title: "Roll a workload out", hint: "namespace/deployment/web", from: WORKLOAD },
  delete: { title: "Delete an object", hint: "namespace/deployment/web", from: WORKLOAD },
  evict: { title: "Evict a pod", hint: "namespace/pod", from: POD },
  "replace-all": { title: "Place everything anew", hint: "", from: () => [] },
};

export function whatIf(view, query, go) {
  const done = (query.get("do") ?? "").split(";").map((each) => each.trim()).filter(Boolean);
  const to = (changes) => go("/what-if", { do: changes.join(";") });
  const answer = h("div"), state = { at: query.get("at") ?? "" };
  const choose = (at) => {
    state.at = at;
    history.replaceState(null, "", `/what-if?${new URLSearchParams({ ...(done.length ? { do: done.join(";") } : {}), at })}`);
  };
  replace(view, builder(done, to, state), answer);
  if (!done.length) {
    const picture = imagined(null, done, state.at, choose);
    replace(answer,
      card("", "What if …", h("div", { class: "offers" }, firstOffers().map(([words, change]) => link(whatIfPath([change]), words, { class: "offer" }))),
        h("p", { class: "soft" }, "The answer says who moves, who finds no node, and what it does to every constraint. Nothing is changed.")),
      h("section", { class: "card" }, picture.element),
      same(`berth what-if --drain NODE --lose zone=a … ${store.given}`));
    return {};
  }
  const changes = done.map((each) => { const [kind, ...rest] = each.split(" "); return [kind, rest.join(" ")]; });
  const command = changes.map(([kind, value]) => (value ? `--${kind} ${quoted(value)}` : `--${kind}`)).join(" ");
  return refreshed(answer, () => ask("what-if", { changes }), (found) => {
    const told = JSON.stringify(found);
    if (told === state.told && answer.querySelector(".same")) return; // whoever reads it is left alone
    Object.assign(state, { told, found, picture: imagined(found, done, state.at, choose) });
    replace(answer, outcome(found, state.picture), same(`berth what-if ${command} ${store.given}`, `berth what-if ${command} ${store.given} -o json`));
  });
}

// As a shell takes it.
const quoted = (value) => (/^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'"'"'`)}'`);

function builder(done, to, state) {
  let kind = "drain";
  const list = h("datalist", { id: "choices" });
  const input = h("input", { list: "choices", size: 34, required: true, spellcheck: "false", "aria-label": "What" });
  const choose = () => {
    input.placeholder = KINDS[kind].hint;
    input.required = Boolean(KINDS[kind].hint);
    replace(list, KINDS[kind].from().slice(0, 500).map((each) => h("option", { value: each })));
  };
  choose();
  return h("div", {},
    h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); to([...done, `${kind} ${input.value.trim()}`.trim()]); } },
      h("label", {}, "Change", h("select", { onchange: (event) => { kind = event.target.value; choose(); } }, Object.entries(KINDS).map(([name, { title }]) => h("option", { value: name }, title)))),
      h("label", {}, "What", input), list, h("button", { class: "main", type: "submit" }, "Add"),
      done.length > 0 && exporting("what-if", () => Promise.resolve(state.found), () => state.picture?.svg() ?? "")),
    done.length > 0 && h("div", { class: "chips given", role: "list", "aria-label": "Changes, in order" }, done.map((each, i) => h("span", { class: "chip", role: "listitem" }, `${i + 1}. ${each}`,
      h("button", { type: "button", "aria-label": `Take ${each} back`, onclick: () => to(done.filter((_, other) => other !== i)) }, "×")))));
}

function outcome(found, picture) {
  return [
    h("section", { class: `card ${verdict(found)}`, role: "status" }, h("p", { class: "big" }, found.sentence)),
    h("section", { class: "card" }, picture.element),
    h("section", { class: "card" }, h("div", { class: "beside" }, h("div", { class: "scroll" }, zones(found)), measures(found))),
    lost(found.unplaced.filter((each) => !each.waited), "that find no node any more", true),
    spreads(found),
    listed(`${plural(found.moves.length, "pod")} on another node, or replaced`, ["pod", "from", "to", "why there"], found.moves, 300, (each) => [who(each), place(each.from, each.fromZone), place(each.to, each.toZone), each.why ?? ""],
      found.moves.length > 300 && h("p", { class: "soft" }, `the first 300 of ${found.moves.length}`)),
    listed("Preempted", ["pod", "node", "by", "lands on"], found.preempted, Infinity, (each) => [who(each), each.node, each.by, each.landsOn ?? "nowhere"]),
    listed("Rules newly broken", ["pod", "node", "rule", "why"], found.broken, 100, (each) => [who(each), each.node, each.rule, each.cause]),
    listed("Rules healed", ["pod", "node", "rule"], found.healed, 100, (each) => [who(each), each.node, each.rule]),
    listed("The order a drain has to take", ["round", "pods"], found.rounds, 100, (each) => [each.round, each.pods.join(", ")]),
    listed("The rollout, step by step", ["step", "workload", "made", "removed", ""], found.rollouts, Infinity, (each) => [each.step, each.workload, each.created.join(", "), each.removed.join(", "), each.stuck ?? ""]),
    listed("Budgets that do not allow it", ["budget", "blocks"], found.budgets.filter((each) => each.blocks.length), Infinity, (each) => [`${each.namespace}/${each.name}`, each.blocks.join(", ")]),
    listed("What stays behind", ["pod", "node", "why"], found.stays, 200, (each) => [who(each), each.node, each.why]),
    listed("Gone", ["pod", "node", "why"], found.gone, 200, (each) => [`${each.namespace}/${each.pod}`, each.node ?? "", each.replacedBy ? `replaced by ${each.replacedBy}` : each.why]),
    listed("Local storage that is lost", ["pod", "volumes"], found.localStorage, 200, (each) => [who(each), each.volumes.join(", ")]),
    lost(found.unplaced.filter((each) => each.waited), "that waited before and still do", false),
    found.notes?.length > 0 && card("", "Notes", h("ul", { class: "soft" }, found.notes.map((each) => h("li", {}, each)))),
  ];
}

// A part with a table of the first things of a kind; none if there are no things.
const listed = (title, heads, things, most, row, more) => things.length > 0 && card("", title, table(heads, things.slice(0, most).map(row)), more);
const who = ({ namespace, pod }) => podLink(namespace, pod);

// Pods that waited before are no news.
function verdict({ ok, unplaced, broken, gone, stays, spread }) {
  if (ok) return "good";
  const worse = unplaced.some((each) => !each.waited) || broken.some((each) => each.hard) || gone.some((each) => each.lost) || stays.some((each) => each.budgets?.length || each.refused)
    || spread.some(({ hard, before, after }) => hard && after && !after.ok && (!before || before.ok));
  return worse || !unplaced.length ? "bad" : "warn";
}

function lost(pods, words, open) {
  if (!pods.length) return null;
  const rows = pods.slice(0, 200).map((each) => [who(each), each.from ?? "", each.message, each.help ?? ""]);
  return h("section", { class: `card ${open ? "bad" : ""}` }, h("details", { open }, h("summary", {}, h("h2", {}, `${plural(pods.length, "pod")} ${words}`)), table(["pod", "from", "why", "what would help"], rows),
    pods.length > 200 && h("p", { class: "soft" }, `the first 200 of ${pods.length}`)));
}

const place = (node, zone) => (node ? h("span", {}, link(nodePath(node), node), zone && h("span", { class: "soft" }, ` ${zone}`)) : "–");

function measures({ measuresBefore: was, measures: is }) {
  const rows = [["pods on nodes", was.placed, is.placed], ["without a node", was.unplaced, is.unplaced], ["nodes used", was.nodesUsed, is.nodesUsed], ["worst skew", was.worstSkew, is.worstSkew]];
  return table(["", figures("before"), figures("after")], rows);
}

function spreads(found) {
  const changed = found.spread.filter((each) => JSON.stringify(each.before) !== JSON.stringify(each.after));
  const side = (state, limit) => (state ? h("span", { class: state.ok ? "good-text" : "bad-text" }, `${state.ok ? "✓" : "✕"} skew ${state.skew}/${limit}`, h("div", { class: "soft" }, Object.entries(state.counts).slice(0, 12).map(([name, number]) => `${name} ${number}`).join(", "))) : "–");
  return listed("Skews that change", ["constraint", "before", "after"], changed, 100, (each) => [
    h("span", {}, `${each.namespace}/${each.owner}`, h("div", { class: "soft" }, `by ${shortKey(each.topologyKey)}, ${each.hard ? "hard" : "soft"}`)), side(each.before, each.maxSkew), side(each.after, each.maxSkew)]);
}

// Zones, or nodes where there are few, side by side: how full each is before and after.
function zones(found) {
  const rows = found.zones.length > 1 ? found.zones : found.nodes.slice(0, 40);
  const colors = theme(), width = Math.min(860, innerWidth - 60), left = width < 600 ? 70 : 150, half = (width - left - 40) / 2;
  const svg = s("svg", { class: "waterfall", width, height: 26 + 26 * rows.length, role: "img", "aria-label": "Use of each zone before and after" },
    s("text", { x: left, y: 14, class: "soft" }, "before"), s("text", { x: left + half + 20, y: 14, class: "soft" }, "after"));
  rows.forEach((each, i) => {
    const y = 24 + 26 * i;
    svg.append(s("text", { x: 0, y: y + 13 }, (each.name ?? "no zone").slice(0, Math.floor(left / 7))));
    [each.before, each.after].forEach((use, side) => {
      const x = left + side * (half + 20);
      svg.append(s("rect", { x, y, width: half, height: 18, rx: 3, fill: colors.sunk, stroke: colors.line }));
      if (!use) { svg.append(s("text", { x: x + 6, y: y + 13, class: "soft" }, side ? "gone" : "new")); return; }
      const share = Math.min(1, shareOfUse(use));
      svg.append(s("rect", { x, y, width: half * share, height: 18, rx: 3, fill: colors.accent, "fill-opacity": 0.45 }),
        s("text", { x: x + 6, y: y + 13 }, `${plural(use.pods, "pod")}, ${Math.round(100 * share)} %${half > 180 ? " asked for" : ""}`));
    });
  });
  return svg;
}
