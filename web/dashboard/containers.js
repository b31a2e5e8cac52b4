// Containers whose labels describe sites: which became one, what is refused and why, and whether their daemon answers.

import { duration, el, table, words } from "./format.js";

export function containers(section, note, box, status) {
  section.hidden = !status;
  if (!status) return;
  const lost = `${status.daemon} is lost for ${duration(status.lost_for_s ?? 0)}: ${status.problem}; sites stay as they are.`;
  const state = status.lost_for_s == null ? (status.up ? `${status.daemon} answers.` : `${status.daemon} was not asked yet.`) : lost;
  note.className = status.up ? "fine" : "fine bad";
  if (note.textContent !== state) note.textContent = state;
  const outcome = (it) => (it.why ? el("span", { class: "bad" }, `no site: ${words(it.outcome)}`) : words(it.outcome));
  const rows = status.containers.map((it) => [it.name, outcome(it), (it.hosts ?? []).join(", ") || "–", it.why ?? "–"]);
  box.hidden = rows.length === 0;
  box.replaceChildren(table(["container", "becomes", "hosts", "why not, and what to do"], rows));
}
