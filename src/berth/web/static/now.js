// What happens: decisions as they are made, each with the story of the object it is about.

import { h, replace, update, wordsSvg, card, search, select, exporting, same, podLink, link, nodePath } from "./dom.js";
import { store, ask, kubectl } from "./store.js";
import { domainName } from "./attention.js";
import { refreshed } from "./refreshed.js";

const ABOUT = [["all", "everything"], ["placing", "placing and preempting"], ["evicting", "evicting"], ["warning", "warnings"]];
const BROKE = { rule: "Rule broken", evenness: "Uneven", taint: "Taint" };
const PLACING = /^(Scheduled|FailedScheduling|Preempted|Nominated|WaitingForGang|GroupScheduled)/;
const EVICTING = /(Evict|Violation|Halt|TaintManager|Disruption|Rebalanc)/;

export function now(view, query, go) {
  const filter = query.get("find") ?? "", about = query.get("about") ?? "all", story = query.get("story") ?? "";
  const to = (changes) => go("/now", { find: filter, about, story, ...changes });
  const plan = h("div"), stories = h("div");
  const list = h("ol", { class: "feed", "aria-label": "Newest first", "aria-live": "polite" });
  replace(view,
    h("div", { class: "bar" }, search("Find", filter, "object, reason or words", (value) => to({ find: value })),
      select("About", about, ABOUT, (value) => to({ about: value })), story && h("button", { type: "button", onclick: () => to({ story: "" }) }, `Everything, not only ${story}`),
      exporting("events", () => ask("events"), () => wordsSvg(view))),
    plan, stories, list, same(kubectl("get events -A --watch"), kubectl("get events -A -o json")));
  const draw = () => {
    const words = filter.toLowerCase();
    const shown = store.events.filter((each) => wanted(each, about) && (!story || objectOf(each) === story)
      && `${objectOf(each)} ${each.reason} ${each.message}`.toLowerCase().includes(words));
    const rows = story ? shown : shown.slice().reverse();
    update(list, rows.slice(0, 300).map((each) => row(each, to)), !rows.length && h("li", { class: "empty" }, store.source.live ? "Nothing yet; what happens appears here." : "There are no events in these files."));
  };
  draw();
  const shows = about !== "placing" && !story;
  const asked = refreshed(plan, () => ask("audit"), (found) => update(plan, shows ? going(found) : []));
  const told = refreshed(stories, () => ask("happened"), ({ events, evictions }) => {
    store.remember(events);
    draw();
    update(stories, shows && evictions.length > 0 ? done(evictions, about) : []);
  });
  const both = (name) => () => { asked[name](); told[name](); };
  return { happened() { draw(); told.change(); }, change: both("change"), end: both("end") };
}

// Each eviction from the rule that broke to the pod that runs in its stead.
function done(evictions, about) {
  const shown = evictions.slice(0, about === "evicting" ? 100 : 5);
  return card("", "Evictions, and what became of them", shown.map(timeline),
    evictions.length > shown.length && h("p", { class: "soft" }, `and ${evictions.length - shown.length} before: choose About “evicting”`));
}

function timeline(each) {
  const { refused, replacement } = each, here = replacement && replacement.phase === "Running";
  const step = (mark, title, ...words) => h("li", { class: mark }, h("b", {}, title), h("div", { class: "soft" }, words));
  return h("div", { class: "story" }, h("div", {}, h("time", { class: "soft", datetime: each.time }, `${clock(each.time)} `), h("b", {}, `${each.namespace}/${each.pod}`)),
    h("ol", { class: "steps" },
      step("bad", BROKE[each.cause], each.broken),
      refused ? step(each.evicted ? "good" : "warn", each.evicted ? "Budget: it had to wait" : "Held back", `${refused.why}${refused.times > 1 ? `, ${refused.times} times` : ""}`)
        : step("good", "Budget", each.cause === "taint" ? "taints ask no budget" : "nothing stood in the way"),
      each.evicted ? step("good", "Evicted", each.place ?? "") : step("todo", "Evicted", "not yet"),
      !each.evicted ? null : !replacement ? step("todo", "Replacement", "none was made so far")
        : step(here ? "good" : replacement.phase === "gone" ? "todo" : "warn", here ? "Replacement ready" : replacement.phase === "gone" ? "Replacement is gone" : replacement.node ? "Replacement not ready yet" : "Replacement waits",
          podLink(each.namespace, replacement.pod), replacement.node ? [" on ", link(nodePath(replacement.node), replacement.node)] : null, replacement.waits && `: ${replacement.waits}`)));
}

// Running pods that break a rule which must hold while they run: what is broken, what holds them back, where they land.
function going({ evictions, halts }) {
  return [
    halts.map((halt) => h("section", { class: "card warn" }, h("p", { class: "big" }, `Evictions are halted in ${domainName(halt)}`),
      h("p", {}, `${halt.going} of ${halt.running} pods would go at once, which looks like a mistake with labels: ${halt.moving} whose replacement has a node go one by one, ${halt.staying} stay.`),
      h("p", { class: "soft" }, "It ends when the labels are back, or with ", h("code", {}, `kubectl annotate namespace kube-system 'berth.dev/release-evictions=${halt.domain}'`)))),
    evictions.length > 0 && card("", `${evictions.length} to be evicted`, h("ol", {}, evictions.slice(0, 50).map((each) =>
      h("li", {}, podLink(each.namespace, each.pod), ` on ${each.node}: `, each.breaches.map((breach) => breach.cause).join("; "),
        " → ", each.haltedIn !== null && !each.oneByOne ? "halted" : each.stoppedBy.length ? `waits for budget ${each.stoppedBy.join(", ")}` : "may go",
        " → ", each.landsOn ? `its replacement lands on ${each.landsOn}` : "its replacement finds no node")))),
  ];
}

function wanted(event, about) {
  if (about === "placing") return PLACING.test(event.reason);
  if (about === "evicting") return EVICTING.test(event.reason);
  return about === "all" || event.type === "Warning";
}

// As the reader's clock has it; the day only if it is another.
function clock(time) {
  const at = new Date(time ?? NaN);
  if (Number.isNaN(at.getTime())) return "";
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return day + at.toLocaleTimeString("en-GB");
}

const objectOf = (event) => `${event.kind} ${event.namespace ? `${event.namespace}/` : ""}${event.name}`;

function row(event, to) {
  const warning = event.type === "Warning";
  return h("li", {}, h("time", { class: "soft", datetime: event.time }, clock(event.time)),
    h("div", {}, h("span", { class: `tag ${warning ? "bad" : ""}` }, warning ? "! " : "", event.reason), event.count > 1 && h("span", { class: "soft" }, ` × ${event.count}`), h("div", { class: "soft" }, event.by)),
    h("div", {}, event.kind === "Pod" ? podLink(event.namespace, event.name) : event.kind === "Node" ? link(nodePath(event.name), event.name) : h("b", {}, objectOf(event)), " ",
      h("button", { type: "button", class: "small", "aria-label": `The story of ${objectOf(event)}`, onclick: () => to({ story: objectOf(event) }) }, "story"),
      h("div", {}, event.message)));
}
