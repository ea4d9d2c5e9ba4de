// draw.js - pictures on canvases. Pure: data in, pixels out. Colours are readable with any
// kind of colour blindness: cells go from blue (under the target) over grey to orange.

const dark = () => matchMedia('(prefers-color-scheme: dark)').matches;

// load / target -> colour; 0 is an empty cell.
export function loadColour(ratio) {
  if (!(ratio > 0)) { return dark() ? '#161b22' : '#ffffff'; }
  const under = [33, 102, 172], at = dark() ? [110, 118, 129] : [200, 205, 211], over = [230, 97, 1];
  const x = Math.max(-1, Math.min(1, (ratio - 1) / 0.5));
  const to = x < 0 ? under : over, k = Math.abs(x);
  return `rgb(${at.map((v, i) => Math.round(v + (to[i] - v) * k)).join(',')})`;
}

const DEGREE_COLOURS = ['#999999', '#56b4e9', '#0072b2', '#009e73', '#f0e442', '#e69f00', '#d55e00', '#cc79a7'];
export const degreeColour = (i) => DEGREE_COLOURS[Math.min(i, DEGREE_COLOURS.length - 1)];

function prepare(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const g = canvas.getContext('2d');
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

const ink = () => getComputedStyle(document.documentElement).getPropertyValue('--dim');

// seconds[microbatch][rank]; returns {at(x, y) -> [microbatch, rank] or null}.
export function drawMap(canvas, seconds, target, width) {
  const nM = seconds.length, nR = seconds[0].length, left = 44, top = 16;
  const cw = Math.max(2, Math.min(26, (width - left) / nM));
  const ch = Math.max(1, Math.min(14, 560 / nR));
  const g = prepare(canvas, left + cw * nM + 2, top + ch * nR + 2);
  const gapX = cw > 5 ? 1 : 0, gapY = ch > 4 ? 1 : 0;
  for (let m = 0; m < nM; m++) {
    for (let r = 0; r < nR; r++) {
      g.fillStyle = loadColour(seconds[m][r] / target);
      g.fillRect(left + m * cw, top + r * ch, cw - gapX, ch - gapY);
    }
  }
  g.fillStyle = ink();
  g.font = '11px system-ui, sans-serif';
  const stepM = Math.max(1, Math.ceil(30 / cw)), stepR = Math.max(1, Math.ceil(14 / ch));
  for (let m = 0; m < nM; m += stepM) { g.fillText(String(m), left + m * cw, 11); }
  for (let r = 0; r < nR; r += stepR) { g.fillText(`rank ${r}`, 0, top + r * ch + 9); }
  return { at(x, y) {
    const m = Math.floor((x - left) / cw), r = Math.floor((y - top) / ch);
    return m >= 0 && m < nM && r >= 0 && r < nR ? [m, r] : null;
  } };
}

// Two bars a rank: predicted and (if any) measured, each relative to its own mean.
export function drawRanks(canvas, predicted, measured, width) {
  const n = predicted.length, height = 150, left = 40;
  const bar = Math.max(1, Math.min(22, (width - left) / n));
  const g = prepare(canvas, left + bar * n + 2, height + 18);
  const mean = (a) => a.reduce((s, v) => s + v, 0) / a.length || 1;
  const rel = (a) => { const k = mean(a); return a.map((v) => v / k); };
  const p = rel(predicted), q = measured ? rel(measured) : null;
  const most = Math.max(1.2, ...p, ...(q || [0]));
  const y = (v) => height - v / most * (height - 10);
  for (let i = 0; i < n; i++) {
    const w = q ? bar / 2 : bar, gap = bar > 4 ? 1 : 0;
    g.fillStyle = '#2166ac';
    g.fillRect(left + i * bar, y(p[i]), w - gap, height - y(p[i]));
    if (q) {
      g.fillStyle = '#e66101';
      g.fillRect(left + i * bar + w, y(q[i]), w - gap, height - y(q[i]));
    }
  }
  g.strokeStyle = ink();
  g.beginPath(); g.moveTo(left, y(1)); g.lineTo(left + bar * n, y(1)); g.stroke();
  g.fillStyle = ink();
  g.font = '11px system-ui, sans-serif';
  g.fillText('mean', 2, y(1) + 4);
  g.fillText(`rank 0 … ${n - 1}`, left, height + 14);
}

// steps: [{degree: count}], degrees: ascending list of all degrees.
export function drawDegrees(canvas, steps, degrees, width) {
  const height = 130, bar = Math.max(4, Math.min(26, width / steps.length));
  const g = prepare(canvas, bar * steps.length + 2, height);
  steps.forEach((counts, i) => {
    const sum = degrees.reduce((s, d) => s + (counts[d] || 0), 0) || 1;
    let y = height;
    degrees.forEach((d, k) => {
      const h = (counts[d] || 0) / sum * height;
      g.fillStyle = degreeColour(k);
      g.fillRect(i * bar, y - h, bar - 1, h);
      y -= h;
    });
  });
}
