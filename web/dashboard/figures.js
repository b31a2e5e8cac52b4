// What is not a chart: savings, services, requests, policy and SLA, wake-ups.

import { bytes, count, counted, dayName, duration, el, energy, mass, moment, money, monthOf, percent, setWatts, table, words } from "./format.js";

const FIELDS = ["span_s", "asleep_s", "unobserved_s", "sleeps", "wakeups", "server_j", "proxy_j", "always_on_j", "saved_j", "measured_s", "money", "co2_kg"];

// Periods together, with money by currency.
export function together(parts) {
  const sum = Object.fromEntries(FIELDS.map((field) => [field, 0]));
  sum.by = new Map();
  for (const { period, currency } of parts) {
    for (const field of FIELDS) sum[field] += period[field];
    sum.by.set(currency, (sum.by.get(currency) ?? 0) + period.money);
  }
  return sum;
}

export function stories(past) {
  return [...past.sites, ...past.machines];
}

export function today(past) {
  return Math.floor((past.now_ms + past.utc_offset_s * 1000) / 86400000);
}

// Energies of whatever days are wanted.
export function over(past, wanted) {
  const of = (story) => story.days.filter((day) => wanted(day.day)).map((period) => ({ period, currency: story.currency }));
  return together(stories(past).flatMap(of));
}

export function origin(sum, uncertainty) {
  const share = sum.span_s > 0 ? sum.measured_s / sum.span_s : 0;
  const model = `modelled, ± ${percent(uncertainty)}`;
  if (share >= 0.99) return "measured";
  return share < 0.01 ? model : `measured ${percent(share)} of the time, else ${model}`;
}

// The watts that modelled figures rest on; nothing where all was measured.
export function assumption(past, sum) {
  if (sum.span_s > 0 && sum.measured_s / sum.span_s >= 0.99) return null;
  const watts = [...new Set(stories(past).map((it) => it.power.on_w).filter((it) => it > 0).map(setWatts))];
  return watts.length > 0 ? `assumes ${watts.join(" and ")} awake (not measured)` : null;
}

// What a tile says of the energy saved, instead of a share where there is no share yet.
function shareSaved(sum, isEarly) {
  if (sum.always_on_j <= 0) return "nothing counted yet: figures begin with the first minute";
  if (isEarly) return "too early to tell: no server has slept and woken yet, or only for seconds";
  const share = sum.saved_j / sum.always_on_j;
  return share < 0 ? `${percent(-share)} more than always on` : `${percent(share)} of always on`;
}

function tile(title, sum, uncertainty, past) {
  const isEarly = stories(past).every((it) => it.is_too_early);
  const hasNone = isEarly || sum.always_on_j <= 0;
  const moneys = [...sum.by].map(([currency, value]) => money(value, currency)).join(" + ");
  return el(
    "div",
    { class: "tile" },
    el("h3", {}, title),
    el("p", { class: hasNone ? "big none" : sum.saved_j < 0 ? "big lost" : "big" }, hasNone ? "–" : energy(sum.saved_j)),
    el("p", { class: "fine" }, assumption(past, sum)),
    el("p", {}, shareSaved(sum, isEarly)),
    hasNone ? null : el("p", { class: "row" }, el("span", {}, moneys), el("span", {}, `${mass(sum.co2_kg)} CO₂e`)),
    el("p", { class: "fine" }, `used ${energy(sum.server_j)} and ${energy(sum.proxy_j)} (proxy)`),
    el("p", { class: "fine" }, origin(sum, uncertainty)),
  );
}

export function savings(box, note, past) {
  const day = today(past);
  const uncertainty = Math.max(0, ...stories(past).map((story) => story.uncertainty));
  const all = together(stories(past).map(({ total, currency }) => ({ period: total, currency })));
  box.replaceChildren(
    tile("Today", over(past, (it) => it === day), uncertainty, past),
    tile("This month", over(past, (it) => monthOf(it) === monthOf(day)), uncertainty, past),
    tile("In all", all, uncertainty, past),
  );
  const prices = new Set(stories(past).map((it) => `${it.price} ${it.currency}/kWh, ${it.co2_g_per_kwh} g CO₂e/kWh`));
  note.textContent =
    `Saved against servers always on, which is always modelled; the proxy's own energy is subtracted. ` +
    `${[...prices].join("; ")}. In all: ${duration(all.span_s)} of server time are on the bill` +
    (all.unobserved_s > 1 ? `, ${duration(all.unobserved_s)} of them unobserved, billed as awake.` : ".");
}

const ANSWERS = {
  cache: ["from the cache", "cached"], stale: ["from the cache, past its freshness", "cached"], "not-modified": ["from the cache: not modified", "cached"],
  mirror: ["from the mirror", "cached"],
  server: ["by the server, awake anyway", "server"], held: ["by the server, after waiting for it to wake", "delayed"],
  "waiting-page": ["a page that waits for the server", "delayed"], crawler: ["crawlers, sent away until later", "spared"], scanner: ["scanners, sent away", "spared"],
  monitor: ["monitors and health checks", "spared"], state: ["from what the proxy knows", "spared"], timeout: ["the server did not come in time", "failed"],
  budget: ["clients that woke it too often", "spared"], unavailable: ["the server would not wake", "failed"], refused: ["refused", "spared"], denied: ["not let in by `[site.access]`", "spared"], limited: ["beyond a client's rate", "spared"], gone: ["clients that left before", "spared"], redirect: ["sent on to TLS", "spared"], path: ["as `[[site.path]]` says", "spared"],
};

export function answers(box, note, site) {
  const rows = Object.entries(site.answers).sort((one, other) => other[1] - one[1]);
  const all = rows.reduce((sum, [, value]) => sum + value, 0);
  const by = (kind) => rows.filter(([name]) => ANSWERS[name]?.[1] === kind).reduce((sum, [, value]) => sum + value, 0);
  const need = by("server") + by("delayed");
  note.textContent = all === 0
    ? "No request since the proxy started. Once visitors come through this proxy, this shows how each was answered."
    : `${count(all)} since the proxy started; ${percent(1 - need / all)} did without the server.` +
      ` Sleep delayed ${counted(site.delayed_requests, "request")} and ${count(site.delayed_visits)} of ${counted(site.visits, "visit")}.`;
  const bar = (value, kind) => {
    const inner = el("span", { class: `bar ${kind}` });
    inner.style.width = `${(100 * value) / Math.max(1, all)}%`;
    return el("span", { class: "track", "aria-hidden": "true" }, inner);
  };
  box.hidden = all === 0;
  box.replaceChildren(
    table(
      ["answered", "of all", { n: "requests" }, { n: "share" }],
      rows.map(([name, value]) => [ANSWERS[name]?.[0] ?? words(name), bar(value, ANSWERS[name]?.[1] ?? "spared"), { n: count(value) }, { n: percent(value / all) }]),
    ),
  );
}

// What of the answers to its clients was compressed; hidden for a site that compresses nothing.
export function compression(section, note, box, it) {
  section.hidden = !it;
  if (section.hidden) return;
  const saved = (before, after) => (before > 0 ? percent(1 - after / before) : "–");
  const all = Object.values(it.answers).reduce((sum, value) => sum + value, 0);
  const passed = it.no_room > 0 ? ` ${counted(it.no_room, "answer")} passed as they were, since too many others were being compressed.` : "";
  note.textContent = all === 0
    ? "Nothing was compressed since the proxy started."
    : `${counted(all, "answer")} since the proxy started: ${bytes(it.bytes_before)} became ${bytes(it.bytes_after)}, ${saved(it.bytes_before, it.bytes_after)} saved.${passed}`;
  const rows = Object.entries(it.answers).filter(([, value]) => value > 0).map(([name, value]) => {
    const { before, after } = it.bytes?.[name] ?? { before: 0, after: 0 };
    return [CODINGS[name] ?? name, { n: count(value) }, { n: bytes(before) }, { n: bytes(after) }, { n: saved(before, after) }];
  });
  box.hidden = rows.length === 0;
  box.replaceChildren(table(["coding", { n: "answers" }, { n: "before" }, { n: "after" }, { n: "saved" }], rows));
}

const CODINGS = { br: "Brotli" };

export function services(section, box, list) {
  section.hidden = list.length === 0;
  const ended = (it) => Object.entries(it.outcomes).map(([name, value]) => `${count(value)} ${words(name)}`).join(", ");
  const rows = list.map((it) => [
    it.name, it.on || "–", { n: count(it.open) }, { n: count(it.quiet) }, { n: count(it.held) }, { n: count(it.received_bytes) }, { n: count(it.sent_bytes) }, ended(it) || "none",
  ]);
  box.replaceChildren(table(["service", "on", { n: "open" }, { n: "of them quiet" }, { n: "held" }, { n: "bytes from clients" }, { n: "to them" }, "ended since the start"], rows));
}

export function datagrams(section, box, list) {
  section.hidden = list.length === 0;
  const parts = (counts) => Object.entries(counts).map(([name, value]) => `${count(value)} ${words(name)}`).join(", ") || "none";
  const rows = list.map((it) => [
    it.name, it.on, { n: count(it.sessions) }, { n: count(it.active) }, { n: count(it.held) }, { n: count(it.received) }, { n: count(it.sent) }, parts(it.dropped), parts(it.outcomes),
  ]);
  box.replaceChildren(table(["service", "on", { n: "sessions" }, { n: "keep it awake" }, { n: "held" }, { n: "datagrams from clients" }, { n: "to them" }, "dropped", "ended since the start"], rows));
}

function shadowSaved(saving) {
  return saving === null ? "it is too early to tell what would have been saved" : `${percent(saving)} of the energy would have been saved`;
}

export function policy(box, site, story) {
  const rows = [el("p", {}, "Policy: ", el("b", {}, site.policy), site.learned_from_s ? `, which has watched requests for ${duration(site.learned_from_s)}.` : ".")];
  if (site.pool) rows.push(el("p", {}, `Pool of ${site.pool.servers.length}: policy `, el("b", {}, site.pool.policy), `, ${site.pool.on} on, ${site.pool.waiting} requests waiting.`));
  if (site.sla && story?.promise) {
    const [seen, delayed] = site.sla;
    const { share, delay_s, window_s } = story.promise; // a share: `site.sla` is there only with one
    const used = seen > 0 ? delayed / seen / share : 0;
    const meter = el("progress", { max: "1", "aria-label": "Used of the SLA" });
    meter.value = Math.min(1, used);
    rows.push(
      el("p", {}, `SLA: within ${duration(window_s)}, at most ${percent(share)} of requests wait longer than ${duration(delay_s)}.`),
      meter,
      el("p", {}, el("b", {}, `${percent(used)} used`), `: ${count(delayed)} of ${count(seen)} requests were delayed; the SLA allows ${count(Math.floor(seen * share))}.`),
    );
  }
  if (site.sla_visits_today) {
    const [today, most] = site.sla_visits_today;
    const meter = el("progress", { max: "1", "aria-label": "Used of today's visits" });
    meter.value = most > 0 ? Math.min(1, today / most) : 1;
    rows.push(
      el("p", {}, `SLA: at most ${count(most)} visits a day wait.`),
      meter,
      el("p", {}, el("b", {}, `${count(today)} of ${count(most)} used`), ": the visits that a sleep has delayed today."),
    );
  }
  if (story?.promise?.longest_wait_s != null) {
    const { longest_wait_s } = story.promise;
    const slow = site.wake_time_s > longest_wait_s ? " It does not sleep." : "";
    rows.push(el("p", {}, `SLA: the server sleeps only while it wakes within ${duration(longest_wait_s)}; waking is expected to last ${duration(site.wake_time_s)}.${slow}`));
  }
  if (!story?.promise) {
    rows.push(el("p", {}, "No SLA is set: the server sleeps even if requests have to wait."));
  }
  const shadow = site.shadow;
  if (shadow) {
    rows.push(el("p", {}, `Shadow mode: had its server been let sleep since the start, ${shadowSaved(shadow.ledger.saving)}, and ${count(shadow.delayed_visits)} of ${count(shadow.visits)} visits would have been delayed.`));
  }
  rows.push(el("p", { class: "fine" }, "What another SLA or policy would save can only be computed from a whole log: ", el("code", {}, "nightwatt analyze access.log --html report.html"), " draws it."));
  box.replaceChildren(...rows);
}

// A copy of the site; hidden for a site without one.
export function mirror(section, note, box, it) {
  section.hidden = !it;
  if (section.hidden) return;
  const megabytes = (bytes) => `${count(Math.round(bytes / 2 ** 20 * 10) / 10)} MiB`;
  const ago = (seconds) => (seconds === null ? "–" : `${duration(seconds)} ago`);
  note.textContent = it.url === null
    ? "Not open: no client has used the site yet, or another process has the copy."
    : `A copy of ${it.url}, from which anonymous requests are answered while the server sleeps.`;
  const rows = [
    ["pages", `${count(it.pages)}, ${megabytes(it.bytes)} of ${megabytes(it.max_bytes)}`],
    ["errors, redirects", `${count(it.errors)}, ${count(it.redirects)}`],
    ["coverage", it.coverage === null ? "no request in the last week" : `${percent(it.coverage)} of ${count(it.requests)} anonymous requests of people in the last week`],
    ["oldest page", it.oldest_s === null ? "–" : `confirmed ${ago(it.oldest_s)}`],
    ["last pass", it.is_running ? "under way, or interrupted" : it.last_pass_s_ago === null ? "none yet" : `began ${ago(it.last_pass_s_ago)}`],
    ["to confirm before sleep", count(it.due)],
    ["costs", `${energy(it.own_energy.joules)}, modelled: ${counted(it.own_wakeups, "wake-up")} for it alone, ${duration(it.own_awake_s)} awake for it`],
    ...(it.is_complete_wanted ? [["complete", it.not_complete ?? "yes"]] : []),
    ...Object.entries(it.not_mirrored).map(([why, pages]) => [`not mirrored: ${words(why)}`, count(pages)]),
  ];
  box.replaceChildren(table(["of the mirror", "value"], rows));
}

// What fixed time-outs would have done; hidden before a request needed the server, and while it is too early for a saving.
export function frontier(section, note, box, it) {
  section.hidden = !it || it.requests === 0;
  if (section.hidden) return false;
  const { timeouts, policy, visits, requests } = it;
  const share = (point) => percent(visits > 0 ? point.delayed_visits / visits : 0);
  const row = (name, point) => [name, { n: percent(point.saving) }, { n: count(point.delayed_visits) }, { n: share(point) }, { n: count(point.delayed_requests) }];
  note.textContent =
    `Estimated for a server that sleeps after each of these times without a request, in the ${duration(it.span_s)} since the proxy started (${count(requests)} requests needed the server; modelled, without what else keeps it awake). ` +
    `The policy saves ${percent(policy.saving)} and delayed ${share(policy)} of ${count(visits)} visits.`;
  const rows = timeouts.map((point) => row(duration(point.idle_s), point));
  box.replaceChildren(table(["sleeps after", { n: "saves" }, { n: "delayed visits" }, { n: "of all" }, { n: "delayed requests" }], [row("by the policy", policy), ...rows]));
  return true;
}

const CLASSES = { human: "a person", api: "a program", crawler: "a crawler", scanner: "a scanner", monitor: "a monitor" };

const CAUSES = { request: "a request", "crawl-window": "crawlers, at the time they were given", "awake-hours": "its hours (`awake`), which began", policy: "the policy, which expected a request", refresh: "the mirror, for pages that were due (no visitor)", job: "a job", "magic-packet": "a magic packet in the local network", operator: "the operator", pool: "its pool, which needed it", guest: "a server on it", unknown: "unknown" };

export function quantile(sorted, share) {
  if (sorted.length === 0) return 0;
  const place = (sorted.length - 1) * share;
  const low = Math.floor(place);
  const high = Math.min(sorted.length - 1, low + 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

export function wakeups(box, note, story, past) {
  const times = story.wakeups.map((it) => it.took_s).filter((it) => it !== undefined).sort((one, other) => one - other);
  note.textContent = times.length === 0
    ? "No wake-up with a known duration yet. Each one shows here with its cause, and with its time from the wake command to the first answer."
    : `The last ${times.length === 1 ? "one" : count(times.length)}, from the wake command to the first answer: p50 ${duration(quantile(times, 0.5))} (half took no longer), p95 ${duration(quantile(times, 0.95))}, longest ${duration(times.at(-1))}.`;
  const several = story.servers.length > 1;
  const cause = (it) => it.by === "request" && it.class ? `${CLASSES[it.class] ?? it.class}` : it.by === "guest" && it.class ? `${CAUSES.guest}: ${it.class}` : CAUSES[it.by] ?? it.by;
  const rows = story.wakeups.slice(0, 50).map((it) => [
    moment(it.at_ms, past.utc_offset_s, past.now_ms),
    ...(several ? [it.server] : []),
    cause(it),
    ...(past.signed_in ? [it.line ? `${it.line} (${it.client})` : ""] : []),
    { n: it.took_s === undefined ? "–" : duration(it.took_s) },
  ]);
  box.hidden = rows.length === 0;
  box.replaceChildren(table(["when", ...(several ? ["server"] : []), "woken by", ...(past.signed_in ? ["what was asked, by whom"] : []), { n: "took" }], rows));
  return times;
}

export function dayTable(box, story) {
  const rows = story.days.toReversed().map((day) => [
    dayName(day.day), { n: story.is_too_early ? "–" : energy(day.saved_j) }, { n: energy(day.server_j) }, { n: energy(day.proxy_j) }, { n: duration(day.asleep_s) }, { n: count(day.wakeups) }, { n: story.is_too_early ? "–" : money(day.money, story.currency) }, { n: percent(day.span_s > 0 ? day.measured_s / day.span_s : 0) },
  ]);
  box.replaceChildren(table(["day", { n: "saved" }, { n: "server" }, { n: "proxy" }, { n: "asleep" }, { n: "wake-ups" }, { n: "money" }, { n: "measured" }], rows));
}
