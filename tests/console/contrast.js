// Returns the texts of a page whose contrast with what is behind them is below 4.5 to 1 (WCAG 2).
() => {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const f = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const back = (node) => { for (; node; node = node.parentElement) { const c = rgb(getComputedStyle(node).backgroundColor); if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
  const bad = [];
  for (const node of document.querySelectorAll("body *")) {
    if (!node.innerText || ![...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim()) || node.closest("svg, .hidden, .skip, option")) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(back(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${node.tagName} ${node.className} ${ratio.toFixed(2)}: ${node.innerText.slice(0, 30)}`);
  }
  return bad;
}