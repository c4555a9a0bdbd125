// The page: which view is shown, what the header says, and who is told of changes.

import { h, replace, update, link, plural, place, restore } from "./dom.js";
import { store } from "./store.js";
import { topology } from "./topology.js";
import { constraints } from "./constraints.js";
import { pending } from "./pending.js";
import { pod } from "./pod.js";
import { node } from "./node.js";
import { whatIf } from "./what-if.js";
import { now } from "./now.js";
import { fleet } from "./fleet.js";

const VIEWS = [
  ["topology", "Topology", topology], ["constraints", "Constraints", constraints], ["pending", "Pending", pending],
  ["what-if", "What if", whatIf], ["now", "Now", now], ["fleet", "Fleet", fleet],
];
const OTHERS = { pods: pod, nodes: node };
// Made once: who presses a link while the cluster changes must not find another one when letting go.
const LINKS = new Map(VIEWS.map(([name, title]) => [name, link(`/${name}`, title)]));
replace(document.getElementById("views"), [...LINKS.values()]);

const view = document.getElementById("view");
let shown = { name: "", end() {}, change() {} };
let asked = 0;
let noticed = "";

function go(path, query = {}, { quietly = false } = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const url = search.size ? `${path}?${search}` : path;
  if (quietly) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  show();
}

function show() {
  const [, first = "", ...rest] = location.pathname.split("/").map(decodeURIComponent);
  const name = first || "topology";
  const [, title, draw] = VIEWS.find(([each]) => each === name) ?? [name, rest.at(-1) ?? name, OTHERS[name]];
  const again = shown.name === name, keep = again ? place(view) : null; // whoever was typing or steering goes on
  shown.end?.();
  document.title = `${title} · Berth`;
  shown = { name, ...(draw ? draw(view, new URLSearchParams(location.search), go, rest) : {}) };
  if (keep) restore(view, keep);
  else if (!again) view.focus({ preventScroll: true });
  header();
}

function header() {
  const waiting = store.waiting().length;
  for (const [name, anchor] of LINKS) {
    if (shown.name === name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  update(LINKS.get("pending"), "Pending", waiting > 0 && h("span", { class: "count" }, waiting));
  const { source } = store;
  const [mark, words] = store.refused ? ["dot off", "refused"] : !store.connected ? ["dot off", "connection lost, trying again"]
    : source.trouble ? ["dot off", "cluster out of reach"] : source.loading ? ["dot off", "reading the cluster …"]
    : source.live ? ["dot", "live"] : ["dot still", "from files"];
  replace(document.getElementById("status"), h("span", { class: mark }, words),
    h("span", {}, plural(store.nodes.size, "node")), h("span", {}, plural(store.pods.size, "pod")));
  notices();
}

function notices() {
  const { source } = store, lost = !store.connected && "The connection to Berth is lost; the page goes on where it was as soon as it is back.";
  const said = [store.failed, store.refused || lost, source.trouble && `What is shown may be old: ${source.trouble}`].filter(Boolean);
  const news = JSON.stringify([said, source.missing]);
  if (news === noticed) return; // whoever reads it is left alone
  noticed = news;
  replace(document.getElementById("notices"), said.map((each) => h("p", {}, each)), missing(source.missing ?? []));
}

// What may not be read: a few kinds with the reason, many by their names with the reasons behind them.
function missing(kinds) {
  const said = kinds.map(({ resource, why }) => h("p", {}, `${resource} are not shown: ${why}`));
  if (kinds.length < 3) return said;
  const names = [...new Set(kinds.map(({ resource }) => resource.split(".")[0]))];
  return h("details", {}, h("summary", {}, `${kinds.length} kinds cannot be read and are not shown: ${names.join(", ")}`), said);
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href^='/']");
  if (!anchor || anchor.hasAttribute("download") || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const url = new URL(anchor.href);
  go(url.pathname, Object.fromEntries(url.searchParams));
});
addEventListener("popstate", show);

// Many changes in a moment are drawn once.
store.addEventListener("change", () => {
  if (asked) return;
  asked = requestAnimationFrame(() => { asked = 0; shown.change?.(); header(); });
});
store.addEventListener("happened", () => shown.happened?.());
store.addEventListener("source", header);

async function begin() {
  try {
    await store.load();
    store.failed = "";
  } catch (error) {
    store.failed = error.message;
    notices();
    setTimeout(begin, 2000);
    return;
  }
  show();
  store.follow();
}

begin();
