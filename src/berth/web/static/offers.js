// What could be done to a node, a domain, a pod or a workload: each as `berth what-if` takes it, a click away.

import { h, link } from "./dom.js";
import { store, shortKey } from "./store.js";
import { split, tally } from "./counting.js";

export const whatIfPath = (changes) => `/what-if?do=${encodeURIComponent(changes.join(";"))}`;

// Words and the change, for what is chosen in a picture.
function offersFor(chosen) {
  const [kind, name] = split(chosen, ":");
  if (kind === "node" && store.nodes.has(name)) return ofNode(store.nodes.get(name));
  if (kind === "domain") return ofDomain(name);
  if (kind === "pod" && store.pods.has(name)) return ofPod(store.pods.get(name));
  return [];
}

function ofNode({ name, unschedulable, taints }) {
  return [
    ["drain it", `drain ${name}`], ["lose it", `lose node=${name}`], !unschedulable && ["cordon it", `cordon ${name}`],
    ["add one like it", `add 1=${name}`], ...taints.filter((taint) => !taint.startsWith("node.kubernetes.io/")).slice(0, 1).map((taint) => [`take off taint ${taint.split(/[=:]/)[0]}`, `taint ${name}:${taint.split(/[=:]/)[0]}-`]),
  ].filter(Boolean);
}

function ofDomain(path) {
  const [key, value] = split(path.split(",").at(-1), "=");
  if (!value) return [];
  const own = [...store.nodes.values()].find((node) => node.labels[key] === value);
  return [[`lose ${shortKey(key)} ${value}`, `lose ${shortKey(key)}=${value}`], ["drain it", `drain -l ${key}=${value}`], own && ["add a node there", `add 1=${own.name}`]].filter(Boolean);
}

function ofPod(pod) {
  const own = pod.node ? [["evict it", `evict ${pod.namespace}/${pod.name}`]] : [];
  return [...own, ...ofWorkload(pod)];
}

function ofWorkload({ namespace, workload }) {
  const [kind, name] = workload.split("/");
  if (!["Deployment", "StatefulSet", "ReplicaSet"].includes(kind)) return [];
  const now = [...store.pods.values()].filter((each) => each.namespace === namespace && each.workload === workload && !["Succeeded", "Failed"].includes(each.phase)).length;
  const it = `${namespace}/${kind.toLowerCase()}/${name}`;
  return [[`scale ${name} to ${2 * now}`, `scale ${it}=${2 * now}`], now > 1 && [`scale ${name} to ${now - 1}`, `scale ${it}=${now - 1}`], kind !== "ReplicaSet" && [`roll ${name} out`, `rollout ${it}`]].filter(Boolean);
}

// "What if" with its offers, as links to the answer; `done`: what is imagined already.
export function offered(chosen, done = []) {
  const found = store.source.whatIf ? offersFor(chosen) : [];
  return found.length > 0 && h("div", { class: "offers", role: "group", "aria-label": "What if" }, h("b", {}, done.length ? "and what if we also …" : "What if we …"), " ",
    found.map(([words, change]) => link(whatIfPath([...done, change]), words, { class: "offer" })));
}

// Where to begin: the questions that people ask first of this cluster.
export function firstOffers() {
  const keys = store.labelKeys(), nodes = [...store.nodes.values()], podsOf = store.podsByNode();
  const domains = ["zone", "region"].flatMap((key) => {
    const values = [...(keys.get(`topology.kubernetes.io/${key}`) ?? [])].sort();
    return values.length > 1 ? values.slice(0, 3).map((value) => [`we lose ${key} ${value}?`, `lose ${key}=${value}`]) : [];
  }).slice(0, 4);
  const busiest = nodes.filter((node) => !node.unschedulable).sort((a, b) => (podsOf.get(b.name)?.length ?? 0) - (podsOf.get(a.name)?.length ?? 0))[0];
  const counts = tally(store.pods.values(), (pod) => `${pod.namespace} ${pod.workload}`);
  const [largest, count] = counts.find(([name]) => / (Deployment|StatefulSet)\//.test(name)) ?? [];
  const [namespace, workload] = largest?.split(" ") ?? [];
  return [
    ...domains, busiest && [`we drain ${busiest.name}, the busiest?`, `drain ${busiest.name}`], busiest && [`we add two nodes like ${busiest.name}?`, `add 2=${busiest.name}`],
    ...(workload ? ofWorkload({ namespace, workload }).filter(([, change]) => !change.startsWith("scale") || change.endsWith(`=${2 * count}`)).map(([words, change]) => [`we ${words}?`, change]) : []),
    ["we place everything anew?", "replace-all"],
  ].filter(Boolean);
}
