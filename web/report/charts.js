// Draws the charts of a report: what crates/report/src/chart.rs describes, with Chart.js.
// A plain script: no imports, so that it works from a file that was saved or mailed.
"use strict";

const nightwattCharts = (() => {
  // Marks and dashes beside colours: a series is never told by its colour alone.
  const MARKS = ["circle", "rectRot", "triangle", "rect", "cross", "star", "crossRot"];
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [4, 2], [12, 4], [1, 2]];
  const DURATIONS = [
    [0.001, "1 ms"], [0.01, "10 ms"], [0.1, "100 ms"], [1, "1 s"], [10, "10 s"], [60, "1 min"],
    [600, "10 min"], [3600, "1 h"], [21600, "6 h"], [86400, "1 d"], [604800, "7 d"],
    [2592000, "30 d"], [31536000, "1 y"],
  ];
  const TIME_STEPS = [
    1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2629746,
    7889238, 31556952,
  ];

  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // There are seven colours: bars of the second seven series are striped, of the third with steeper stripes.
  function fill(index) {
    const plain = colour(`series-${index % 7}`);
    const round = Math.floor(index / 7);
    if (round === 0) return plain;
    const [width, height] = [6, 6 * round];
    const tile = Object.assign(document.createElement("canvas"), { width, height });
    const ctx = tile.getContext("2d");
    ctx.fillStyle = plain;
    ctx.fillRect(0, 0, width, height);
    ctx.strokeStyle = colour("ground");
    ctx.lineWidth = 1.5;
    for (const x of [-width, 0, width]) {
      ctx.moveTo(x, height);
      ctx.lineTo(x + width, 0);
    }
    ctx.stroke();
    return ctx.createPattern(tile, "repeat");
  }

  function number(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e7 || size < 1e-3)) {
      const [digits, exponent] = value.toExponential(3).split("e");
      const raised = String(Number(exponent)).replace(/./g, (digit) =>
        digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
      const shortened = Number(digits);
      return shortened === 1 ? `10${raised}` : `${shortened}×10${raised}`;
    }
    return value.toLocaleString("en", { maximumSignificantDigits: 5 });
  }

  function duration(seconds) {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1], ["ms", 0.001]];
    const [name, size] = units.find(([, unit]) => seconds >= unit) || units[units.length - 1];
    return `${number(Number((seconds / size).toPrecision(3)))} ${name}`;
  }

  function time(axis, seconds, step) {
    // Shifted to local time, then read as if it were UTC: the log's zone, not the reader's.
    const text = new Date((seconds + axis.utc_offset) * 1000).toISOString();
    if (step >= 86400) return text.slice(0, 10);
    return step ? `${text.slice(5, 10)} ${text.slice(11, step < 60 ? 19 : 16)}` :
      `${text.slice(0, 10)} ${text.slice(11, 19)}`;
  }

  function value(axis, at) {
    if (axis.scale === "category") return axis.names[at] ?? "";
    if (axis.scale === "time") return time(axis, at, 0);
    if (axis.scale === "duration") return duration(at);
    return axis.unit ? `${number(at)} ${axis.unit}` : number(at);
  }

  // The marks of a time axis: a round step in local time that leaves about eight of them.
  function timeTicks(axis, scale) {
    const room = Math.max(2, Math.min(8, Math.floor(scale.chart.width / 110)));
    const step = TIME_STEPS.find((it) => (scale.max - scale.min) / it <= room) ??
      TIME_STEPS[TIME_STEPS.length - 1];
    const first = Math.ceil((scale.min + axis.utc_offset) / step) * step - axis.utc_offset;
    const ticks = [];
    for (let at = first; at <= scale.max && ticks.length < 50; at += step) ticks.push({ value: at });
    scale.nightwattStep = step;
    return ticks;
  }

  function powerTicks(scale) {
    const all = [];
    for (let power = Math.floor(Math.log10(scale.min)); power <= Math.log10(scale.max); power++) {
      for (const digit of [1, 2, 5]) all.push([digit, digit * 10 ** power]);
    }
    const seen = all.filter(([, at]) => at >= scale.min * 0.999 && at <= scale.max * 1.001);
    // Powers of ten alone where there are enough of them.
    const tens = seen.filter(([digit]) => digit === 1);
    const room = scale.isHorizontal() ? scale.chart.width / 60 : scale.chart.height / 40;
    let kept = tens.length >= 3 ? tens : seen;
    while (kept.length > room && kept.length > 2) kept = kept.filter((_, index) => index % 2 === 0);
    return kept.map(([, at]) => ({ value: at }));
  }

  function scaleOf(axis, horizontal, stacked) {
    const options = {
      stacked,
      title: { display: axis.title !== "", text: axis.title },
      grid: {}, border: {}, ticks: { maxRotation: 45, autoSkipPadding: 12 },
    };
    if (!horizontal) options.grace = axis.scale === "zero" ? "5%" : 0;
    switch (axis.scale) {
      case "category":
        // Hours may be left out, names may not: a reader could not tell which is missing.
        return {
          ...options, type: "category", labels: axis.names, offset: true,
          ticks: { ...options.ticks, autoSkip: axis.names.length > 16 },
        };
      case "time":
        return {
          ...options, type: "linear", bounds: "data",
          afterBuildTicks: (scale) => { scale.ticks = timeTicks(axis, scale); },
          ticks: {
            ...options.ticks, maxRotation: 0, autoSkip: false,
            callback(at) { return time(axis, at, this.nightwattStep ?? 60); },
          },
        };
      case "duration":
        return {
          ...options, type: "logarithmic", bounds: "data",
          afterBuildTicks: (scale) => {
            const seen = DURATIONS.filter(([at]) => at >= scale.min && at <= scale.max);
            scale.ticks = seen.length > 1 ? seen.map(([at]) => ({ value: at })) : powerTicks(scale);
          },
          ticks: {
            ...options.ticks, maxRotation: 0,
            callback: (at) => DURATIONS.find(([mark]) => mark === at)?.[1] ?? duration(at),
          },
        };
      case "log":
        return {
          ...options, type: "logarithmic",
          afterBuildTicks: (scale) => { scale.ticks = powerTicks(scale); },
          ticks: { ...options.ticks, autoSkip: false, callback: number },
        };
      default:
        return {
          ...options, type: "linear", beginAtZero: axis.scale === "zero",
          ticks: { ...options.ticks, callback: number },
        };
    }
  }

  function datasetOf(series, index, axis) {
    const stacked = series.kind === "stacked";
    const bar = series.kind === "bar" || stacked;
    const scatter = series.kind === "scatter";
    const few = series.points.length <= 24;
    return {
      type: bar ? "bar" : scatter ? "scatter" : "line",
      label: series.name,
      data: series.points.map((point) =>
        ({ ...point, x: axis.scale === "category" ? axis.names[point.x] : point.x, at: point.x })),
      parsing: axis.scale === "category" ? {} : false,
      // "before" holds a value from its own place on, as a histogram's bin reads.
      stepped: series.kind === "step" ? "before" : false,
      stack: stacked ? "stack" : undefined,
      // Bars behind lines, single points before them.
      order: bar ? 3 : scatter ? 1 : 2,
      borderDash: bar || scatter ? [] : DASHES[index % DASHES.length],
      borderWidth: bar ? 0 : 2,
      borderColor: () => colour(`series-${index % 7}`),
      backgroundColor: () => (bar ? fill(index) : colour(`series-${index % 7}`)),
      borderJoinStyle: "round",
      pointStyle: MARKS[index % MARKS.length],
      pointRadius: scatter ? 6 : few && series.kind === "line" ? 3 : 0,
      pointHoverRadius: 7,
      pointHitRadius: 12,
      maxBarThickness: 64,
      categoryPercentage: 0.82,
      barPercentage: 0.92,
    };
  }

  // Each series as it is drawn: a box for bars, a line with its dashes, a mark.
  function legend(chart) {
    return Chart.defaults.plugins.legend.labels.generateLabels(chart).map((item) => {
      const { type } = chart.data.datasets[item.datasetIndex];
      const pointStyle = type === "bar" ? "rect" : type === "line" ? "line" : item.pointStyle;
      return { ...item, pointStyle };
    });
  }

  // Reference lines with their words, and names beside the points that have one.
  const annotations = {
    id: "nightwatt",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales } = chart;
      const taken = [];
      const free = (box) => box.left >= area.left && box.right <= area.right + 4 &&
        box.top >= area.top && box.bottom <= area.bottom &&
        taken.every((it) => box.right < it.left || box.left > it.right ||
          box.bottom < it.top || box.top > it.bottom);
      ctx.save();
      ctx.font = `12px ${Chart.defaults.font.family}`;
      ctx.textBaseline = "middle";
      ctx.fillStyle = colour("ink");
      ctx.lineJoin = "round";
      // Words have a rim of the ground's colour, or the lines below make them hard to read.
      const rim = () => { ctx.lineWidth = 4; ctx.strokeStyle = colour("ground"); };
      const write = (text, places) => {
        const width = ctx.measureText(text).width;
        for (const [x, y] of places(width)) {
          const box = { left: x - 2, right: x + width + 2, top: y - 8, bottom: y + 8 };
          if (!free(box)) continue;
          taken.push(box);
          ctx.setLineDash([]);
          ctx.strokeText(text, x, y);
          ctx.fillText(text, x, y);
          return;
        }
      };
      for (const line of chart.options.plugins.nightwatt.references) {
        const scale = line.vertical ? scales.x : scales.y;
        const at = scale.getPixelForValue(line.at);
        const [low, high] = line.vertical ? [area.left, area.right] : [area.top, area.bottom];
        if (!(at >= low - 1 && at <= high + 1)) continue;
        ctx.lineWidth = 1.5;
        ctx.strokeStyle = ctx.fillStyle;
        ctx.setLineDash([5, 4]);
        ctx.beginPath();
        if (line.vertical) {
          ctx.moveTo(at, area.top);
          ctx.lineTo(at, area.bottom);
        } else {
          ctx.moveTo(area.left, at);
          ctx.lineTo(area.right, at);
        }
        ctx.stroke();
        rim();
        const rows = [0, 1, 2, 3].map((row) => area.top + 10 + 17 * row);
        write(line.label, (width) => line.vertical
          ? rows.flatMap((y) => [[at + 5, y], [at - 5 - width, y]])
          : [[area.right - width - 4, at - 10], [area.left + 6, at - 10], [area.right - width - 4, at + 10]]);
      }
      rim();
      const seen = chart.data.datasets.map((dataset, index) => [dataset, chart.getDatasetMeta(index).data])
        .filter((_, index) => chart.isDatasetVisible(index));
      // All marks first: no name is to lie on one.
      if (seen.some(([dataset]) => dataset.data.some((point) => point.label))) {
        for (const { x, y } of seen.flatMap(([, marks]) => marks).slice(0, 500)) {
          taken.push({ left: x - 5, right: x + 5, top: y - 5, bottom: y + 5 });
        }
      }
      seen.forEach(([dataset, marks]) => {
        dataset.data.forEach((point, place) => {
          if (!point.label || !marks[place]) return;
          const { x, y } = marks[place];
          write(point.label, (width) => [
            [x + 10, y], [x - 10 - width, y], [x + 8, y - 15], [x + 8, y + 15],
            [x - 8 - width, y - 15], [x - 8 - width, y + 15], [x - width / 2, y - 18],
            [x - width / 2, y + 18], [x + 14, y + 32], [x - 14 - width, y - 32], [x + 14, y + 50],
          ]);
        });
      });
      ctx.restore();
    },
  };

  // How surely values are known: a line from end to end of the interval, with a stroke at both.
  const whiskers = {
    id: "whiskers",
    afterDatasetsDraw(chart) {
      const { ctx, scales } = chart;
      ctx.save();
      ctx.strokeStyle = colour("ink");
      ctx.lineWidth = 1.5;
      chart.data.datasets.forEach((dataset, index) => {
        if (!chart.isDatasetVisible(index)) return;
        chart.getDatasetMeta(index).data.forEach((mark, place) => {
          const interval = dataset.data[place].interval;
          if (!interval) return;
          const [low, high] = interval.map((at) => scales.y.getPixelForValue(at));
          ctx.beginPath();
          ctx.moveTo(mark.x, low);
          ctx.lineTo(mark.x, high);
          for (const y of [low, high]) {
            ctx.moveTo(mark.x - 5, y);
            ctx.lineTo(mark.x + 5, y);
          }
          ctx.stroke();
        });
      });
      ctx.restore();
    },
  };

  // An axis shows all of the intervals: charts know only of their values.
  function reach(series) {
    const ends = series.flatMap(({ points }) => points.flatMap(({ interval }) => interval ?? []));
    return ends.length ? { suggestedMin: Math.min(...ends), suggestedMax: Math.max(...ends) } : {};
  }

  // Takes the colours that the page has now: they change with the theme, and on paper.
  function paint(chart) {
    const [ink, quiet, line] = [colour("ink"), colour("quiet"), colour("line")];
    for (const axis of Object.values(chart.options.scales)) {
      axis.grid.color = line;
      axis.border.color = quiet;
      axis.ticks.color = quiet;
      axis.title.color = ink;
    }
    chart.options.plugins.legend.labels.color = ink;
    chart.update("none");
  }

  function draw(canvas, spec) {
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    const stacked = spec.series.some((series) => series.kind === "stacked");
    const bars = spec.series.some((series) => series.kind === "bar" || series.kind === "stacked");
    const dense = spec.series.reduce((sum, series) => sum + series.points.length, 0) > 2000;
    const chart = new Chart(canvas, {
      data: { datasets: spec.series.map((series, index) => datasetOf(series, index, spec.x)) },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        normalized: true,
        interaction: { mode: bars && spec.x.scale === "category" ? "index" : "nearest", intersect: false },
        elements: { line: { tension: 0 }, point: { hitRadius: dense ? 4 : 12 } },
        scales: { x: scaleOf(spec.x, true, stacked), y: { ...scaleOf(spec.y, false, stacked), ...reach(spec.series) } },
        plugins: {
          colors: { enabled: false },
          legend: {
            display: spec.series.length > 1, align: "start",
            labels: { usePointStyle: true, boxHeight: 11, generateLabels: legend },
          },
          tooltip: {
            usePointStyle: true, boxWidth: 8, boxHeight: 8, boxPadding: 4,
            filter: ({ raw }) => !raw.end,
            callbacks: {
              title: (items) => items.length ? value(spec.x, items[0].raw.at) : "",
              label: ({ raw, dataset }) =>
                `${raw.label ? `${raw.label}, ` : ""}${dataset.label}: ${value(spec.y, raw.y)}` +
                (raw.interval ? ` (${raw.interval.map((at) => value(spec.y, at)).join(" to ")})` : ""),
            },
          },
          nightwatt: { references: spec.references },
        },
      },
      plugins: [whiskers, annotations],
    });
    paint(chart);
    return chart;
  }

  return { draw, paint };
})();
