// Runs the scripts of a report's page under node, with a canvas that notes what is drawn on it:
// `node canvas.mjs report.html`. Prints, of each chart, its words and the number of strokes.
import fs from "node:fs";
import vm from "node:vm";

const html = fs.readFileSync(process.argv[2], "utf8");
const island = html.split('id="charts">')[1].split("</script>")[0];
const scripts = html.split("<script>").slice(1).map((part) => part.split("</script>")[0]);

function canvas(notes) {
  const note = (name, args) => {
    notes.calls[name] = (notes.calls[name] ?? 0) + 1;
    if (name === "fillText") notes.words.push(String(args[0]));
    for (const arg of args) {
      if (typeof arg === "number" && !Number.isFinite(arg)) notes.nowhere += 1;
    }
  };
  const fields = { canvas: null };
  const context = new Proxy(fields, {
    get(target, name) {
      if (name in target) return target[name];
      if (name === "measureText") return (text) => ({ width: 6.5 * text.length });
      return (...args) => note(name, args);
    },
    set: (target, name, value) => ((target[name] = value), true),
  });
  const self = {
    width: 900, height: 340, style: {}, getContext: () => context,
    addEventListener() {}, removeEventListener() {}, getAttribute: () => null, setAttribute() {},
  };
  fields.canvas = self;
  return self;
}

const charts = JSON.parse(island).map(() => ({ words: [], calls: {}, nowhere: 0 }));
const figures = charts.map((notes) => {
  const [own, details] = [canvas(notes), { open: true }];
  return {
    classList: { add() {}, remove() {} },
    querySelector: (what) => (what === "canvas" ? own : details),
    details,
  };
});
const errors = [];
const body = { dataset: {} };
const page = {
  body,
  documentElement: { classList: { add() {}, remove() {} } },
  querySelectorAll: () => [],
  getElementById: (id) =>
    id === "charts" ? { textContent: island } : figures[Number(id.slice("chart".length))],
};
const world = vm.createContext({
  document: page,
  addEventListener() {},
  matchMedia: () => ({ addEventListener() {} }),
  getComputedStyle: () => ({ getPropertyValue: () => "#123456", fontFamily: "sans-serif" }),
  console: { ...console, error: (error) => errors.push(String(error?.stack ?? error)) },
  Intl,
});
for (const script of scripts) vm.runInContext(script, world);
console.log(JSON.stringify({
  ready: body.dataset.ready, errors, open: figures.filter((it) => it.details.open).length, charts,
}));
