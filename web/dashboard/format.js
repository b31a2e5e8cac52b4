// How figures and times are written, and how elements are made. Text goes in as text, never as HTML.

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// What is too small to be seen has no sign.
const number = (value, digits) =>
  (Math.abs(value) < 0.5 / 10 ** digits ? 0 : value).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");

export const count = (value) => value.toLocaleString("en");

// With a noun, whose plural has an s.
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export const percent = (share) => `${number(share * 100, Math.abs(share) < 0.1 ? 1 : 0)} %`;

export function energy(joules) {
  const wh = joules / 3600;
  if (Math.abs(wh) >= 1e6) return `${number(wh / 1e6, 2)} MWh`;
  if (Math.abs(wh) >= 1000) return `${number(wh / 1000, Math.abs(wh) >= 1e5 ? 0 : 2)} kWh`;
  return `${number(wh, Math.abs(wh) >= 100 ? 0 : 1)} Wh`;
}

// As a configuration has it: a figure that was set, not measured.
export const setWatts = (value) => `${value.toLocaleString("en", { maximumFractionDigits: 1 })} W`;

export const watts = (value) => `${number(value, value < 10 ? 1 : 0)} W`;

export function bytes(value) {
  if (value >= 2 ** 30) return `${number(value / 2 ** 30, 2)} GiB`;
  if (value >= 2 ** 20) return `${number(value / 2 ** 20, 1)} MiB`;
  return value >= 1024 ? `${number(value / 1024, 1)} KiB` : `${count(value)} B`;
}

export function mass(kg) {
  return Math.abs(kg) >= 1 ? `${number(kg, Math.abs(kg) >= 100 ? 0 : 1)} kg` : `${number(kg * 1000, 0)} g`;
}

export function money(value, currency) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 0.1 ? 2 : 3;
  return `${currency} ${number(value, digits)}`;
}

export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${number(seconds, 1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const two = (large, name, small, other) => (small > 0 ? `${large} ${name} ${small} ${other}` : `${large} ${name}`);
  if (minutes < 60 * 48) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
  return two(Math.floor(minutes / 1440), "d", Math.floor((minutes % 1440) / 60), "h");
}

// Times are in the proxy's time zone, wherever the viewer is.
const local = (ms, offset) => new Date(ms + offset * 1000);

export function clock(ms, offset) {
  return local(ms, offset).toISOString().slice(11, 16);
}

export function moment(ms, offset, now) {
  const date = local(ms, offset).toISOString();
  const today = local(now, offset).toISOString();
  if (date.slice(0, 10) === today.slice(0, 10)) return date.slice(11, 16);
  return `${dayName(Math.floor((ms + offset * 1000) / 86400000))}, ${date.slice(11, 16)}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function dayName(day) {
  const date = new Date(day * 86400000);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

export const monthOf = (day) => new Date(day * 86400000).toISOString().slice(0, 7);

export const words = (name) => name.replaceAll("-", " ");

// Rows of cells; a cell is text, or { n: text } for numbers.
export function table(head, rows) {
  const cell = (tag, value) =>
    value !== null && typeof value === "object" && "n" in value
      ? el(tag, { class: "n", scope: tag === "th" ? "col" : null }, value.n)
      : el(tag, { scope: tag === "th" ? "col" : null }, value);
  return el(
    "table",
    {},
    el("thead", {}, el("tr", {}, ...head.map((it) => cell("th", it)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((it) => cell("td", it))))),
  );
}
