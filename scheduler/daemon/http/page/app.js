// app.js - the inspection page: asks the daemon's JSON endpoints and shows what they say.
// Read-only. Endpoints: POST /api/METHOD with the JSON form of the request message.
import { drawMap, drawRanks, drawDegrees, loadColour, degreeColour } from '/draw.js';

const $ = (id) => document.getElementById(id);
const state = { job: null, step: null, plan: null, info: null, map: null, token: '', steps: [] };

async function call(method, request) {
  const headers = { 'Content-Type': 'application/json' };
  if (state.token) { headers.Authorization = `Bearer ${state.token}`; }
  const answer = await fetch(`/api/${method}`, { method: 'POST', headers, body: JSON.stringify(request) });
  if (answer.status === 401) { $('token-form').hidden = false; throw new Error('The daemon wants a token.'); }
  const body = await answer.json();
  if (!answer.ok) { throw new Error(body.message || `The daemon answered ${answer.status}.`); }
  return body;
}

function say(text, bad) {
  $('status').textContent = text;
  $('status').className = bad ? 'bad' : '';
}

function element(name, text, attributes) {
  const e = document.createElement(name);
  if (text !== undefined) { e.textContent = text; }
  Object.entries(attributes || {}).forEach(([k, v]) => e.setAttribute(k, v));
  return e;
}

const seconds = (s) => {
  if (!(s > 0)) { return '–'; }
  return s >= 1 ? `${s.toFixed(3)} s` : s >= 1e-3 ? `${(s * 1e3).toFixed(3)} ms` : `${(s * 1e6).toFixed(1)} µs`;
};
const percent = (x) => `${(x * 100).toFixed(1)} %`;
const bytes = (text) => {
  const n = Number(text);
  return n > 0 ? n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : `${(n / 1e6).toFixed(1)} MB` : '–';
};
const word = (name) => name.replace(/^(STEP_|RUN_|PASS_|SCOPE_)/, '').toLowerCase().replace('state_unspecified', 'unknown');
const degreesText = (f) => f.degrees.map((d) => `${d.degree}: ${d.sequences}`).join(', ');

function rows(table, list) {
  const body = table.tBodies[0];
  body.replaceChildren(...list.map((cells) => {
    const tr = element('tr');
    cells.forEach((cell, i) => tr.append(i === 0 ? element('th', cell, { scope: 'row' }) : element('td', cell)));
    return tr;
  }));
}

function choices(list, items, current, label, pick) {
  list.replaceChildren(...items.map((item) => {
    const li = element('li', undefined, item.failed ? { class: 'failed' } : {});
    const b = element('button', item.text, { type: 'button' });
    b.append(element('small', item.more));
    if (item.key === current) { b.setAttribute('aria-current', 'true'); }
    b.addEventListener('click', () => pick(item.key));
    li.append(b);
    return li;
  }));
  if (items.length === 0) { list.append(element('li', label)); }
}

async function showJobs() {
  const { jobs } = await call('ListJobs', { include_closed: true });
  if (state.job === null && jobs.length > 0) { state.job = (jobs.find((j) => j.open) || jobs[0]).spec.name; }
  choices($('jobs'), jobs.map((j) => ({
    key: j.spec.name, text: j.spec.name,
    more: `${j.open ? 'open' : 'closed'} · ${j.spec.pool.ranks} ranks · ${word(j.spec.run)} · epoch ${j.epoch} · ${j.steps_done} done, ${j.steps_failed} failed`,
  })), state.job, 'No jobs. A trainer opens one, or: hydractl job open …', (key) => {
    state.job = key; state.step = null; state.plan = null; refresh();
  });
  return jobs;
}

async function showSteps() {
  if (state.job === null) { state.steps = []; } else {
    const job = (await call('GetJob', { job: state.job })).job;
    const last = Number(job.last_step);
    const from = job.has_step ? Math.max(0, last - 199) : 0;
    state.steps = (await call('ListSteps', { job: state.job, from_step: String(from), limit: 200 })).steps;
  }
  const newestFirst = [...state.steps].reverse();
  if (state.step === null && newestFirst.length > 0) { state.step = newestFirst[0].step; }
  choices($('steps'), newestFirst.map((s) => ({
    key: s.step, text: `Step ${s.step}`, failed: s.state === 'STEP_FAILED',
    more: `${word(s.state)} · ${s.sequences} sequences · balance ${s.figures ? s.figures.balance.toFixed(3) : '–'}${s.report && s.report.measured_balance_ranks > 0 ? `, measured ${s.report.measured_balance_ranks.toFixed(3)}` : ''}${s.reason ? ` · ${s.reason}` : ''}`,
  })), state.step, 'No steps yet.', (key) => { state.step = key; state.plan = null; refresh(); });
  showDegrees();
}

function showDegrees() {
  const steps = state.steps.filter((s) => s.figures);
  $('time-empty').hidden = steps.length > 0;
  $('time-figure').hidden = steps.length === 0;
  if (steps.length === 0) { return; }
  const counts = steps.map((s) => Object.fromEntries(s.figures.degrees.map((d) => [d.degree, d.sequences])));
  const degrees = [...new Set(steps.flatMap((s) => s.figures.degrees.map((d) => d.degree)))].sort((a, b) => a - b);
  drawDegrees($('time'), counts, degrees, Math.min(900, $('main').clientWidth - 40));
  $('time-legend').replaceChildren(...degrees.map((d, i) => {
    const e = element('span', `degree ${d}`);
    const s = element('span', '', { class: 'swatch' });
    s.style.background = degreeColour(i);
    e.prepend(s);
    return e;
  }));
}

async function showPlan() {
  const has = state.job !== null && state.step !== null;
  $('plan-empty').hidden = has;
  $('plan').hidden = !has;
  if (!has) { return; }
  const key = `${state.job} ${state.step}`;
  const info = state.steps.find((s) => s.step === state.step);
  if (state.plan === null || state.plan.key !== key || (info && state.plan.state !== info.state)) {
    const parts = (await call('GetPlan', { job: state.job, step: state.step })).messages;
    const plan = parts[0].plan;
    plan.microbatches = parts.flatMap((p) => p.plan.microbatches);
    const full = (await call('ListSteps', { job: state.job, from_step: state.step, limit: 1 })).steps[0];
    state.plan = { key, plan, state: full.state };
    state.info = full;
  }
  drawPlan();
}

function figureRows(plan, info) {
  const f = plan.figures, r = info.report;
  return [
    ['State', word(info.state) + (info.reason ? `: ${info.reason}` : '')],
    ['Policy', `${plan.policy}, predicted in scope ${word(f.scope)}`],
    ['Sequences', `${info.sequences}, ${info.tokens} tokens, ${plan.num_microbatches} microbatches, epoch ${plan.epoch}`],
    ['Degrees', `${degreesText(f)} (degree: sequences)`],
    ['Load target', `${seconds(f.target_s)} a cell; hottest ${seconds(f.hottest_cell_s)}, no plan below ${seconds(f.lower_bound_s)}`],
    ['Balance, hottest over mean cell', `predicted ${f.balance.toFixed(3)}${r && r.measured_balance_cells > 0 ? `, measured ${r.measured_balance_cells.toFixed(3)}; over ranks ${r.measured_balance_ranks.toFixed(3)}` : ''}`],
    ['Step', `predicted ${seconds(f.step_s)}, ${percent(f.gap)} above the bound${r && r.wall_s > 0 ? `; measured ${seconds(r.wall_s)}` : ''}`],
    ['Bubbles', `${percent(f.bubble.total)}: inherent ${percent(f.bubble.inherent)}, pipeline imbalance ${percent(f.bubble.pipeline_imbalance)}, data parallel ${percent(f.bubble.data_parallel)}, group wait ${percent(f.bubble.group_wait)}`],
    ['Peak memory of a rank', r ? `predicted ${bytes(r.predicted_peak_bytes)}, measured ${bytes(r.measured_peak_bytes)}` : '–'],
    ['Checked', r && r.check ? `${r.check.by_reference} by reference, ${r.check.by_single_rank} by one rank, ${r.check.unchecked} not; largest error ${r.check.max_error.toExponential(1)}` : '–'],
    ['Fingerprint', BigInt(plan.fingerprint).toString(16).padStart(16, '0')],
  ];
}

function drawPlan() {
  const { plan } = state.plan, info = state.info;
  const cells = plan.microbatches.map((m) => m.cell_seconds);
  $('plan-title').textContent = `Plan of ${state.job}, step ${state.step}`;
  rows($('figures'), figureRows(plan, info));
  if (cells.length === 0 || cells[0].length === 0) { return; }
  const flat = cells.flat(), mean = flat.reduce((s, v) => s + v, 0) / flat.length;
  const target = plan.figures.target_s > 0 ? plan.figures.target_s : mean;
  $('map-caption').textContent = `Predicted load of each cell: microbatches from left to right, ranks from top to bottom. Arrow keys move over cells.`;
  state.map = drawMap($('map'), cells, target, Math.min(1100, $('main').clientWidth - 40));
  state.map.cell = [0, 0];
  $('legend').replaceChildren(...[0, 0.5, 0.75, 1, 1.25, 1.5].map((x) => {
    const e = element('span', x === 0 ? 'empty' : x === 1 ? 'at the target' : `${x} × target`);
    const s = element('span', '', { class: 'swatch' });
    s.style.background = loadColour(x);
    e.prepend(s);
    return e;
  }));
  const perRank = (list) => list[0].map((_, r) => list.reduce((s, m) => s + m[r], 0));
  let measured = null;
  if (info.report && info.report.cells && info.report.cells.length > 0) {
    measured = new Array(plan.ranks).fill(0);
    info.report.cells.forEach((c) => { measured[c.rank] += c.compute_s; });
  }
  $('ranks-caption').textContent = measured
    ? 'Compute seconds of each rank over its mean: predicted (blue) and measured (orange)'
    : 'Predicted compute seconds of each rank over the mean';
  drawRanks($('ranks'), perRank(cells), measured, Math.min(1100, $('main').clientWidth - 40));
}

function describeCell(m, r) {
  const mb = state.plan.plan.microbatches[m];
  const groups = mb.groups.filter((g) => g.ranks.some((run) => r >= run.first && r < run.first + run.count));
  const text = groups.map((g) => `degree ${g.u * g.r} (u ${g.u} × r ${g.r}): ${g.ids.length === 1 ? 'sequence' : 'sequences'} ${g.ids.slice(0, 6).join(', ')}${g.ids.length > 6 ? ` and ${g.ids.length - 6} more` : ''}`).join('; ');
  $('map-cell').textContent = `Microbatch ${m}, rank ${r}: ${seconds(mb.cell_seconds[r])}, ${Math.round(mb.cell_tokens[r])} tokens. ${text || 'Empty.'}`;
}

$('map').addEventListener('mousemove', (e) => {
  const cell = state.map && state.map.at(e.offsetX, e.offsetY);
  if (cell) { state.map.cell = cell; describeCell(...cell); }
});
$('map').addEventListener('keydown', (e) => {
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
  if (!move || !state.map) { return; }
  e.preventDefault();
  const { plan } = state.plan;
  const m = Math.max(0, Math.min(plan.microbatches.length - 1, state.map.cell[0] + move[0]));
  const r = Math.max(0, Math.min(plan.ranks - 1, state.map.cell[1] + move[1]));
  state.map.cell = [m, r];
  describeCell(m, r);
});

async function showMembers() {
  const workers = state.job === null ? [] : (await call('ListWorkers', { job: state.job })).workers;
  $('members-empty').hidden = workers.length > 0;
  $('members').hidden = workers.length === 0;
  rows($('members'), workers.map((w) => [w.node, `${w.first_rank}–${w.first_rank + w.ranks - 1}`, w.state, String(w.epoch), w.compute, w.transport, `${w.heartbeat_age_ms} ms ago`]));
}

function readLengths() {
  const words = $('wi-lengths').value.split(/[\s,;]+/).filter((w) => w !== '');
  if (words.length === 0) { throw new Error('Paste some lengths first, or take the chosen step\'s.'); }
  return words.map((w) => {
    if (!/^\d+$/.test(w) || Number(w) < 1) { throw new Error(`'${w}' is no length: whole numbers of tokens, 1 or more.`); }
    return Number(w);
  });
}

$('wi-from-step').addEventListener('click', () => {
  if (!state.plan) { $('wi-error').textContent = 'Choose a step first.'; return; }
  const { plan } = state.plan;
  $('wi-lengths').value = plan.length_tokens.join(' ');
  $('wi-ranks').value = plan.ranks;
  $('wi-cap').value = plan.cap_tokens;
});

$('whatif').addEventListener('submit', async (e) => {
  e.preventDefault();
  $('wi-error').textContent = '';
  try {
    const length_tokens = readLengths();
    const names = [$('wi-policy').value, $('wi-policy2').value];
    const plans = await Promise.all(names.map((policy) => call('Plan', {
      batch: { length_tokens }, pool: { ranks: Number($('wi-ranks').value), pp: Number($('wi-pp').value) },
      limits: { cap_tokens: Number($('wi-cap').value) }, policy: { policy }, omit_plan: true,
    }).then((a) => a.plan, (error) => error)));
    const column = (p, show) => p instanceof Error ? p.message : show(p, p.figures);
    const line = (name, show) => [name, ...plans.map((p) => column(p, show))];
    $('wi-result').tHead.rows[0].cells[1].textContent = names[0];
    $('wi-result').tHead.rows[0].cells[2].textContent = names[1];
    const ok = plans.filter((p) => !(p instanceof Error));
    rows($('wi-result'), ok.length === 0 ? [line('No plan', () => '')] : [
      line('Step, predicted', (p, f) => seconds(f.step_s)),
      line('Balance, hottest over mean cell', (p, f) => f.balance.toFixed(3)),
      line('Above the step bound', (p, f) => percent(f.gap)),
      line('Bubbles', (p, f) => percent(f.bubble.total)),
      line('Microbatches', (p) => String(p.num_microbatches)),
      line('Degrees', (p, f) => degreesText(f)),
      line('Planned in', (p, f) => seconds(f.plan_cpu_s)),
      ...(ok.length === 2 ? [['', `${(ok[1].figures.step_s / ok[0].figures.step_s).toFixed(3)} × as fast as ${names[1]}`, '']] : []),
    ]);
    $('wi-result').hidden = false;
  } catch (error) { $('wi-error').textContent = error.message; }
});

$('token-form').addEventListener('submit', (e) => {
  e.preventDefault();
  state.token = $('token').value;
  $('token-form').hidden = true;
  start();
});

let busy = false;
async function refresh() {
  if (busy) { return; }
  busy = true;
  try {
    const jobs = await showJobs();
    await showSteps();
    await Promise.all([showPlan(), showMembers()]);
    say(jobs.length === 0 ? 'Connected. No jobs yet.' : `Connected. ${jobs.filter((j) => j.open).length} open of ${jobs.length} jobs.`);
    document.body.dataset.ready = 'yes';
  } catch (error) { say(error.message, true); }
  busy = false;
}

async function start() {
  try {
    const { policies } = await (await fetch('/api/policies')).json();
    ['wi-policy', 'wi-policy2'].forEach((id, i) => $(id).replaceChildren(...policies.map((p, k) => {
      const o = element('option', p.name, { title: p.summary });
      o.selected = k === Math.min(i, policies.length - 1);
      return o;
    })));
  } catch (error) { say(error.message, true); }
  await refresh();
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { if (state.plan) { drawPlan(); showDegrees(); } });
start();
setInterval(() => { if (!document.hidden) { refresh(); } }, 2000);
