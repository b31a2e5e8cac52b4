// A card for each server and machine: what it does now, since when, and the buttons.

import { count, duration, el, moment, watts, words } from "./format.js";

// Everything that has a state: sites with one server, servers of pools, machines.
export function servers(status) {
  const found = [];
  for (const site of status.sites) {
    if (site.pool) {
      for (const server of site.pool.servers) {
        found.push({ ...server, kind: `of ${site.name}`, site: site.name, policy: site.pool.policy, what: "server" });
      }
    } else {
      found.push({ ...site, kind: "site", site: site.name, what: "site" });
    }
  }
  for (const machine of status.machines) {
    found.push({ ...machine, kind: "machine", site: null, what: "machine", in_flight: 0 });
  }
  return found;
}

export function summary(status) {
  const all = servers(status);
  const are = (state) => all.filter((it) => it.state === state).length;
  const failed = are("failed");
  const asleep = are("asleep");
  const whole = all.length === 1 ? words(all[0].state) : `${asleep} of ${count(all.length)} asleep`;
  const name = all.length === 1 ? `${all[0].name} is ` : "";
  const trouble = failed > 0 ? ` · ${failed} will not wake` : "";
  const shadow = status.observe ? " · shadow mode: servers are left alone" : "";
  return `${name}${whole}${trouble}${shadow}`;
}

function powerNow(server, story) {
  const meter = (server.meters ?? []).find((it) => it.of === "server" && it.watts !== null);
  if (meter && meter.read_s_ago < 120) return `${watts(meter.watts)}, measured`;
  if (!story || server.what === "server") return null;
  // Of a server on its way from one state to the other the model knows the energy, not the power.
  const known = { awake: story.power.on_w, asleep: story.power.off_w };
  return server.state in known ? `${watts(known[server.state])}, modelled` : null;
}

const KNOWN = ["unknown", "awake", "falling-asleep", "asleep", "waking", "failed"];
const SIGNS = { awake: "●", asleep: "☾", "falling-asleep": "◐", waking: "◑", failed: "✕", unknown: "?" };

// What a probe of use past the proxy found.
const FOUND = { "in-use": "yes", idle: "no", "not-asked": "not asked yet", asleep: "not asked: it is not awake", unknown: "no answer, which counts as use", ignored: "no answer, which counts as idle" };

function asked(probe) {
  const text = FOUND[probe.state] ?? words(probe.state);
  const whole = probe.reason && ["in-use", "unknown", "ignored"].includes(probe.state) ? `${text}: ${probe.reason}` : text;
  return probe.state === "ignored" ? el("span", { class: "bad" }, whole) : whole;
}

// By which clock hours are.
function zone(it) {
  if (it.problem) return el("span", { class: "bad" }, `UTC, since the zone of this machine cannot be read: ${it.problem}`);
  const minutes = Math.abs(Math.round(it.utc_offset_s / 60));
  const two = (value) => String(value).padStart(2, "0");
  const offset = `UTC${it.utc_offset_s < 0 ? "−" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
  return it.name ? `${it.name}, now ${offset}` : offset;
}

// When it is woken for its hours of `awake`, or when those of now end.
function awakeHours(server) {
  const wakesIn = server.awake_hours_in_s == null ? null : duration(server.awake_hours_in_s);
  if (server.awake_hours_suspended) {
    return ["its hours", wakesIn ? `suspended by order; they count again in ${wakesIn}` : "suspended by order, until something else wakes it"];
  }
  const again = wakesIn ? `; it is woken again in ${wakesIn}` : "";
  if (server.awake_hours_endless) return ["its hours", `always${again}`];
  if (server.awake_hours_end_in_s != null) return ["its hours end in", duration(server.awake_hours_end_in_s) + again];
  return wakesIn ? ["is woken for its hours in", wakesIn] : null;
}

function facts(server, story, past) {
  const rows = [];
  const since = past.now_ms - server.state_for_s * 1000;
  const power = powerNow(server, story);
  rows.push(["since", `${moment(since, past.utc_offset_s, past.now_ms)} (${duration(server.state_for_s)})`]);
  if (power) rows.push(["draws", power]);
  if (server.kept_awake_by && server.state === "awake") rows.push(["kept awake by", server.kept_awake_by]);
  for (const probe of server.in_use ?? []) rows.push([`in use, by ${probe.name}`, asked(probe)]);
  const hours = awakeHours(server);
  if (hours) rows.push(hours);
  if (server.time_zone) rows.push(["time zone", zone(server.time_zone)]);
  if (server.in_flight > 0) rows.push(["under way", `${server.in_flight} ${server.in_flight === 1 ? "request" : "requests"}`]);
  if (server.held > 0) rows.push(["waiting for it", `${server.held} requests`]);
  if (server.duty) rows.push(["to its pool", server.held_off ? `${server.duty}, held off by order` : server.duty]);
  if (server.state === "failed") rows.push(["tried again in", duration(server.retry_after_s)]);
  rows.push(["wakes in", `about ${duration(server.wake_time_s)}`]);
  return el("dl", {}, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function buttons(server, give) {
  const label = (text) => `${text} ${server.name}`;
  const time = el(
    "select",
    { "aria-label": label("How long to keep awake:"), "data-keep": `${server.name} time` },
    ...[["30m", "30 min"], ["1h", "1 hour"], ["4h", "4 hours"], ["1d", "1 day"]].map(([value, text]) =>
      el("option", { value }, text),
    ),
  );
  const button = (what, text) =>
    el(
      "button",
      { type: "button", "aria-label": label(text), "data-keep": `${server.name} ${what}`, onclick: () => give(server.name, what, what === "keep-awake" ? time.value : null) },
      text,
    );
  return el("div", { class: "buttons" }, button("wake", "Wake"), button("sleep", "Sleep"), el("span", { class: "together" }, button("keep-awake", "Keep awake"), time));
}

export function draw(list, status, past, { orders, give }) {
  // A user who is about to press a button keeps it under the finger and the choice beside it.
  const focus = document.activeElement?.dataset?.keep;
  const chosen = new Map([...list.querySelectorAll("select")].map((it) => [it.dataset.keep, it.value]));
  if (list.querySelector("select:focus")) return;
  const stories = new Map([...past.sites, ...past.machines].map((story) => [story.name, story]));
  const cards = servers(status).map((server) => {
    const state = KNOWN.includes(server.state) ? server.state : "unknown";
    return el(
      "li",
      { class: `card ${state}` },
      el("h3", {}, server.name, " ", el("small", {}, server.kind === "site" ? "" : server.kind)),
      el("p", { class: "state" }, el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[state]), ` ${words(server.state)}`),
      facts(server, stories.get(server.name), past),
      orders ? buttons(server, give) : null,
    );
  });
  list.replaceChildren(...cards);
  for (const select of list.querySelectorAll("select")) {
    if (chosen.has(select.dataset.keep)) select.value = chosen.get(select.dataset.keep);
  }
  if (focus) [...list.querySelectorAll("[data-keep]")].find((it) => it.dataset.keep === focus)?.focus();
}
