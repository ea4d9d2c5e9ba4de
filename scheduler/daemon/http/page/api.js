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

async function answerOf(request) {
  let answer = null;
  try {
    answer = await request;
  } catch (error) {
    throw new Error('No answer from the daemon. Is hydra-schedd running? This page tries again every 2 seconds.');
  }
  if (answer.status === 401) {
    throw new Denied(token ? 'The daemon does not know this token. Give another one.' : 'This daemon asks for a token: the secret of a reader in its token_file.');
  }
  const text = await answer.text();
  let body = null;
  try { body = JSON.parse(text); } catch (error) { body = { message: text.trim() }; }
  if (!answer.ok) { throw new Refused(body, answer.status); }
  return body;
}

export function call(method, request) {
  const headers = { 'Content-Type': 'application/json' };
  if (token) { headers.Authorization = `Bearer ${token}`; }
  return answerOf(fetch(`/api/${method}`, { method: 'POST', headers, body: JSON.stringify(request) }));
}

export const policies = async () => (await answerOf(fetch('/api/policies'))).policies;
