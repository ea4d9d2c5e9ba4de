// draw.js - pictures on canvases. Pure: data in, pixels out. The colours are those of
// `hydractl draw`: people with any kind of colour vision can tell them apart, and what is far
// from the target stands out in light and in dark.

const dark = () => matchMedia('(prefers-color-scheme: dark)').matches;

const LOADS = [[0.25, 'under 25 %'], [0.5, '25–50 %'], [0.75, '50–75 %'], [0.95, '75–95 %'], [1.05, '95–105 %'],
  [1.25, '105–125 %'], [1.5, '125–150 %'], [2, '150–200 %'], [Infinity, 'over 200 %']];
const LOAD_LIGHT = ['#08519c', '#3182bd', '#6baed6', '#bdd7e7', '#dddddd', '#fdd0a2', '#fd8d3c', '#d94801', '#7f2704'];
const LOAD_DARK = ['#a9d3ff', '#6fb2ee', '#4788c2', '#43627d', '#50545a', '#80603f', '#b8722c', '#ee9134', '#ffc68c'];
const DEGREE_LIGHT = ['#440154', '#472d7b', '#3b528b', '#2c728e', '#21918c', '#28ae80', '#5ec962', '#addc30', '#fde725'];
const DEGREE_DARK = ['#6b54a0', '#5f6cbd', '#5484c6', '#4a9cc4', '#45b3b3', '#56c795', '#85d970', '#c0e650', '#fdf35a'];
const DEGREES = ['1', '2', '3–4', '5–8', '9–16', '17–32', '33–64', '65–128', 'over 128'];

export const emptyColour = () => (dark() ? '#0d1117' : '#ffffff');
export const predictedColour = () => (dark() ? '#6fb2ee' : '#2166ac');
export const measuredColour = () => (dark() ? '#ee9134' : '#d94801');

// load / target -> colour; 0 is an empty cell.
export function loadColour(ratio) {
  if (!(ratio > 0)) { return emptyColour(); }
  return (dark() ? LOAD_DARK : LOAD_LIGHT)[LOADS.findIndex(([below]) => ratio < below)];
}

export function degreeColour(degree) {
  if (!(degree > 0)) { return emptyColour(); }
  return (dark() ? DEGREE_DARK : DEGREE_LIGHT)[Math.min(8, Math.ceil(Math.log2(degree)))];
}

const scale = (light, night, names) => [[emptyColour(), 'empty'], ...(dark() ? night : light).map((c, i) => [c, names[i]])];
export const loadLegend = () => scale(LOAD_LIGHT, LOAD_DARK, LOADS.map(([, name]) => name));
export const degreeLegend = () => scale(DEGREE_LIGHT, DEGREE_DARK, DEGREES);

function prepare(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const g = canvas.getContext('2d');
  g.setTransform(dots, 0, 0, dots, 0, 0);
  g.clearRect(0, 0, width, height);
  g.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--dim');
  g.strokeStyle = g.fillStyle;
  g.font = '11px system-ui, sans-serif';
  return g;
}

// Steps of 1, 2, 4, 8, ...: ranks and nodes come in powers of two.
function labelStep(least) {
  let step = 1;
  while (step < least) { step *= 2; }
  return step;
}

// value(m, r) of nM x nR cells, as colours. Cells end on whole pixels, so that equal ones look
// equal. Gives {at(x, y) -> [m, r] or null, box(m, r) -> [x, y, width, height]}.
export function drawMap(canvas, nM, nR, colour, width, height) {
  const left = 34, top = 16;
  const cw = Math.min(48, (width - left - 1) / nM);
  const ch = Math.min(14, height / nR);
  const g = prepare(canvas, Math.ceil(left + cw * nM) + 1, Math.ceil(top + ch * nR) + 7);
  const x = (m) => left + Math.round(m * cw), y = (r) => top + Math.round(r * ch);
  const gapX = cw > 6 ? 1 : 0, gapY = ch > 6 ? 1 : 0;
  const stepM = labelStep(26 / cw), stepR = labelStep(14 / ch);
  for (let m = 0; m < nM; m += stepM) { g.fillText(String(m), x(m), 11); }
  g.textAlign = 'right';
  for (let r = 0; r < nR; r += stepR) { g.fillText(String(r), left - 5, y(r) + Math.max(9, ch / 2 + 4)); }
  for (let m = 0; m < nM; m++) {
    for (let r = 0, end; r < nR; r = end) { // runs of one colour at once
      const c = colour(m, r);
      end = r + 1;
      while (gapY === 0 && end < nR && colour(m, end) === c) { end++; }
      g.fillStyle = c;
      g.fillRect(x(m), y(r), x(m + 1) - x(m) - gapX, y(end) - y(r) - gapY);
    }
  }
  g.globalAlpha = 0.6;
  g.strokeRect(left - 0.5, top - 0.5, x(nM) - left + 1, y(nR) - top + 1);
  return {
    at(px, py) {
      const m = Math.floor((px - left) / cw), r = Math.floor((py - top) / ch);
      return m >= 0 && m < nM && r >= 0 && r < nR ? [m, r] : null;
    },
    box: (m, r) => [x(m), y(r), x(m + 1) - x(m), Math.max(2, y(r + 1) - y(r))],
  };
}

// Bars over the mean; predicted and (if any) measured, each relative to its own mean.
export function drawRanks(canvas, predicted, measured, width) {
  const n = predicted.length, high = 130, left = 40;
  const bar = Math.min(32, (width - left - 1) / n);
  const g = prepare(canvas, Math.ceil(left + bar * n) + 1, high + 20);
  const ink = g.fillStyle;
  const most = Math.max(1.2, ...predicted, ...(measured || [0]));
  const x = (i) => left + Math.round(i * bar), y = (v) => Math.round(high - v / most * (high - 12));
  const gap = bar > 6 ? 1 : 0;
  for (let i = 0; i < n; i++) {
    const wide = x(i + 1) - x(i) - gap, half = measured ? Math.max(1, Math.floor(wide / 2)) : wide;
    g.fillStyle = predictedColour();
    g.fillRect(x(i), y(predicted[i]), half, high - y(predicted[i]));
    if (measured) {
      g.fillStyle = measuredColour();
      g.fillRect(x(i) + half, y(measured[i]), Math.max(1, wide - half), high - y(measured[i]));
    }
  }
  g.fillStyle = ink;
  g.fillRect(left, y(1), x(n) - left, 1);
  g.textAlign = 'right';
  g.fillText('mean', left - 5, y(1) + 4);
  g.fillText('0', left - 5, high);
  g.textAlign = 'left';
  const step = labelStep(n * 34 / Math.max(34, width - left));
  for (let i = 0; i < n; i += step) { g.fillText(String(i), x(i), high + 14); }
}

// steps: [{degree: count}], names: a text for each; degrees: ascending list of all degrees.
export function drawDegrees(canvas, steps, names, degrees, width) {
  const high = 130, left = 40, bar = Math.max(3, Math.min(40, (width - left) / steps.length));
  const g = prepare(canvas, Math.ceil(left + bar * steps.length) + 30, high + 20);
  const ink = g.fillStyle;
  const x = (i) => left + Math.round(i * bar);
  steps.forEach((counts, i) => {
    const sum = degrees.reduce((s, d) => s + (counts[d] || 0), 0) || 1;
    let done = 0;
    degrees.forEach((d) => {
      const from = Math.round(done / sum * high);
      done += counts[d] || 0;
      const to = Math.round(done / sum * high);
      g.fillStyle = degreeColour(d);
      g.fillRect(x(i), high - to, x(i + 1) - x(i) - (bar > 4 ? 1 : 0), to - from);
    });
  });
  g.fillStyle = ink;
  g.textAlign = 'right';
  g.fillText('100 %', left - 5, 9);
  g.fillText('0', left - 5, high);
  g.textAlign = 'left';
  const step = labelStep(40 / bar);
  names.forEach((name, i) => { if (i % step === 0) { g.fillText(name, x(i), high + 14); } });
}
