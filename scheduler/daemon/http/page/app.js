// app.js - the inspection page: asks the daemon again and again and shows what it says.
// Read-only.
import { Denied, call, policies, useToken } from '/api.js';
import {
  degreeColour, degreeLegend, drawDegrees, drawMap, drawRanks, loadColour, loadLegend, measuredColour, predictedColour,
} from '/draw.js';
import {
  bytes, choices, count, degreesText, element, legend, percent, plural, ratio, rows, seconds, word, write,
} from '/text.js';
import { drawResults, offerJobs, offerPolicies, takeStep } from '/whatif.js';

const $ = (id) => document.getElementById(id);
const PERIOD_MS = 2000, STEPS = 200, NUMBERED_STEPS = 20;
const state = { job: null, step: null, jobs: [], steps: [], plan: null, map: null, cell: [0, 0] };

function say(text, bad) {
  write($('status'), text);
  $('status').className = bad ? 'bad' : '';
}

const jobNow = () => state.jobs.find((j) => j.spec.name === state.job);
const stepNow = () => state.steps.find((s) => s.step === state.step);
const wide = () => Math.max(240, $('main').clientWidth - 48);
const measuredBalance = (s) => (s.report && s.report.measured_balance_cells > 0 ? s.report.measured_balance_cells : 0);

function show(node, yes) { node.hidden = !yes; }

// --- jobs and steps ---

function jobMore(j) {
  const runs = j.spec.run === 'RUN_NONE' ? 'its trainer runs the plans' : `${j.members} of ${j.spec.pool.ranks} ranks ready, epoch ${j.epoch}`;
  const steps = j.has_step ? `last step ${j.last_step}, ${count(j.steps_done)} done, ${count(j.steps_failed)} failed` : 'no steps yet';
  return [j.open ? 'open' : 'closed', plural(j.spec.pool.ranks, 'rank'), ...(j.open ? [runs] : []), steps].join(' · ');
}

function choose(job, step) {
  state.job = job;
  state.step = step;
  refresh();
}

async function showJobs() {
  state.jobs = (await call('ListJobs', { include_closed: true })).jobs;
  if (!jobNow()) {
    const first = state.jobs.find((j) => j.open) || state.jobs[0];
    state.job = first ? first.spec.name : null;
    state.step = null;
  }
  show($('jobs-empty'), state.jobs.length === 0);
  choices($('jobs'), state.jobs.map((j) => ({ key: j.spec.name, text: j.spec.name, more: jobMore(j) })), state.job,
    (key) => choose(key, null));
  offerJobs(state.jobs);
}

function stepMore(s) {
  const parts = [word(s.state), plural(s.sequences, 'sequence')];
  if (s.figures) { parts.push(`balance ${ratio(s.figures.balance)}${measuredBalance(s) ? `, measured ${ratio(measuredBalance(s))}` : ''}`); }
  if (s.reason) { parts.push(s.reason); }
  return parts.join(' · ');
}

async function showSteps() {
  const job = state.job;
  const steps = job === null ? [] : (await call('ListSteps', { job, newest: true, limit: STEPS })).steps;
  if (job !== state.job) { return; }
  state.steps = steps;
  if (!stepNow()) { state.step = steps.length > 0 ? steps[steps.length - 1].step : null; }
  show($('steps-empty'), steps.length === 0);
  $('steps-empty').replaceChildren(...(job === null ? ['Steps of a job appear here.']
    : ['No steps yet. The trainer submits them, or: ', element('code', `hydractl submit ${job} LENGTHS`)]));
  choices($('steps'), [...steps].reverse().map((s) => ({
    key: s.step, text: `Step ${s.step}`, failed: s.state === 'STEP_FAILED', more: stepMore(s),
  })), state.step, (key) => choose(state.job, key));
  showDegrees();
}

function showDegrees() {
  const steps = state.steps.filter((s) => s.figures);
  show($('time-empty'), steps.length === 0);
  show($('time-figure'), steps.length > 0);
  if (steps.length === 0) { return; }
  const counts = steps.map((s) => Object.fromEntries(s.figures.degrees.map((d) => [d.degree, d.sequences])));
  const degrees = [...new Set(steps.flatMap((s) => s.figures.degrees.map((d) => d.degree)))].sort((a, b) => a - b);
  const last = steps[steps.length - 1];
  drawDegrees($('time'), counts, steps.map((s) => s.step), degrees, Math.min(900, wide()));
  write($('time-caption'), `Share of the sequences at each degree, ${steps.length === 1 ? `step ${last.step}` : `steps ${steps[0].step} to ${last.step}`}. Step ${last.step}: ${last.figures.degrees.map((d) => `${plural(d.sequences, 'sequence')} at degree ${d.degree}`).join(', ')}.`);
  legend($('time-legend'), degrees.map((d) => [degreeColour(d), `degree ${d}`]));
  if ($('time-numbers').open) { numberSteps(steps, counts, degrees); }
}

function numberSteps(steps, counts, degrees) {
  const table = $('time-numbers').querySelector('table');
  table.tHead.rows[0].replaceChildren(element('th', 'Step', { scope: 'col' }), ...degrees.map((d) => element('th', `degree ${d}`, { scope: 'col' })));
  rows(table, steps.map((s, i) => [s.step, ...degrees.map((d) => count(counts[i][d] || 0))]).slice(-NUMBERED_STEPS).reverse());
}

// --- one plan ---

async function showPlan() {
  const { job, step } = state, info = stepNow();
  show($('plan-empty'), !info);
  show($('plan'), Boolean(info));
  write($('plan-title'), info ? `Plan of ${job}, step ${step}` : 'Plan');
  if (!info) {
    write($('plan-empty'), job === null ? 'Open a job and submit a step: its plan is shown here.' : `Job ${job} has no steps yet. Once one is submitted, its plan is shown here.`);
    state.plan = null;
    return;
  }
  const key = JSON.stringify([job, step, info.state, info.epoch]);
  if (state.plan === null || state.plan.key !== key) {
    const [plan, full, cell_s] = await Promise.all([fetchPlan(job, step), fetchReport(job, step, info), fetchCellCost(job)]);
    if (job !== state.job || step !== state.step) { return; }
    if (state.plan === null || state.plan.job !== job || state.plan.step !== step) { forgetCell(); }
    state.plan = { key, job, step, info: full, cell_s, ...plan };
    drawPlan();
  }
}

async function fetchPlan(job, step) {
  try {
    const parts = (await call('GetPlan', { job, step })).messages;
    const plan = parts[0].plan;
    plan.microbatches = parts.flatMap((p) => p.plan.microbatches);
    return { plan, why: '' };
  } catch (error) {
    if (!error.status) { throw error; }
    if (!stepNow() || !stepNow().figures) { return { plan: null, why: 'This step has no plan; its state says why.' }; }
    return { plan: null, why: error.status === 404 ? 'The daemon keeps the plans of the last steps only (its setting plan.keep_plans); the figures of older ones remain. Choose a newer step to see a map.' : error.message };
  }
}

// The fixed cost of a cell: part of its load, not of the target.
async function fetchCellCost(job) {
  return (await call('GetCostModel', { job })).cost.cell_s;
}

// With the measured seconds of each cell, where the daemon still has them.
async function fetchReport(job, step, info) {
  if (!info.report) { return info; }
  try {
    const full = (await call('ListSteps', { job, from_step: step, limit: 1, include_cells: true })).steps[0];
    return full && full.step === step ? full : info;
  } catch (error) {
    if (!error.status) { throw error; }
    return info; // too many for one answer
  }
}

function figureRows(plan, info) {
  const f = info.figures, r = info.report, job = jobNow();
  const list = [['State', word(info.state) + (info.reason ? `: ${info.reason}` : '')]];
  list.push(['Policy', plan ? plan.policy : job.spec.policy.policy]);
  list.push(['Batch', `${plural(info.sequences, 'sequence')}, ${plural(info.tokens, 'token')}, ${plural(info.num_microbatches, 'microbatch', 'microbatches')}, epoch ${info.epoch}`]);
  if (!f) { return list; }
  list.push(
    ['Degrees (degree: sequences)', degreesText(f)],
    ['Cell, predicted', `target ${seconds(f.target_s)}, hottest ${seconds(f.hottest_cell_s)}, mean ${seconds(f.mean_cell_s)}, no plan has a hottest cell below ${seconds(f.lower_bound_s)}; scope ${word(f.scope)}`],
    ['Balance, hottest over mean', `cells: predicted ${ratio(f.balance)}, measured ${ratio(measuredBalance(info))}; ranks: measured ${ratio(r ? r.measured_balance_ranks : 0)}`],
    ['Step', `predicted ${seconds(f.step_s)}, ${percent(f.gap)} above the bound of any plan; measured ${seconds(r ? r.wall_s : 0)}`],
    ['Bubbles, predicted', `${percent(f.bubble.total)}: inherent ${percent(f.bubble.inherent)}, pipeline imbalance ${percent(f.bubble.pipeline_imbalance)}, data parallel ${percent(f.bubble.data_parallel)}, group wait ${percent(f.bubble.group_wait)}`]);
  if (r && Number(r.predicted_peak_bytes) + Number(r.measured_peak_bytes) > 0) {
    list.push(['Peak memory of a rank', `predicted ${bytes(r.predicted_peak_bytes)}, measured ${bytes(r.measured_peak_bytes)}`]);
  }
  if (r) {
    list.push(['Checked sequences', r.check && r.check.by_reference + r.check.by_single_rank + r.check.unchecked > 0 ? `${count(r.check.by_reference)} by reference, ${count(r.check.by_single_rank)} by one rank, ${count(r.check.unchecked)} not; largest error ${r.check.max_error.toExponential(1)}` : 'none']);
  }
  list.push(['Fingerprint', BigInt(info.fingerprint).toString(16).padStart(16, '0')]);
  return list;
}

// [microbatch][rank] of the measured compute seconds; null: none are known.
function measuredCells(plan, info) {
  const cells = info.report && info.report.cells ? info.report.cells : [];
  if (cells.length === 0) { return null; }
  const out = plan.microbatches.map(() => new Array(plan.ranks).fill(0));
  cells.forEach((c) => { if (out[c.microbatch]) { out[c.microbatch][c.rank] += c.compute_s; } });
  return out;
}

function degreeCells(plan) {
  return plan.microbatches.map((m) => {
    const out = new Array(plan.ranks).fill(0);
    m.groups.forEach((g) => g.ranks.forEach((run) => {
      for (let r = run.first; r < run.first + run.count; r++) { out[r] = Math.max(out[r], g.u * g.r); }
    }));
    return out;
  });
}

const mean = (list) => list.reduce((s, v) => s + v, 0) / list.length || 1;

function drawPlan() {
  const p = state.plan, { plan, info } = p;
  rows($('figures'), figureRows(plan, info));
  const has = plan !== null && plan.microbatches.length > 0 && plan.microbatches[0].cell_seconds.length > 0;
  const note = p.why || (plan && plan.note) || '';
  write($('plan-note'), note);
  show($('plan-note'), note !== '');
  show($('pictures'), has);
  if (!has) { return; }
  p.cells = plan.microbatches.map((m) => m.cell_seconds);
  p.degree = degreeCells(plan);
  p.measured = measuredCells(plan, info);
  drawKind();
  drawOfRanks();
}

function drawKind() {
  const p = state.plan, radio = (value) => document.querySelector(`#map-kind input[value=${value}]`);
  const none = p.measured === null;
  radio('measured').disabled = none;
  radio('measured').parentElement.title = none ? 'No measured cells of this step: it was not run, or the daemon no longer has them.' : '';
  if (none && radio('measured').checked) { radio('predicted').checked = true; }
  const kind = document.querySelector('#map-kind input:checked').value;
  const flat = p.cells.flat(), mean_s = mean(flat);
  const has = p.plan.figures.target_s > 0;
  const target_s = has ? p.plan.figures.target_s + p.cell_s : mean_s;
  const what = has ? 'load target with the fixed cost of a cell' : 'mean cell';
  const shown = kind === 'measured' ? p.measured : p.cells;
  // Measured seconds are of another machine than the model's: held against their own mean.
  const reference_s = kind === 'measured' ? mean(p.measured.flat()) * target_s / mean_s : target_s;
  const colour = kind === 'degree' ? (m, r) => degreeColour(p.degree[m][r]) : (m, r) => loadColour(shown[m][r] / reference_s);
  state.map = drawMap($('map'), p.cells.length, p.plan.ranks, colour, Math.min(1100, wide()), 560);
  legend($('legend'), kind === 'degree' ? degreeLegend() : loadLegend());
  const values = shown.flat(), top = values.reduce((best, v, i) => (v > values[best] ? i : best), 0);
  const empty = p.degree.flat().filter((d) => d === 0).length;
  write($('map-caption'), kind === 'degree'
    ? `Largest context-parallel degree in each cell; ${empty} of ${values.length} cells are empty.`
    : `${kind === 'measured' ? 'Measured' : 'Predicted'} load of each cell, in percent of the ${what}${kind === 'measured' ? ', scaled so that the means agree' : ''}: ${seconds(reference_s)}. Hottest: microbatch ${Math.floor(top / p.plan.ranks)}, rank ${top % p.plan.ranks}, ${seconds(values[top])}, ${percent(values[top] / reference_s)}. ${empty} of ${values.length} cells are empty.`);
  mark();
}

function perRank(cells) {
  const sums = cells[0].map((_, r) => cells.reduce((s, m) => s + m[r], 0)), mid = mean(sums);
  return { sums, over: sums.map((v) => v / mid) };
}

function hottestText(over) {
  const top = over.reduce((best, v, i) => (v > over[best] ? i : best), 0);
  return `hottest rank ${top} with ${over[top].toFixed(3)} times the mean`;
}

function drawOfRanks() {
  const p = state.plan, predicted = perRank(p.cells), measured = p.measured && perRank(p.measured);
  write($('ranks-caption'), `Compute seconds of each rank over their mean. Predicted: ${hottestText(predicted.over)}.${measured ? ` Measured: ${hottestText(measured.over)}.` : ' Not measured.'}`);
  drawRanks($('ranks'), predicted.over, measured && measured.over, Math.min(1100, wide()));
  legend($('ranks-legend'), [[predictedColour(), 'predicted'], ...(measured ? [[measuredColour(), 'measured']] : [])]);
  if ($('ranks-numbers').open) {
    rows($('ranks-numbers').querySelector('table'), predicted.sums.map((v, r) => [String(r), seconds(v), ratio(predicted.over[r]),
      measured ? seconds(measured.sums[r]) : '–', measured ? ratio(measured.over[r]) : '–']));
  }
}

const HINT = $('map-cell').textContent;

function forgetCell() {
  state.cell = [0, 0];
  show($('map-mark'), false);
  write($('map-cell'), HINT);
}

function mark() {
  const [x, y, w, h] = state.map.box(...state.cell), s = $('map-mark').style;
  s.left = `${x - 1}px`; s.top = `${y - 1}px`; s.width = `${w + 1}px`; s.height = `${h + 1}px`;
}

function moveTo(m, r) {
  const p = state.plan, mb = p.plan.microbatches[m];
  state.cell = [m, r];
  mark();
  show($('map-mark'), true);
  const groups = mb.groups.filter((g) => g.ranks.some((run) => r >= run.first && r < run.first + run.count));
  const text = groups.map((g) => `Degree ${g.u * g.r} (u ${g.u} × r ${g.r}): ${g.ids.length === 1 ? 'sequence' : 'sequences'} ${g.ids.slice(0, 6).join(', ')}${g.ids.length > 6 ? ` and ${g.ids.length - 6} more` : ''}`).join('; ');
  write($('map-cell'), `Microbatch ${m}, rank ${r}: ${text ? `predicted ${seconds(mb.cell_seconds[r])}${p.measured ? `, measured ${seconds(p.measured[m][r])}` : ''}, ${count(Math.round(mb.cell_tokens[r]))} tokens. ${text}.` : 'empty.'}`);
}

$('map').addEventListener('pointermove', (e) => {
  const cell = state.map && state.map.at(e.offsetX, e.offsetY);
  if (cell) { moveTo(...cell); }
});
$('map').addEventListener('focus', () => { if (state.map) { moveTo(...state.cell); } });
$('map').addEventListener('keydown', (e) => {
  const { plan } = state.plan, nM = plan.microbatches.length, nR = plan.ranks, [m, r] = state.cell;
  const to = { ArrowLeft: [m - 1, r], ArrowRight: [m + 1, r], ArrowUp: [m, r - 1], ArrowDown: [m, r + 1],
    Home: [0, r], End: [nM - 1, r], PageUp: [m, r - 8], PageDown: [m, r + 8] }[e.key];
  if (!to) { return; }
  e.preventDefault();
  moveTo(Math.max(0, Math.min(nM - 1, to[0])), Math.max(0, Math.min(nR - 1, to[1])));
});
$('map-kind').addEventListener('change', drawKind);
$('ranks-numbers').addEventListener('toggle', drawOfRanks);
$('time-numbers').addEventListener('toggle', showDegrees);
$('wi-from-step').addEventListener('click', () => takeStep(jobNow(), state.plan && state.plan.plan, state.plan && state.plan.info));

// --- members ---

async function showMembers() {
  const name = state.job, job = jobNow();
  const workers = name === null ? [] : (await call('ListWorkers', { job: name })).workers;
  if (name !== state.job) { return; }
  show($('members-empty'), workers.length === 0);
  show($('members'), workers.length > 0);
  const start = `hydra-worker --connect ADDRESS --job ${name || 'NAME'} --node NODE --ranks N`;
  $('members-empty').replaceChildren(...(!job ? ['Agents of a job appear here.']
    : !job.open ? ['This job is closed; its agents have left.']
      : job.spec.run === 'RUN_NONE' ? ['This job has no agents: its trainer runs the plans and reports what it measured.']
        : ['No agent is attached, so steps wait or fail. Start agents on the nodes: ', element('code', start)]));
  if (workers.length === 0) { return; }
  workers.sort((a, b) => (a.epoch > 0 ? a.first_rank : Infinity) - (b.epoch > 0 ? b.first_rank : Infinity) || a.node.localeCompare(b.node));
  const ready = workers.filter((w) => w.state === 'ready' || w.state === 'running').length;
  write($('members-caption'), `${plural(workers.length, 'agent')}, ${ready} ready; ${job.members} of ${job.spec.pool.ranks} ranks in epoch ${job.epoch}`);
  rows($('members'), workers.map((w) => [w.node, w.epoch > 0 ? `${w.first_rank}–${w.first_rank + w.ranks - 1}` : `${w.ranks}, waiting`, w.state, String(w.epoch), w.compute, w.transport, `${count(w.heartbeat_age_ms)} ms ago`]));
}

// --- again and again ---

let busy = false, again = false;
async function refresh() {
  again = busy;
  if (busy) { return; }
  busy = true;
  try {
    await showJobs();
    show($('columns'), true); // what is known so far is nothing before the first answer
    await showSteps();
    await Promise.all([showPlan(), showMembers()]);
    const open = state.jobs.filter((j) => j.open).length;
    say(state.jobs.length === 0 ? 'Connected. No jobs yet.' : `Connected. ${open} of ${plural(state.jobs.length, 'job')} open.`);
    show($('token-form'), false);
    if (!document.body.dataset.ready) { document.body.dataset.ready = performance.now().toFixed(0); }
  } catch (error) {
    if (error instanceof Denied && $('token-form').hidden) { show($('token-form'), true); $('token').focus(); }
    say(error.message, true);
  }
  busy = false;
  if (again) { again = false; refresh(); }
}

async function start() {
  try { offerPolicies(await policies()); } catch (error) { say(error.message, true); }
  await refresh();
}

$('token-form').addEventListener('submit', (e) => {
  e.preventDefault();
  useToken($('token').value);
  $('token').value = '';
  refresh();
});

function redraw() {
  if (state.plan && state.plan.cells) { drawKind(); drawOfRanks(); }
  showDegrees();
  drawResults();
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
let drawnWidth = 0;
new ResizeObserver(() => {
  if (Math.abs(wide() - drawnWidth) > 8) { drawnWidth = wide(); redraw(); }
}).observe($('main'));

start();
setInterval(() => { if (!document.hidden && $('token-form').hidden) { refresh(); } }, PERIOD_MS);
