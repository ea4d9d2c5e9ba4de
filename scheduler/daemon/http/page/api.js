// api.js - the daemon's JSON endpoints: POST /api/METHOD with the JSON form of the request.

let token = '';
export function useToken(text) { token = text; }

export class Denied extends Error {}

// fields: what the daemon says is wrong: {field, value, limit}.
class Refused extends Error {
  constructor(body, status) {
    super(body.message || `The daemon answered ${status}.`);
    this.status = status;
    this.field = body.field || '';
  }
}

// A daemon that hangs takes calls and does not answer; a plan of many sequences takes its time.
const ANSWER_MS = 8000, PLAN_MS = 120000;

async function answerOf(path, options, within) {
  let answer = null, text = '';
  try {
    answer = await fetch(path, { ...options, signal: AbortSignal.timeout(within) });
    text = await answer.text();
  } catch (error) {
    throw new Error(error.name === 'TimeoutError'
      ? `No answer from the daemon within ${within / 1000} seconds: it is busy or hangs. This page tries again.`
      : 'No answer from the daemon. Is hydra-schedd running? This page tries again every 2 seconds.');
  }
  if (answer.status === 401) {
    throw new Denied(token ? 'The daemon does not know this token. Give another one.' : 'This daemon asks for a token: the secret of a reader in its token_file.');
  }
  let body = null;
  try { body = JSON.parse(text); } catch (error) { body = { message: text.trim() }; }
  if (!answer.ok) { throw new Refused(body, answer.status); }
  return body;
}

export function call(method, request) {
  const headers = { 'Content-Type': 'application/json' };
  if (token) { headers.Authorization = `Bearer ${token}`; }
  return answerOf(`/api/${method}`, { method: 'POST', headers, body: JSON.stringify(request) },
    method === 'Plan' || method === 'GetPlan' ? PLAN_MS : ANSWER_MS);
}

export const policies = async () => (await answerOf('/api/policies', {}, ANSWER_MS)).policies;
