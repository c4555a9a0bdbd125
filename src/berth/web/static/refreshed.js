// Answers that take thought are asked for again some time after something changed, not at every change.

import { h, replace } from "./dom.js";
import { store } from "./store.js";

export function refreshed(view, question, draw) {
  let timer = 0, busy = false, due = false, ended = false, drawn = false;
  const run = async () => {
    timer = 0;
    if (busy) { due = true; return; }
    busy = true;
    const start = performance.now();
    try {
      const answer = await question();
      if (!ended) { draw(answer); drawn = true; }
    } catch (error) {
      // Who is not there is asked again, and what is shown stays: the head of the page says so.
      const away = error.status === undefined || error.status === 503;
      if (!ended && !(away && drawn)) failed(view, error);
      if (away) due = true;
    }
    busy = false;
    // However long an answer takes, most of the time nobody is kept busy by it.
    const rest = Math.max(400, 3 * (performance.now() - start));
    if (due && !ended) { due = false; timer = setTimeout(run, rest); }
  };
  if (!view.hasChildNodes() || view.dataset.for !== location.pathname) replace(view, h("p", { class: "empty" }, store.source.loading ? "The cluster is still being read …" : "Thinking …"));
  view.dataset.for = location.pathname;
  run();
  return {
    change() { if (!timer) timer = setTimeout(run, 300); },
    end() { ended = true; clearTimeout(timer); },
  };
}

function failed(view, error) {
  replace(view, h("div", { class: "card bad" }, h("p", { class: "big" }, error.message)));
}
