// text.js - numbers and names as people read them, and small parts of the page made of them.

const GAP = '\u00a0'; // a number and its unit stay on one line
export const seconds = (s) => {
  if (!(s > 0)) { return '–'; }
  const [factor, unit] = s >= 1 ? [1, 's'] : s >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  return `${(s * factor).toFixed(factor === 1e6 ? 1 : 3)}${GAP}${unit}`;
};
export const percent = (x) => `${(x * 100).toFixed(1)}${GAP}%`;
export const ratio = (x) => (x > 0 ? x.toFixed(3) : '–');
export const count = (n) => Number(n).toLocaleString('en');
export const plural = (n, one, many) => `${count(n)} ${Number(n) === 1 ? one : many || `${one}s`}`;
export const bytes = (text) => {
  const n = Number(text);
  return n > 0 ? n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : `${(n / 1e6).toFixed(1)} MB` : '–';
};
export const word = (name) => name.replace(/^(STEP_|RUN_|PASS_|SCOPE_)/, '').toLowerCase().replace('state_unspecified', 'unknown');
export const degreesText = (f) => f.degrees.map((d) => `${d.degree}: ${count(d.sequences)}`).join(', ');

export function element(name, text, attributes) {
  const e = document.createElement(name);
  if (text !== undefined) { e.textContent = text; }
  Object.entries(attributes || {}).forEach(([k, v]) => e.setAttribute(k, v));
  return e;
}

export function write(node, text) {
  if (node.textContent !== text) { node.textContent = text; }
}

// Rows of a table's body; only what changed is touched, so that a reader keeps its place.
export function rows(table, list) {
  const body = table.tBodies[0];
  while (body.rows.length > list.length) { body.lastChild.remove(); }
  list.forEach((cells, i) => {
    const tr = body.rows[i] || body.appendChild(element('tr'));
    while (tr.cells.length > cells.length) { tr.lastChild.remove(); }
    cells.forEach((cell, k) => {
      const at = tr.cells[k] || tr.appendChild(k === 0 ? element('th', '', { scope: 'row' }) : element('td'));
      write(at, cell);
    });
  });
}

// A list of buttons; made anew only when it changes, and then the focus stays where it was.
export function choices(list, items, current, pick) {
  const now = JSON.stringify([items, current]);
  if (list.dataset.shown === now) { return; }
  list.dataset.shown = now;
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.replaceChildren(...items.map((item) => {
    const li = element('li', undefined, item.failed ? { class: 'failed' } : {});
    const b = element('button', item.text, { type: 'button', 'data-key': item.key });
    b.append(element('small', item.more));
    if (item.key === current) { b.setAttribute('aria-current', 'true'); }
    b.addEventListener('click', () => pick(item.key));
    li.append(b);
    return li;
  }));
  if (focused !== null) {
    const again = [...list.querySelectorAll('button')].find((b) => b.dataset.key === focused);
    if (again) { again.focus(); }
  }
}

export function legend(node, items) {
  node.replaceChildren(...items.map(([colour, text]) => {
    const e = element('span', text);
    const s = element('span', '', { class: 'swatch' });
    s.style.background = colour;
    e.prepend(s);
    return e;
  }));
}
