// Brings a report's page to life: charts, and tables that sort. Without it all is readable.
"use strict";

(() => {
  // A column is sorted by numbers where its cells have them, else by text; what is empty is last.
  function sortBy(table, column, heading) {
    // The largest number first, text from A; the other way round the second time.
    const before = heading.getAttribute("aria-sort");
    const down = before ? before === "ascending" : heading.classList.contains("n");
    const body = table.tBodies[0];
    const words = new Intl.Collator("en", { numeric: true });
    const keyed = [...body.rows].map((row, place) => {
      const cell = row.cells[column];
      const number = cell.dataset.v === undefined ? NaN : Number(cell.dataset.v);
      return { row, place, number, text: cell.textContent };
    });
    keyed.sort((one, other) => {
      const [left, right] = [Number.isNaN(one.number), Number.isNaN(other.number)];
      if (left !== right) return left ? 1 : -1;
      const order = left ? words.compare(one.text, other.text) : one.number - other.number;
      return (down ? -order : order) || one.place - other.place;
    });
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...keyed.map(({ row }) => row));
  }

  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sortBy(table, column, heading));
      heading.append(button);
    });
  }

  const specs = JSON.parse(document.getElementById("charts").textContent);
  const charts = [];
  specs.forEach((spec, index) => {
    const figure = document.getElementById(`chart${index}`);
    figure.classList.add("drawn");
    try {
      charts.push(nightwattCharts.draw(figure.querySelector("canvas"), spec));
      figure.querySelector("details.data").open = false;
    } catch (error) {
      // The table stays open, and says the same.
      figure.classList.remove("drawn");
      console.error(error);
    }
  });

  const repaint = () => charts.forEach((chart) => nightwattCharts.paint(chart));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  // On paper no reader can open what is shut.
  let opened = [];
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    opened = [...document.querySelectorAll("details:not(.data):not([open])")];
    opened.forEach((details) => { details.open = true; });
    repaint();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    opened.forEach((details) => { details.open = false; });
    repaint();
  });
  document.body.dataset.ready = String(charts.length);
})();
