// Colours for kinds of things. A colour is never the only sign: shapes and words say the same.

const LIGHT = ["#3b76d4", "#d9762b", "#2f9e6e", "#b04ca8", "#7a6ad8", "#b8860b", "#1f9bb3", "#c8475f", "#6b8e23", "#8d6748", "#5b7083", "#d45da0"];
const DARK = ["#79a9f5", "#f0a160", "#63cf9f", "#d98ad2", "#a99cf5", "#e0b84e", "#5fcbe0", "#f28a9d", "#a9c95f", "#c8a283", "#9cb1c4", "#f0a0cb"];
const dark = matchMedia("(prefers-color-scheme: dark)");

const palette = () => (dark.matches ? DARK : LIGHT);

// Draw again when the system's preference changes, as long as an element is shown.
export function onTheme(act, element) {
  const changed = () => { if (element.isConnected) act(); else dark.removeEventListener("change", changed); };
  dark.addEventListener("change", changed);
}

// Names of a kind are given colours in the order in which they are asked for, so that few names never share one;
// rules that score in an order of their own, so that every pod's are the same, whichever was looked at before.
const SCORING = ["TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "VolumeBinding", "DynamicResources"];
const given = { score: new Map(SCORING.map((name, i) => [name, i])), rule: new Map(), namespace: new Map(), workload: new Map() };

const numberOf = (kind, name) => given[kind].get(name) ?? given[kind].set(name, given[kind].size).get(name);

export function nameColors(kind, names) {
  for (const name of [...names].sort()) numberOf(kind, name);
}

export function colorOf(kind, name) {
  const colors = palette();
  return colors[numberOf(kind, name) % colors.length];
}

export function theme() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["back", "card", "sunk", "line", "text", "soft", "accent", "good", "bad", "warn", "mark"]
    .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

export const PHASES = { Running: "good", Pending: "warn", Succeeded: "soft", Failed: "bad", Unknown: "warn", Terminating: "soft", NotReady: "warn" };
