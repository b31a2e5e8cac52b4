// Magic packets that other machines sent into the local network, and what became of them.

import { count, table } from "./format.js";

const OUTCOMES = {
  woke: "woke the server", awake: "for a server that is awake, or wakes already", unknown: "for no server here", password: "without the right password",
  network: "from a network that is not heard", own: "from the proxy itself", rate: "beyond the rate of wake-ups", malformed: "no magic packet",
};

export function packets(section, note, box, it) {
  section.hidden = !it;
  if (!it) return;
  const where = it.listen.length > 0 ? `Heard at ${it.listen.join(", ")}.` : "Heard at no address.";
  const state = it.problem ? `${where} ${it.problem}` : where;
  note.className = it.problem ? "fine bad" : "fine";
  if (note.textContent !== state) note.textContent = state;
  const rows = Object.entries(it.outcomes).map(([name, value]) => [OUTCOMES[name] ?? name, { n: count(value) }]);
  box.hidden = rows.length === 0;
  box.replaceChildren(table(["datagrams since the proxy started", { n: "count" }], rows));
}
