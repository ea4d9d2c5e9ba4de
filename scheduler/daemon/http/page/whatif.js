// whatif.js - plan lengths in two ways and show the difference; no job is touched.
import { call } from '/api.js';
import { drawMap, loadColour } from '/draw.js';
import { count, degreesText, element, percent, ratio, rows, seconds, write } from '/text.js';

const $ = (id) => document.getElementById(id);
const NUMBERS = { 'wi-ranks': ['Ranks', 65536], 'wi-cap': ['Cap', 268435456], 'wi-pp': ['Pipeline stages', 1024] };
// Which field of the form a field of the request comes from.
const INPUT_OF = [['length', 'wi-lengths'], ['ranks', 'wi-ranks'], ['cap', 'wi-cap'], ['pp', 'wi-pp'], ['policy', 'wi-policy']];
let jobs = [];
let taken = null; // {name, text, settings, figures}: the step that the lengths came from
let results = [];

export function offerJobs(list) {
  jobs = list;
  const now = JSON.stringify(jobs.map((j) => j.spec.name));
  const select = $('wi-like');
  if (select.dataset.shown === now) { return; }
  select.dataset.shown = now;
  const chosen = select.value;
  select.replaceChildren(element('option', 'llama-8b on h100 (built in)', { value: '' }),
    ...jobs.map((j) => element('option', `job ${j.spec.name}`, { value: j.spec.name })));
  select.value = jobs.some((j) => j.spec.name === chosen) ? chosen : '';
}

export function offerPolicies(list) {
  ['wi-policy', 'wi-policy2'].forEach((id, i) => {
    $(id).replaceChildren(...list.map((p) => element('option', p.name, { value: p.name, title: p.summary })));
    $(id).selectedIndex = Math.min(i, list.length - 1);
  });
}

function complain(id, text) {
  const error = new Error(text);
  error.input = id;
  return error;
}

function readNumber(id) {
  const [name, most] = NUMBERS[id], text = $(id).value.trim();
  if (!/^\d+$/.test(text) || Number(text) < 1 || Number(text) > most) {
    throw complain(id, `${name}: '${text}' must be a whole number from 1 to ${count(most)}.`);
  }
  return Number(text);
}

function readLengths() {
  const words = $('wi-lengths').value.split(/[\s,;]+/).filter((w) => w !== '');
  if (words.length === 0) { throw complain('wi-lengths', 'No lengths yet: paste some, or take those of the chosen step.'); }
  return words.map((w) => {
    if (!/^\d+$/.test(w) || Number(w) < 1 || Number(w) > 4294967295) {
      throw complain('wi-lengths', `Length '${w.slice(0, 40)}' must be a whole number of tokens, 1 or more.`);
    }
    return Number(w);
  });
}

// Pool, limits and cost of the chosen job, with this form's numbers in their place.
function readSettings() {
  const job = jobs.find((j) => j.spec.name === $('wi-like').value);
  const ranks = readNumber('wi-ranks'), spec = job ? job.spec : {};
  const pool = { ...(spec.pool || {}), ranks, pp: readNumber('wi-pp') };
  const limits = { ...(spec.limits || {}), cap_tokens: readNumber('wi-cap') };
  if (spec.pool && spec.pool.ranks !== ranks) {
    delete pool.speed; // one a rank: they do not fit another pool
    delete limits.max_degree;
    if (ranks % (pool.ranks_per_node || 1) !== 0) { delete pool.ranks_per_node; }
  }
  if (spec.pool && spec.pool.pp !== pool.pp) {
    ['stages', 'vpp', 'vpp_group'].forEach((name) => delete pool[name]); // of another pipeline
  }
  if (spec.limits && spec.limits.forward_cap_tokens) { delete limits.forward_cap_tokens; }
  return { pool, limits, ...(spec.cost ? { cost: spec.cost } : {}), like: job };
}

function policyOf(name, job) {
  const own = job && job.spec.policy && job.spec.policy.policy === name;
  return { policy: name, ...(own ? { options: job.spec.policy.options } : {}) };
}

export function takeStep(job, plan, info) {
  if (!job || !plan) {
    fail(complain('wi-from-step', 'No step with a plan is chosen. Choose one on the left, or paste lengths.'));
    return;
  }
  $('wi-lengths').value = plan.length_tokens.join(' ');
  $('wi-ranks').value = plan.ranks;
  $('wi-cap').value = plan.cap_tokens;
  $('wi-pp').value = job.spec.pool.pp || 1;
  $('wi-like').value = job.spec.name;
  [...$('wi-policy').options].forEach((o) => { o.selected = o.value === plan.policy; });
  taken = { name: `step ${info.step} of ${job.spec.name}`, text: $('wi-lengths').value, figures: plan.figures, plan };
  clearError();
}

function clearError() {
  $('wi-error').textContent = '';
  document.querySelectorAll('#whatif [aria-invalid]').forEach((e) => e.removeAttribute('aria-invalid'));
}

function fail(error) {
  const found = INPUT_OF.find(([part]) => (error.field || '').includes(part));
  // 422: what was asked for is fine but does not fit; a larger cap is the first way out.
  const input = $(error.input || (error.status === 422 && 'wi-cap') || (found && found[1]) || 'wi-lengths');
  $('wi-error').textContent = error.message;
  $('wi-result').hidden = true;
  results = [];
  drawResults();
  if (error.input || error.field || error.status === 422) {
    if (input.tagName !== 'BUTTON') { input.setAttribute('aria-invalid', 'true'); }
    input.focus();
  }
}

const LINES = [
  ['Step, predicted', (p) => seconds(p.figures.step_s)],
  ['Above the bound of any plan', (p) => percent(p.figures.gap)],
  ['Balance, hottest over mean cell', (p) => ratio(p.figures.balance)],
  ['Hottest cell', (p) => seconds(p.figures.hottest_cell_s)],
  ['Bubbles', (p) => percent(p.figures.bubble.total)],
  ['Microbatches', (p) => count(p.num_microbatches)],
  ['Degrees (degree: sequences)', (p) => degreesText(p.figures)],
  ['Planned in, CPU time', (p) => seconds(p.figures.plan_cpu_s)],
];

// "as long", "12.3 % shorter"
function compared(step_s, base_s) {
  const by = step_s / base_s - 1;
  return Math.abs(by) < 5e-4 ? 'as long' : `${percent(Math.abs(by))} ${by < 0 ? 'shorter' : 'longer'}`;
}

function show(plans, names, base) {
  const columns = [...(base ? [[`${base.name}, as planned`, base.plan]] : []), ...names.map((n, i) => [n, plans[i]])];
  const head = $('wi-result').tHead.rows[0].cells;
  [1, 2, 3].forEach((i) => { head[i].textContent = columns[i - 1] ? columns[i - 1][0] : ''; head[i].hidden = !columns[i - 1]; });
  const made = columns.filter(([, p]) => !(p instanceof Error));
  const first = made[0];
  rows($('wi-result'), [
    ...LINES.map(([name, value], k) => [name, ...columns.map(([, p]) => (p instanceof Error ? (k === 0 ? p.message : '–') : value(p)))]),
    [`Step beside ${first[0]}`, ...columns.map(([, p]) => (p instanceof Error ? '–' : p === first[1] ? 'the measure' : compared(p.figures.step_s, first[1].figures.step_s)))],
  ]);
  $('wi-result').hidden = false;
  const best = made.reduce((a, b) => (b[1].figures.step_s < a[1].figures.step_s ? b : a));
  write($('wi-caption'), made.length === 1 ? `Only ${best[0]} has a plan.` : `Shortest predicted step: ${best[0]}, ${seconds(best[1].figures.step_s)}.`);
}

export function drawResults() {
  $('wi-maps').hidden = results.length === 0;
  [0, 1].forEach((i) => {
    const plan = results[i] && results[i].plan, figure = $(`wi-map${i}`).parentElement;
    figure.hidden = !plan;
    if (!plan) { return; }
    const cells = plan.microbatches.map((m) => m.cell_seconds), f = plan.figures;
    const target = results[0].plan && results[0].plan.figures.mean_cell_s > 0 ? results[0].plan.figures.mean_cell_s : f.mean_cell_s;
    const wide = $('whatif').clientWidth;
    drawMap($(`wi-map${i}`), cells.length, plan.ranks, (m, r) => loadColour(cells[m][r] / target), wide > 900 ? wide / 2 - 20 : wide, 260);
    write($(`wi-cap${i}`), `${results[i].name}: load of each cell against the mean cell of ${results[0].plan ? results[0].name : results[i].name}, ${seconds(target)}; hottest ${seconds(f.hottest_cell_s)}, ${f.empty_cells} empty`);
  });
}

async function plan() {
  clearError();
  const length_tokens = readLengths(), { like, ...settings } = readSettings();
  const names = [$('wi-policy').value, $('wi-policy2').value];
  const base = taken && taken.text === $('wi-lengths').value ? taken : null;
  $('wi-plan').disabled = true;
  write($('wi-caption'), 'Planning…');
  const plans = await Promise.all(names.map((policy) => call('Plan', {
    batch: { length_tokens }, ...settings, policy: policyOf(policy, like),
  }).then((a) => a.plan, (error) => error))).finally(() => { $('wi-plan').disabled = false; });
  if (plans.every((p) => p instanceof Error)) { throw plans[0]; }
  show(plans, names, base);
  results = plans.map((p, i) => ({ name: names[i], plan: p instanceof Error || p.microbatches.length < p.num_microbatches ? null : p }));
  drawResults();
}

$('whatif').addEventListener('submit', (e) => {
  e.preventDefault();
  plan().catch(fail);
});
$('wi-like').addEventListener('change', () => {
  const job = jobs.find((j) => j.spec.name === $('wi-like').value);
  if (!job) { return; }
  $('wi-ranks').value = job.spec.pool.ranks;
  $('wi-cap').value = job.spec.limits.cap_tokens;
  $('wi-pp').value = job.spec.pool.pp || 1;
});
