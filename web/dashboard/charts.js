// The charts. Colours come from the style sheet, so light and dark are decided in one place.

import { clock, dayName, duration, el, energy, percent, setWatts, table, watts, words } from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const charts = new Map();

function draw(id, config) {
  const key = JSON.stringify([config.type, config.data.labels?.length]);
  const canvas = document.getElementById(id);
  const known = charts.get(id);
  if (known && known.key === key && !known.stale) {
    known.chart.data = config.data;
    known.chart.options = config.options;
    known.chart.update("none");
    return;
  }
  known?.chart.destroy();
  charts.set(id, { key, chart: new globalThis.Chart(canvas, config) });
}

// After a change of colours all are drawn again.
export function forget() {
  for (const known of charts.values()) known.stale = true;
}

function options(extra = {}) {
  const grid = { color: colour("--line") };
  const ticks = { color: colour("--quiet"), maxRotation: 0 };
  const { x, y, ...rest } = extra;
  const title = (text) => ({ display: Boolean(text), text, color: colour("--quiet") });
  return {
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    interaction: { mode: "nearest", axis: "x", intersect: false },
    plugins: { legend: { display: false }, tooltip: { callbacks: rest.tooltip ?? {} } },
    scales: {
      x: { grid: { ...grid, display: false }, ...x, ticks: { ...ticks, ...x?.ticks }, title: title(x?.label) },
      y: { grid, beginAtZero: true, ...y, ticks: { ...ticks, maxTicksLimit: 6, ...y?.ticks }, title: title(y?.label) },
    },
  };
}

const HOUR = 3600000;

// A step line of mean watts by minute; dashed where modelled.
export function power(story, past) {
  const { from_ms, step_s, watts: means, proxy_watts, measured, on_w, off_w } = story.power;
  const at = (index) => from_ms + index * step_s * 1000;
  const points = (values) => values.map((y, index) => ({ x: at(index), y }));
  const offset = past.utc_offset_s * 1000;
  const end = at(means.length);
  const every = (innerWidth < 640 ? 6 : 3) * HOUR;
  const first = Math.ceil((from_ms + offset) / every) * every - offset;
  const marks = [];
  for (let mark = first; mark <= end; mark += every) marks.push({ value: mark });
  const server = colour("--series-0");
  const proxy = colour("--series-6");
  const seen = (values) => values.some((it) => it !== null);
  draw("power-chart", {
    type: "line",
    data: {
      datasets: [
        {
          label: "server",
          data: points(means),
          borderColor: server,
          backgroundColor: `${server}22`,
          fill: "origin",
          borderWidth: 1.6,
          pointRadius: 0,
          spanGaps: false,
          segment: { borderDash: (part) => (measured[part.p0DataIndex] >= 0.5 ? undefined : [5, 3]) },
        },
        { label: "proxy", data: points(proxy_watts), borderColor: proxy, borderWidth: 1.2, pointRadius: 0, spanGaps: false },
      ],
    },
    plugins: [{ id: "bands", afterLayout: align }],
    options: options({
      x: {
        type: "linear",
        min: from_ms,
        max: end,
        afterBuildTicks: (axis) => {
          axis.ticks = marks;
        },
        ticks: { callback: (value) => clock(value, past.utc_offset_s) },
      },
      y: { label: "W", suggestedMax: on_w * 1.05 },
      tooltip: {
        title: (items) => clock(items[0].parsed.x, past.utc_offset_s),
        label: (item) => `${item.dataset.label}: ${watts(item.parsed.y)}, ${item.datasetIndex === 0 && measured[item.dataIndex] >= 0.5 ? "measured" : "modelled"}`,
      },
    }),
  });
  const known = means.filter((it) => it !== null);
  const share = measured.reduce((sum, it) => sum + it, 0) / Math.max(1, known.length);
  const mean = known.reduce((sum, it) => sum + it, 0) / Math.max(1, known.length);
  document.getElementById("power-note").textContent = seen(means)
    ? `Mean by minute. Blue: ${story.servers.length > 1 ? "all servers" : "the server"}, ${share < 0.01 ? "modelled from its states (dashed)" : share > 0.99 ? "measured" : `measured ${percent(share)} of the time, else modelled (dashed)`}, ${watts(mean)} in the mean; ${setWatts(on_w)} awake and ${setWatts(off_w)} asleep by the configuration. Grey: the proxy, or its part of it where several share one.`
    : "No minute is known yet: the first shows here after the proxy has run for one.";
  document.getElementById("power-chart").setAttribute("aria-label", `Power by minute of the last 24 hours: ${watts(mean)} in the mean. The table below has the same by hour.`);
  hours(story, past);
}

function hours(story, past) {
  const { from_ms, step_s, watts: means, measured } = story.power;
  const rows = new Map();
  means.forEach((value, index) => {
    if (value === null) return;
    const hour = Math.floor((from_ms + index * step_s * 1000 + past.utc_offset_s * 1000) / HOUR);
    const row = rows.get(hour) ?? { sum: 0, count: 0, measured: 0 };
    rows.set(hour, { sum: row.sum + value, count: row.count + 1, measured: row.measured + measured[index] });
  });
  const list = [...rows].reverse().map(([hour, row]) => [
    `${clock(hour * HOUR, 0)}–${clock((hour + 1) * HOUR, 0)}`, { n: watts(row.sum / row.count) }, { n: `${row.count} min` }, { n: percent(row.measured / row.count) },
  ]);
  document.getElementById("power-table").replaceChildren(table(["hour", { n: "mean power" }, { n: "known" }, { n: "measured" }], list));
}

// The bands below are as wide as what is drawn in the chart.
function align(chart) {
  const box = document.getElementById("bands");
  box.style.paddingLeft = `${chart.chartArea.left}px`;
  box.style.paddingRight = `${Math.max(0, chart.width - chart.chartArea.right)}px`;
}

// States as bands under the chart: one for each server, as wide as the chart's area.
export function bands(story, past) {
  const { from_ms, step_s, watts: means } = story.power;
  const [begin, end] = [from_ms, from_ms + means.length * step_s * 1000];
  const box = document.getElementById("bands");
  const used = new Set();
  const rows = story.servers.map(({ server, states }) => {
    const band = el("div", { class: "band", role: "img" });
    let asleep = 0;
    states.forEach(({ since_ms, state }, index) => {
      const from = Math.max(begin, since_ms);
      const to = Math.min(past.now_ms, end, states[index + 1]?.since_ms ?? Infinity);
      if (to <= from) return;
      used.add(state);
      if (state === "asleep") asleep += to - from;
      const piece = el("span", { class: `piece ${state}`, title: `${words(state)}, ${clock(since_ms, past.utc_offset_s)}, ${duration((to - from) / 1000)}` });
      piece.style.left = `${(100 * (from - begin)) / (end - begin)}%`;
      piece.style.width = `${(100 * (to - from)) / (end - begin)}%`;
      band.append(piece);
    });
    band.setAttribute("aria-label", `States of ${server}: asleep for ${duration(asleep / 1000)} of the last 24 hours`);
    return story.servers.length > 1 ? el("div", {}, el("span", { class: "fine" }, server), band) : band;
  });
  const order = ["awake", "falling-asleep", "asleep", "waking", "failed", "unobserved", "unknown"];
  const legend = el("p", { class: "legend" }, ...order.filter((it) => used.has(it)).map((state) => el("span", {}, el("span", { class: `key ${state}`, "aria-hidden": "true" }), words(state))));
  box.replaceChildren(...rows, legend);
}

// The states of a month: how many hours of each day the server was asleep, awake, or not seen.
export function month(story) {
  const list = story.days.slice(-30);
  const hours = (seconds) => seconds / 3600;
  const several = story.servers.length > 1;
  const kinds = [["asleep", "asleep", (it) => it.asleep_s], ["awake", "awake", (it) => it.awake_s], ["unobserved", "unobserved", (it) => it.unobserved_s]];
  const sum = (of) => list.reduce((all, it) => all + of(it), 0);
  const seen = kinds.filter(([, , of]) => sum(of) > 0);
  const share = sum((it) => it.asleep_s) / Math.max(1, sum((it) => it.span_s));
  document.getElementById("states-note").textContent = list.length === 0
    ? "No day is known yet: the first shows here as soon as the ledger has a minute of it."
    : `${several ? "All servers" : "The server"} slept ${percent(share)} of the last ${list.length === 1 ? "day" : `${list.length} days`} (${duration(sum((it) => it.asleep_s))}). ${several ? "Hours of several servers add up." : ""}`;
  document.getElementById("states-chart").setAttribute("aria-label", `Hours asleep and awake by day: asleep ${percent(share)} of the time. The table below has each day.`);
  draw("states-chart", {
    type: "bar",
    data: {
      labels: list.map((it) => dayName(it.day)),
      datasets: seen.map(([name, state, of]) => ({ label: name, data: list.map((it) => hours(of(it))), backgroundColor: colour(state === "unobserved" ? "--unknown" : `--${state}`), maxBarThickness: 48, stack: "day" })),
    },
    options: options({
      x: { stacked: true },
      y: { stacked: true, label: "hours", suggestedMax: several ? undefined : 24, ticks: { stepSize: several ? undefined : 6 } },
      tooltip: { label: (item) => `${item.dataset.label}: ${duration(item.parsed.y * 3600)}` },
    }),
  });
  document.getElementById("states-legend").replaceChildren(...seen.map(([name, state]) => el("span", {}, el("span", { class: `key ${state}`, "aria-hidden": "true" }), name)));
  const rows = list.toReversed().map((it) => [dayName(it.day), ...kinds.map(([, , of]) => ({ n: duration(of(it)) })), { n: `${it.sleeps}` }]);
  document.getElementById("states-table").replaceChildren(table(["day", { n: "asleep" }, { n: "awake" }, { n: "unobserved" }, { n: "sleeps" }], rows));
}

export function days(story) {
  const list = story.is_too_early ? [] : story.days.slice(-31);
  const unit = Math.max(1, ...list.map((it) => Math.abs(it.saved_j))) >= 3.6e6 ? ["kWh", 3.6e6] : ["Wh", 3600];
  const sum = list.reduce((all, it) => all + it.saved_j, 0);
  document.getElementById("days-note").textContent =
    story.is_too_early ? "Too early to tell: days show here once the server has slept and woken." : list.length === 0 ? "No day is known yet: the first shows here as soon as the ledger has a minute of it." : `The last ${list.length === 1 ? "day" : `${list.length} days`} together: ${energy(sum)}. Days are those of the proxy's local time.`;
  document.getElementById("days-chart").setAttribute("aria-label", `Energy saved by day: ${energy(sum)} in the last ${list.length} days. The table below has each day.`);
  draw("days-chart", {
    type: "bar",
    data: { labels: list.map((it) => dayName(it.day)), datasets: [{ label: "saved", data: list.map((it) => it.saved_j / unit[1]), backgroundColor: colour("--series-2"), maxBarThickness: 48 }] },
    options: options({ y: { label: `${unit[0]} saved` }, tooltip: { label: (item) => energy(list[item.dataIndex].saved_j) } }),
  });
}

// A round number of at least this: 1, 2 or 5 times a power of ten.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((it) => it * power).find((it) => it >= value * 0.999999);
}

export function latencies(times) {
  const plot = document.getElementById("wakes-plot");
  plot.hidden = times.length < 2;
  if (plot.hidden) return;
  const width = round(Math.max(times.at(-1), 0.001) / 12);
  const bins = Array.from({ length: Math.floor(times.at(-1) / width) + 1 }, () => 0);
  for (const time of times) bins[Math.floor(time / width)] += 1;
  document.getElementById("wakes-chart").setAttribute("aria-label", `How long ${times.length} wake-ups took, as a histogram; the text above has median and 95th percentile.`);
  draw("wakes-chart", {
    type: "bar",
    data: { labels: bins.map((_, index) => duration(index * width)), datasets: [{ label: "wake-ups", data: bins, backgroundColor: colour("--series-1"), categoryPercentage: 1, barPercentage: 0.92, maxBarThickness: 64 }] },
    options: options({
      x: { label: "time from the wake command to the first answer, from" },
      y: { label: "wake-ups", ticks: { precision: 0 } },
      tooltip: { title: (items) => `${duration(items[0].dataIndex * width)} to ${duration((items[0].dataIndex + 1) * width)}` },
    }),
  });
}

// What each time-out would have saved against whom it would have delayed; the policy is a point beside them.
export function frontier(it) {
  const share = (point) => (it.visits > 0 ? point.delayed_visits / it.visits : 0);
  const at = (point) => ({ x: 100 * share(point), y: 100 * point.saving });
  const name = (point) => (point.idle_s === undefined ? "the policy" : `time-out of ${duration(point.idle_s)}`);
  const points = [...it.timeouts].reverse();
  document.getElementById("frontier-chart").setAttribute("aria-label", `Saving against delayed visits of ${points.length} time-outs and of the policy; the table below has them.`);
  draw("frontier-chart", {
    type: "scatter",
    data: {
      datasets: [
        { label: "the policy", data: [at(it.policy)], borderColor: colour("--series-1"), backgroundColor: colour("--series-1"), pointStyle: "rectRot", pointRadius: 8, pointHoverRadius: 9 },
        { label: "time-outs", data: points.map(at), borderColor: colour("--series-0"), backgroundColor: colour("--series-0"), pointRadius: 3.5, showLine: true, borderWidth: 1.2 },
      ],
    },
    options: options({
      x: { label: "% of visits delayed", min: 0 },
      y: { label: "% saved", beginAtZero: false },
      tooltip: {
        title: (items) => name(items[0].datasetIndex === 0 ? it.policy : points[items[0].dataIndex]),
        label: (item) => `saves ${percent(item.parsed.y / 100)}, delays ${percent(item.parsed.x / 100)} of visits`,
      },
    }),
  });
}
