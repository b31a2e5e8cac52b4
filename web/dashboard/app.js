// Asks, while the page is visible, and draws.

import * as api from "./api.js";
import * as charts from "./charts.js";
import { certificates } from "./certificates.js";
import { containers } from "./containers.js";
import * as figures from "./figures.js";
import { duration } from "./format.js";
import { jobs } from "./jobs.js";
import { packets } from "./packets.js";
import * as servers from "./servers.js";

const PAUSE = 3000;
const HISTORY_EVERY = 60000;

const byId = (id) => document.getElementById(id);
const seen = { status: null, past: null, askedAt: 0, states: "", pastAt: 0, wall: null };
let range = "day";
let timer = null;
let asking = false;

function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

function show(element, value) {
  element.hidden = !value;
  if (value) text(element, value);
}

async function look(force = false) {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    const status = await api.status();
    const states = servers.servers(status).map((it) => `${it.name} ${it.state}`).join();
    const age = performance.now() - seen.pastAt;
    if (force || !seen.past || age > HISTORY_EVERY || (states !== seen.states && age > PAUSE) || seen.fast) {
      const past = await api.history();
      if (seen.past) seen.fast = past.now_ms - seen.past.now_ms > 5 * (performance.now() - seen.pastAt);
      seen.past = past;
      seen.pastAt = performance.now();
    }
    Object.assign(seen, { status, states });
    show(byId("trouble"), null);
    draw();
  } catch (error) {
    console.debug(error);
    show(byId("trouble"), `The proxy does not answer: ${error.message} What is below is old; it is asked again every few seconds.`);
  }
  asking = false;
  if (document.visibilityState === "visible") timer = setTimeout(look, seen.fast ? 1000 : PAUSE);
}

// A demo's time runs faster than ours.
function present() {
  const passed = seen.fast ? 0 : performance.now() - seen.pastAt;
  return { ...seen.past, now_ms: seen.past.now_ms + passed };
}

function sites() {
  // Who only passes connections through to machines has no site.
  const stories = seen.past.sites.length > 0 ? seen.past.sites : seen.past.machines;
  const names = stories.map((it) => it.name);
  const choice = byId("site");
  if ([...choice.options].map((it) => it.value).join() !== names.join()) {
    choice.replaceChildren(...names.map((name) => new Option(name, name)));
  }
  byId("site-choice").hidden = names.length < 2;
  show(byId("filter-note"), names.length < 2 ? null : `“Show” chooses the ${seen.past.sites.length > 0 ? "site" : "machine"} of power and states, days, requests, SLA, mirror and wake-ups. Servers and the sums under “Saved” are always of all.`);
  const story = stories.find((it) => it.name === choice.value) ?? stories[0];
  return [seen.status.sites.find((it) => it.name === story.name), story];
}

function draw() {
  const { status } = seen;
  const past = present();
  const [site, story] = sites();
  text(byId("summary"), servers.summary(status));
  document.title = `nightwatt: ${servers.summary(status)}`;
  const mayOrder = past.takes_orders && past.signed_in && !status.observe;
  servers.draw(byId("cards"), status, past, { orders: mayOrder, give });
  byId("sign").hidden = !past.takes_orders;
  text(byId("sign"), past.signed_in ? "Sign out" : "Sign in");
  show(
    byId("orders"),
    status.observe
      ? "Shadow mode: servers are left alone, so there are no buttons."
      : past.takes_orders
        ? null
        : "There are no buttons here, since the configuration has no admin.password_file. On the machine itself, nightwatt wake, sleep and stay-awake give orders.",
  );
  figures.savings(byId("savings"), byId("savings-note"), past);
  figures.services(byId("services"), byId("services-table"), status.tcp ?? []);
  figures.datagrams(byId("datagrams"), byId("datagrams-table"), status.udp ?? []);
  containers(byId("containers"), byId("containers-note"), byId("containers-table"), status.containers);
  certificates(byId("certificates"), byId("certificates-note"), byId("certificates-table"), status.tls, past);
  packets(byId("packets"), byId("packets-note"), byId("packets-table"), status.magic_packets);
  jobs(byId("jobs"), byId("jobs-table"), status.jobs ?? []);
  byId("of-site").hidden = !site;
  if (site) {
    figures.answers(byId("answers"), byId("requests-note"), site);
    figures.compression(byId("compression"), byId("compression-note"), byId("compression-table"), site.compression);
    figures.policy(byId("policy"), site, story);
  }
  figures.mirror(byId("mirror"), byId("mirror-note"), byId("mirror-table"), site?.mirror);
  if (figures.frontier(byId("frontier"), byId("frontier-note"), byId("frontier-table"), story.frontier)) charts.frontier(story.frontier);
  byId("of-day").hidden = range !== "day";
  byId("of-month").hidden = range !== "month";
  if (range === "day") {
    charts.power(story, past);
    charts.bands(story, past);
  } else {
    charts.month(story);
  }
  charts.days(story);
  figures.dayTable(byId("days-table"), story);
  charts.latencies(figures.wakeups(byId("wakes-table"), byId("wakes-note"), story, past));
  text(byId("version"), `nightwatt ${past.version}, running for ${duration(Math.max(0, (past.now_ms - past.started_ms) / 1000))}`);
  document.body.dataset.ready = "yes";
}

const ORDERS = { wake: "is being woken", sleep: "is put to sleep as soon as nothing is under way", "keep-awake": "is kept awake" };

async function give(name, what, time) {
  try {
    await api.order(name, what, time);
    text(byId("done"), `${name} ${ORDERS[what]}.`);
  } catch (error) {
    text(byId("done"), error.message);
    if (error.status === 401) {
      api.forget();
      signIn();
    }
  }
  look(true);
}

function signIn() {
  text(byId("sign-in-trouble"), "");
  byId("password").value = "";
  byId("sign-in").showModal();
}

byId("sign").addEventListener("click", async () => {
  if (!seen.past?.signed_in) return signIn();
  await api.signOut();
  text(byId("done"), "Signed out.");
  look(true);
});
byId("sign-in-cancel").addEventListener("click", () => byId("sign-in").close());
byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await api.signIn(byId("password").value);
    byId("sign-in").close();
    text(byId("done"), "Signed in.");
    await look(true);
  } catch (error) {
    text(byId("sign-in-trouble"), error.message);
    byId("password").select();
  }
});
byId("site").addEventListener("change", draw);
for (const name of ["day", "month"]) {
  byId(`range-${name}`).addEventListener("click", () => {
    range = name;
    for (const other of ["day", "month"]) byId(`range-${other}`).setAttribute("aria-pressed", String(other === name));
    draw();
  });
}
// The page is hidden: nothing is asked.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") look();
  else clearTimeout(timer);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  charts.forget();
  if (seen.past) draw();
});
addEventListener("resize", () => {
  if (seen.past) requestAnimationFrame(draw);
});
look();
