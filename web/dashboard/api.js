// What is asked of the proxy. The token of a sign-in is kept for this tab, and for this port alone: no
// cookie, which the browser would send to the sites on the host's other ports too.

const KEY = "nightwatt-token";

export const token = () => sessionStorage.getItem(KEY);

export function forget() {
  sessionStorage.removeItem(KEY);
}

async function ask(path, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token() && options.signed !== false) headers.Authorization = `Bearer ${token()}`;
  const response = await fetch(`/api/v1/${path}`, { ...options, headers, cache: "no-store" });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(body.detail ?? `The proxy answered ${response.status}.`);
    error.status = response.status;
    throw error;
  }
  return body;
}

export const status = () => ask("status");

export const history = () => ask("history?days=62");

export async function signIn(password) {
  const body = JSON.stringify({ password });
  const headers = { "Content-Type": "application/json" };
  const answer = await ask("sign-in", { method: "POST", body, headers, signed: false });
  sessionStorage.setItem(KEY, answer.token);
}

export async function signOut() {
  await ask("sign-out", { method: "POST" }).catch(() => {});
  forget();
}

export const order = (name, what, time) =>
  ask(`sites/${encodeURIComponent(name)}/${what}${time ? `?for=${time}` : ""}`, { method: "POST" });
