"""What a browser is asked about a page for those who cannot see it well. Both answer with what is wrong."""

# Controls and pictures without a name for a screen reader.
UNNAMED = """() => {
  const shown = (each) => each.offsetParent !== null || each.tagName === 'svg';
  const named = (each) => each.textContent.trim() || each.getAttribute('aria-label')
    || each.hasAttribute('alt') || each.closest('label')?.textContent.trim();
  return [...document.querySelectorAll('button, a, input, select, canvas, img, svg[role=img]')]
    .filter((each) => shown(each) && !named(each)).map((each) => each.outerHTML.slice(0, 120));
}"""

# Texts that do not stand out from what is behind them, by WCAG's contrast of at least 4.5.
FAINT = """() => {
  const parse = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const shares = [0.2126, 0.7152, 0.0722];
  const light = (rgb) => shares.reduce((sum, share, i) => sum + share * linear(rgb[i] / 255), 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3);
    const text = own.map((node) => node.textContent).join('').trim();
    if (!text || element.offsetParent === null || element.closest('noscript, script, option')) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(`${element.className} ${ratio.toFixed(2)} ${text.slice(0, 30)}`);
  }
  return [...found];
}"""
