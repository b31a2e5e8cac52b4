// Jobs: commands for which a machine is woken, and when they last succeeded.

import { count, duration, el, table } from "./format.js";

export function jobs(section, box, list) {
  section.hidden = list.length === 0;
  const ago = (seconds) => (seconds === null ? "never" : `${duration(seconds)} ago`);
  const next = (it) => (it.next_in_s === null ? "does not run: shadow mode" : `runs in ${duration(it.next_in_s)}`);
  const now = (it) => (it.running_for_s === null ? next(it) : `runs for ${duration(it.running_for_s)}`);
  const failed = (it) => (it.failures > 0 ? el("span", { class: "bad" }, `${count(it.failures)} since then: ${it.problem}`) : "no");
  const rows = list.map((it) => [it.name, it.on, it.at, now(it), ago(it.succeeded_s_ago), it.took_s === null ? "–" : duration(it.took_s), failed(it)]);
  box.replaceChildren(table(["job", "on", "at", "now", "last succeeded", "took", "failed"], rows));
}
