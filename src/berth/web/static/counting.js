// Things put together by name, put in order and counted, and names taken apart.

export const ORDER = new Intl.Collator("en", { numeric: true });

export function grouped(things, nameOf) {
  const found = new Map();
  for (const each of things) {
    const name = nameOf(each);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(each);
  }
  return found;
}

// Names and how often each is there, the most frequent first.
export function tally(things, nameOf) {
  return [...grouped(things, nameOf)].map(([name, those]) => [name, those.length]).sort((a, b) => b[1] - a[1]);
}

// What is before the first mark, and what is behind it.
export function split(text, mark) {
  const at = text.indexOf(mark);
  return [text.slice(0, at), text.slice(at + 1)];
}
