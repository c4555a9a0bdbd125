// Small helpers. Text always goes in as text: nothing of a cluster is ever read as markup.

export const h = (tag, attributes, ...children) => made(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => made(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function made(element, attributes = {}, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "value") { element.setAttribute("value", value); element.value = value; }
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child.nodeType ? child : document.createTextNode(String(child)));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// The same for what is drawn again and again: what has not changed stays, and so does what a reader has opened, and
// where they are typing or steering.
export function update(element, ...children) {
  const fresh = element.cloneNode(false);
  append(fresh, children);
  const opened = new Map([...element.querySelectorAll("details")].map((each) => [wordsOf(each), each.open]));
  for (const each of fresh.querySelectorAll("details")) each.open = opened.get(wordsOf(each)) ?? each.open;
  if (fresh.isEqualNode(element)) return;
  const kept = place(element), { scrollTop } = element;
  element.replaceChildren(...fresh.childNodes);
  element.scrollTop = scrollTop;
  restore(element, kept);
}

const wordsOf = (details) => details.querySelector("summary")?.textContent.replace(/\d+/g, "");
const STOPS = "input, select, button, canvas, a, summary";

export function place(within) {
  const focused = document.activeElement;
  if (!within.contains(focused) || focused === within) return null;
  return { index: [...within.querySelectorAll(STOPS)].indexOf(focused), tag: focused.tagName, value: focused.value, at: focused.selectionStart };
}

export function restore(within, kept) {
  const found = kept && [...within.querySelectorAll(STOPS)][kept.index];
  if (found?.tagName !== kept?.tag || !found) return;
  found.focus({ preventScroll: true });
  if (kept.tag !== "INPUT") return;
  found.value = kept.value;
  if (kept.at !== null) found.setSelectionRange?.(kept.at, kept.at);
}

export function link(path, text, attributes = {}) {
  return h("a", { href: path, ...attributes }, text);
}

export const podPath = (namespace, name) => `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
export const nodePath = (name) => `/nodes/${encodeURIComponent(name)}`;

export function podLink(namespace, name, text) {
  return link(podPath(namespace, name), text ?? `${namespace}/${name}`);
}

export const nodeLinks = (names) => names.map((name, i) => [i > 0 && ", ", link(nodePath(name), name)]);

// Terms and what belongs to each.
export const facts = (pairs, attributes) => h("dl", {}, pairs.map(([term, fact]) => [h("dt", attributes, term), h("dd", attributes, fact)]));

// A part of a view, with a heading; `mark` is good, bad or warn.
export const card = (mark, title, ...children) => h("section", { class: mark ? `card ${mark}` : "card" }, h("h2", {}, title), children);

export function plural(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// The head of a column of figures.
export const figures = (text) => ({ text, right: true });

export function table(heads, rows, attributes = {}) {
  const head = heads.map((each) => h("th", { scope: "col", class: each.right ? "right" : undefined }, each.text ?? each));
  const body = rows.map((cells) =>
    h("tr", {}, cells.map((cell, i) => h("td", { class: heads[i]?.right ? "right" : undefined, "data-head": typeof heads[i] === "string" ? heads[i] : heads[i]?.text }, cell))));
  return h("div", { class: "scroll" }, h("table", attributes, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

export function select(label, value, options, change) {
  const found = h("select", { onchange: (event) => change(event.target.value) },
    options.map(([each, text]) => h("option", { value: each, selected: each === value }, text)));
  return h("label", {}, label, found);
}

export function search(label, value, placeholder, change) {
  let timer;
  const input = h("input", {
    type: "search", value, placeholder, size: 30, spellcheck: "false",
    oninput: (event) => { clearTimeout(timer); timer = setTimeout(() => change(event.target.value), 120); },
  });
  return h("label", {}, label, input);
}

function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const anchor = h("a", { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function exporting(name, json, svg) {
  const wrong = h("span", { role: "alert", class: "bad-text" });
  const saved = async () => {
    try {
      save(`${name}.json`, "application/json", JSON.stringify(await json(), null, 2));
      replace(wrong);
    } catch (error) {
      replace(wrong, error.message);
    }
  };
  return h("div", { class: "end" }, wrong, h("button", { type: "button", onclick: saved }, "JSON"),
    svg && h("button", { type: "button", onclick: () => save(`${name}.svg`, "image/svg+xml", svg()) }, "SVG"));
}

export function same(command, json) {
  return h("p", { class: "same" }, "The same in a terminal: ", h("code", {}, command), json && ["; as JSON: ", h("code", {}, json)]);
}

export function bytes(amount) {
  for (const [unit, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]])
    if (amount >= size) return `${Number((amount / size).toPrecision(3))} ${unit}`;
  return String(amount);
}

export const cores = (milli) => (milli % 1000 && milli < 10_000 ? `${milli}m` : String(Math.round(milli / 100) / 10));

export function meter(label, used, total, text) {
  const share = total ? Math.min(100, (100 * used) / total) : 0;
  return h("div", { role: "meter", "aria-label": label, "aria-valuenow": Math.round(share), "aria-valuemin": 0, "aria-valuemax": 100 },
    h("div", { class: "soft" }, `${label}: ${text}`), h("div", { class: "meter" }, h("i", { style: { width: `${share}%` } })));
}

// A drawing to be kept by itself, with its background.
export const sheet = (width, height, fill, attributes, ...children) =>
  s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", ...attributes }, s("rect", { width, height, fill }), children);

export function svgText(element) {
  const copy = element.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

// A view of words as a picture: its lines, as they are read, with what stands out in bold.
export function wordsSvg(element) {
  const lines = [];
  for (const part of element.querySelectorAll("h1, h2, h3, p, li, tr, summary, .big")) {
    if ((part.tagName !== "H1" && part.closest(".bar")) || part.closest(".same, .offers") || part.offsetParent === null || part.querySelector("p, li, tr, summary")) continue;
    const cells = part.tagName === "TR" ? [...part.children].map((cell) => cell.innerText) : [part.innerText];
    const text = cells.map((cell) => cell.replace(/\s+/g, " ").trim()).join("   ");
    const bold = /^(H\d|SUMMARY)$/.test(part.tagName) || part.classList.contains("big") || part.querySelector("th");
    for (let rest = text; rest; rest = rest.slice(130)) lines.push([rest.slice(0, 130), bold]);
  }
  const style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(name).trim();
  return svgText(sheet(1000, 20 * lines.length + 20, color("--card"), { "font-size": 13 },
    lines.map(([text, bold], i) => s("text", { x: 12, y: 24 + 20 * i, fill: color("--text"), "font-weight": bold ? 600 : 400 }, text))));
}
