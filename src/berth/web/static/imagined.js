// The cluster as it is, and as it would be, side by side: every node at the same place in both pictures.

import { h, s, replace, plural, sheet, svgText } from "./dom.js";
import { store, longKey } from "./store.js";
import { theme, onTheme } from "./colors.js";
import { grouped } from "./counting.js";
import { pictureOf, sizeOf, drawOn, svgOf, steer, keyOf, workloadOf, nameWorkloads } from "./picture.js";
import { offered } from "./offers.js";

const ZONE = longKey("zone"), FEW = 48, NARROW = 760;

// `found` is what-if's answer, or null for the cluster as it is; `at` what is chosen, of which `choose` is told.
export function imagined(found, done, at, choose) {
  const sides = found ? [before(found), after(found, done)] : [now()];
  const moved = new Set((found?.moves ?? []).map((each) => `${each.namespace}/${each.pod}`));
  const colour = sides[0].nodes.length > FEW ? "use" : "workload", offers = h("div", { "aria-live": "polite" });
  const canvases = sides.map(() => h("canvas", { tabindex: 0, role: "img" }));
  const element = h("div", {}, h("div", { class: `sides ${found ? "two" : ""}` }, sides.map(({ title }, i) => h("div", {}, found && h("h3", {}, title), h("div", { class: "drawing" }, canvases[i])))), offers);
  let chosen = at, pictures = [];
  const how = () => ({ match: null, colour, broken: new Map(), chosen, moved });

  function draw() {
    if (!element.isConnected) return;
    const all = element.clientWidth, wide = all > NARROW, width = (found && wide ? (all - 12) / 2 : all) - 20;
    pictures = drawn(sides, Math.max(width, 200), !wide ? 700 : found ? 430 : innerHeight - 380);
    if (colour === "workload") nameWorkloads();
    pictures.forEach((picture, i) => {
      drawOn(canvases[i], picture, how());
      canvases[i].setAttribute("aria-label", `${sides[i].title}: ${plural(sides[i].nodes.filter((node) => !node.absent).length, "node")}, ${plural(sides[i].pods.length, "pod")}. Arrow keys choose a node.`);
    });
    replace(offers, offered(chosen, done) || h("p", { class: "soft" }, found ? `${colour === "use" ? "Strong is what a node would get. " : "Outlined pods would be somewhere else. "}Click a node, a zone or a pod to go on.` : "Click a node, a zone or a pod to ask what if."));
  }

  const take = (next) => { chosen = next; choose(next); draw(); };
  canvases.forEach((canvas, i) => steer(canvas, () => ({ picture: pictures[i], pods: colour !== "use", chosen }), take));
  new ResizeObserver(draw).observe(element);
  onTheme(draw, element);
  return { element, svg: () => both(pictures, sides, how()) };
}

// One layout for both, with room for whatever either has.
function drawn(sides, width, height) {
  const most = (node) => Math.max(...sides.map(({ podsOf }) => podsOf.get(node.name)?.length ?? 0));
  return sides.map(({ nodes, podsOf, waiting }) => {
    const keys = new Set(nodes.map((node) => node.labels[ZONE])).size > 1 ? [ZONE] : [];
    return pictureOf(nodes, keys, podsOf, { width, height, waiting, count: most });
  });
}

function world(title, nodes, pods) {
  const names = new Set(nodes.filter((node) => !node.absent).map((node) => node.name));
  const podsOf = grouped(pods.filter((pod) => names.has(pod.node)), (pod) => pod.node);
  return { title, nodes, pods, podsOf, waiting: pods.filter((pod) => !pod.node && pod.phase === "Pending") };
}

const now = () => world("Now", [...store.nodes.values()], [...store.pods.values()]);

const before = (found) => world("Before", found.nodes.map((each) => nodeOf(each, each.before, "new")), [...store.pods.values()]);

function after(found, done) {
  const pods = new Map(store.pods), models = new Map([...store.pods.values()].map((pod) => [workloadOf(pod), pod]));
  for (const { namespace, pod } of found.gone) pods.delete(`${namespace}/${pod}`);
  const put = ({ namespace, pod: name, owner }, node, phase) => {
    const key = `${namespace}/${name}`, workload = owner ?? `Pod/${name}`;
    const known = pods.get(key) ?? models.get(`${namespace}/${workload}`) ?? { cpu: 0, memory: 0, labels: {} };
    pods.set(key, { ...known, namespace, name, workload, node, phase });
  };
  for (const each of found.moves) {
    if (each.replaces) pods.delete(`${each.namespace}/${each.replaces}`);
    put(each, each.to, "Running");
  }
  for (const each of found.unplaced) put(each, "", "Pending");
  const shut = new Set(done.map((each) => each.split(" ")).filter(([kind]) => kind === "cordon" || kind === "drain").map(([, name]) => name));
  const changed = new Set([...pods.values()].filter((pod) => store.pods.get(keyOf(pod))?.node !== pod.node).map((pod) => pod.node));
  const nodes = found.nodes.map((each) => {
    const own = nodeOf(each, each.after, "gone");
    return { ...own, unschedulable: own.unschedulable || shut.has(own.name), changed: found.nodes.length <= FEW && changed.has(own.name), was: shareOfUse(each.before) ?? undefined };
  });
  return world("After", nodes, [...pods.values()]);
}

function nodeOf({ name, zone }, use, absent) {
  const known = store.nodes.get(name) ?? { name, state: "Ready", unschedulable: false, taints: [] };
  return { ...known, labels: zone ? { [ZONE]: zone } : {}, share: shareOfUse(use) ?? undefined, absent: use ? undefined : absent };
}

export const shareOfUse = (use) => use && Math.max(use.cpuAllocatable ? use.cpu / use.cpuAllocatable : 0, use.memoryAllocatable ? use.memory / use.memoryAllocatable : 0);

function both(pictures, sides, how) {
  const colors = theme(), top = 24, drawings = pictures.map((picture) => svgOf(picture, how));
  const widths = pictures.map((picture) => sizeOf(picture)[0]), height = top + Math.max(...pictures.map((picture) => sizeOf(picture)[1]));
  const width = widths.reduce((sum, each) => sum + each, 0);
  const svg = sheet(width, height, colors.card, { "font-size": 13 });
  let x = 0;
  drawings.forEach((drawing, i) => {
    drawing.setAttribute("x", x);
    drawing.setAttribute("y", top);
    svg.append(s("text", { x: x + 8, y: 17, fill: colors.text, "font-weight": 600 }, sides[i].title), drawing);
    x += widths[i];
  });
  return svgText(svg);
}
