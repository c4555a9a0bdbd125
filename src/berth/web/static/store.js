// What the page knows of the cluster: every node and pod, kept in step by the stream of changes.

import { grouped } from "./counting.js";

const SHORT = {
  region: "topology.kubernetes.io/region", zone: "topology.kubernetes.io/zone", host: "kubernetes.io/hostname",
};
const NAMES = Object.fromEntries(Object.entries(SHORT).map(([short, key]) => [key, short]));
export const shortKey = (key) => NAMES[key] ?? key;
export const longKey = (key) => SHORT[key] ?? key;

const column = ({ values, rows }) => rows.map((row) => values[row]);

class Store extends EventTarget {
  nodes = new Map();
  pods = new Map();
  source = {};
  position = "";
  events = [];
  connected = true;
  refused = ""; // why the server does not want us
  failed = ""; // why nothing could be read in the first place

  async load() {
    const overview = await ask("overview");
    this.source = overview.source;
    this.position = overview.position;
    this.#take(overview);
    this.dispatchEvent(new Event("change"));
    return overview;
  }

  #take({ nodes, pods }) {
    this.nodes.clear();
    this.pods.clear();
    const states = column(nodes.state), cpu = column(nodes.cpu), memory = column(nodes.memory), room = column(nodes.pods);
    const labels = Object.entries(nodes.labels).map(([key, of]) => [key, column(of)]);
    const closed = new Set(nodes.unschedulable);
    nodes.name.forEach((name, i) => {
      const own = {};
      for (const [key, values] of labels) if (values[i] !== null) own[key] = values[i];
      this.nodes.set(name, {
        name, labels: own, state: states[i], unschedulable: closed.has(i), taints: nodes.taints[i] ?? [],
        cpu: cpu[i], memory: memory[i], pods: room[i],
      });
    });
    const namespaces = column(pods.namespace), workloads = column(pods.workload), phases = column(pods.phase);
    const asked = column(pods.cpu), wanted = column(pods.memory), marks = column(pods.labels);
    pods.name.forEach((name, i) => {
      const node = pods.node[i] >= 0 ? nodes.name[pods.node[i]] : pods.strayNode[i] ?? "";
      this.pods.set(`${namespaces[i]}/${name}`, {
        namespace: namespaces[i], name, workload: workloads[i], node, phase: phases[i], cpu: asked[i], memory: wanted[i], labels: marks[i],
      });
    });
  }

  follow() {
    const stream = new EventSource(`/api/v1/changes?since=${encodeURIComponent(this.position)}`);
    const on = (kind, act) => stream.addEventListener(kind, (event) => {
      this.position = event.lastEventId;
      act(JSON.parse(event.data));
    });
    on("change", (changes) => {
      for (const node of changes.nodes) this.nodes.set(node.name, node);
      for (const pod of changes.pods) this.pods.set(`${pod.namespace}/${pod.name}`, pod);
      for (const name of changes.goneNodes) this.nodes.delete(name);
      for (const key of changes.gonePods) this.pods.delete(key);
      this.dispatchEvent(new Event("change"));
    });
    on("happened", (event) => {
      this.events = [...this.events.filter((each) => each.id !== event.id), event].slice(-1000); // counted up, it is told once
      this.dispatchEvent(new Event("happened"));
    });
    on("trouble", ({ trouble }) => { this.source.trouble = trouble; this.dispatchEvent(new Event("source")); });
    on("reset", () => this.load().then(() => this.dispatchEvent(new Event("source")), () => {}));
    stream.addEventListener("refused", (event) => this.#refuse(JSON.parse(event.data).error));
    stream.onopen = () => { this.refused = ""; this.#connection(true); };
    stream.onerror = () => {
      this.#connection(false);
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => this.#again(), 2000);
    };
  }

  // What happened before the page was opened, beside what it has heard of since.
  remember(events) {
    const known = new Map(events.map((each) => [each.id, each.count]));
    const heard = this.events.filter((each) => !(known.get(each.id) >= each.count));
    const newer = new Set(heard.map((each) => each.id));
    this.events = [...events.filter((each) => !newer.has(each.id)).sort((a, b) => (a.time ?? "").localeCompare(b.time ?? "")), ...heard].slice(-1000);
  }

  async #again() {
    try {
      await this.load();
      this.follow();
    } catch (error) {
      if (error.status === 401) this.#refuse(error.message);
      else setTimeout(() => this.#again(), 2000);
    }
  }

  #refuse(why) {
    this.refused = why;
    this.dispatchEvent(new Event("source"));
  }

  #connection(up) {
    if (this.connected !== up) { this.connected = up; this.dispatchEvent(new Event("source")); }
  }

  // How a command of Berth is told of the same cluster, judged in the same way.
  get given() {
    return [this.source.command, this.source.flags].filter(Boolean).join(" ");
  }

  podsByNode() {
    return grouped(this.pods.values(), (pod) => (this.nodes.has(pod.node) ? pod.node : ""));
  }

  waiting() {
    return [...this.pods.values()].filter((pod) => !pod.node && pod.phase === "Pending");
  }

  labelKeys() {
    const labels = grouped([...this.nodes.values()].flatMap((node) => Object.entries(node.labels)), ([key]) => key);
    return new Map([...labels].map(([key, those]) => [key, new Set(those.map(([, value]) => value))]));
  }
}

export async function ask(question, body) {
  const answer = await fetch(`/api/v1/${question}`, body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }).catch(() => { throw new Error("Berth does not answer; it is asked again."); });
  const content = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw Object.assign(new Error(content.error ?? `the server answered ${answer.status}`), { status: answer.status });
  return content;
}

export const store = new Store();

// Where a dump is from, its cluster has to be asked.
export const kubectl = (words) => (store.source.live ? `kubectl ${words} ${store.source.command}`.trim() : `kubectl ${words}`);
