// Certificates of TLS to clients: for which names, from where, until when, when they are renewed, and what went wrong.

import { count, counted, duration, el, table, words } from "./format.js";

const KINDS = { file: "files", acme: "its authority, by ACME", "stand-in": "this proxy, until its authority issues one" };

export function certificates(section, note, box, tls, past) {
  section.hidden = !tls;
  if (!tls) return;
  const failed = Object.entries(tls.failures).map(([name, value]) => `${count(value)} ${words(name)}`).join(", ");
  const state = `TLS at ${tls.listen.join(", ")}: ${counted(tls.handshakes, "handshake")} since the proxy started; failed: ${failed || "none"}.`;
  if (note.textContent !== state) note.textContent = state;
  // With the year, which `moment` leaves out.
  const at = (seconds) => new Date((seconds + past.utc_offset_s) * 1000).toISOString().slice(0, 16).replace("T", " ");
  const away = (seconds) => {
    const left = seconds - past.now_ms / 1000;
    return left < 0 ? `${at(seconds)}, over for ${duration(-left)}` : `${at(seconds)}, in ${duration(left)}`;
  };
  const until = (it) => (it.not_after == null ? "–" : it.is_faulty ? el("span", { class: "bad" }, away(it.not_after)) : away(it.not_after));
  const renewal = ({ kind, renewal: it }) => {
    if (!it) return kind === "file" ? "when its files change" : kind === "stand-in" ? "as soon as it is issued" : "–";
    return it.from == null ? away(it.at) : `${away(it.at)}; its authority suggests ${at(it.from)} to ${at(it.until)}`;
  };
  // What is not issued yet is no error.
  const trouble = (it) => (it.problem ? (it.is_awaited ? it.problem : el("span", { class: "bad" }, it.problem)) : "none");
  const rows = tls.certificates.map((it) => [it.names.join(", ") || "no names", KINDS[it.kind] ?? words(it.kind ?? "–"), until(it), renewal(it), trouble(it)]);
  box.replaceChildren(table(["names", "from", "valid until", "renewed", "last error"], rows));
}
