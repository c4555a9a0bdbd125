// What needs somebody's eye, the worst first: asked for once a while, whichever view is shown meanwhile.

import { h, link, nodeLinks, plural } from "./dom.js";
import { store, ask } from "./store.js";

const REST = 20_000; // between two looks, since thinking costs the server something
const known = { pending: null, constraints: null, audit: null };
let looking = false, looked = 0, changed = true, hears = () => {};

store.addEventListener("change", () => { changed = true; });

// Ask for what is not known, or no longer true; `told` hears of every answer, until another view asks.
export async function look(told) {
  hears = told;
  if (looking || store.source.loading || (looked && (!changed || performance.now() - looked < REST))) return;
  looking = true;
  changed = false;
  for (const question of Object.keys(known)) {
    try {
      known[question] = await ask(question);
    } catch {
      changed = true; // the rest is told all the same
    }
    hears();
  }
  looked = performance.now();
  looking = false;
}

export function attention() {
  const items = [...waiting(), ...nodesDown(), ...halted(), ...broken()];
  const thinking = Object.values(known).some((each) => each === null);
  if (!items.length && !thinking) return [h("h2", {}, "Look here first"), h("p", { class: "good-text" }, "✓ Every pod has a node, every node is ready, and every rule holds.")];
  return [h("h2", {}, "Look here first"), h("ul", { class: "plain attention" }, items.map(([mark, ...words]) => h("li", { class: mark }, words))),
    thinking && h("p", { class: "soft" }, "Looking at the rules …")];
}

function waiting() {
  const number = store.waiting().length, { pending } = known;
  if (!number) return [];
  const why = (pending?.groups ?? []).slice(0, 2).map((group) => h("div", { class: "soft" }, `${group.pods} × ${group.title}`));
  return [["bad", link("/pending", `${plural(number, "pod")} without a node`), why]];
}

function nodesDown() {
  const down = [...store.nodes.values()].filter((node) => node.state !== "Ready");
  const shut = [...store.nodes.values()].filter((node) => node.unschedulable).length;
  return [
    ...(down.length ? [["bad", link("/topology?find=state%3Dnotready", `${plural(down.length, "node")} not ready`), h("div", { class: "soft" }, nodeLinks(down.slice(0, 3).map(({ name }) => name)), down.length > 3 && ` and ${down.length - 3} more`)]] : []),
    ...(shut ? [["warn", link("/topology?find=state%3Dcordoned", `${plural(shut, "node")} cordoned`)]] : []),
  ];
}

export const domainName = ({ domain }) => (domain === "*" ? "the cluster" : `domain ${domain}`);

function halted() {
  const { halts = [], evictions = [] } = known.audit ?? {};
  return [
    ...(halts.length ? [["bad", link("/now?about=evicting", `Evictions are halted in ${halts.map(domainName).join(", ")}`)]] : []),
    ...(evictions.length ? [["warn", link("/now?about=evicting", `${plural(evictions.length, "pod")} to be evicted`)]] : []),
  ];
}

function broken() {
  const hard = (known.constraints?.constraints ?? []).filter((each) => !each.ok && each.hard).length;
  const soft = (known.constraints?.constraints ?? []).filter((each) => !each.ok && !each.hard).length;
  const pods = known.audit?.summary.broken ?? 0;
  return [
    ...(hard ? [["bad", link("/constraints?only=broken", `${plural(hard, "hard constraint")} broken`)]] : []),
    ...(pods ? [["warn", link("/topology?color=rule", `${plural(pods, "running pod")} would not be placed there now`)]] : []),
    ...(soft ? [["warn", link("/constraints?only=broken", `${plural(soft, "soft constraint")} uneven`)]] : []),
  ];
}
