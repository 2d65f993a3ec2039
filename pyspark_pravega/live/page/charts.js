// uPlot's charts: rates, commits by who wrote them, and how far queries are behind. Units stand above the axes.
import { bytes, color, lasting, make, measure, moment, short } from "./values.js";

/** Between samples that are farther from each other, in seconds, nobody has looked: no line is drawn over that. */
export const GAP_S = 15;
const WRITERS = 5;

function axes() {
  const common = () => ({ stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" });
  return [{ ...common(), values: (plot, splits) => splits.map((at) => moment(at * 1000).replace(/:00$/, "")), space: 90, size: 30 }, { ...common(), size: 48, values: (plot, splits) => splits.map(short) }];
}
const both = (scale, values = (plot, splits) => splits.map(short)) => { const [time, left] = axes(); return [time, left, { ...left, side: 1, scale, grid: { show: false }, values }]; };

function chart(name, units, options, height = 170) {
  const place = make("div", { class: "chart" });
  const element = make("div", { role: "img", "aria-label": name }, make("div", { class: "units", "aria-hidden": "true" }, ...units.map((unit) => make("span", {}, unit))), place);
  let plot = null, data = null, drawn = "";
  function paint() {
    if (!data || !place.clientWidth) return;
    if (plot) plot.destroy();
    plot = new uPlot({ width: place.clientWidth, height, cursor: { y: false }, ...options() }, data, place);
  }
  const watcher = new ResizeObserver(() => {
    if (!plot) paint();
    else if (place.clientWidth && plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height });
  });
  watcher.observe(place);
  return {
    element, repaint: paint, close: () => { watcher.disconnect(); if (plot) plot.destroy(); },
    /** Shows other data; `kind` tells of other series. */
    show(found, label, kind = "") {
      data = found;
      if (plot && kind === drawn) plot.setData(found); else paint();
      drawn = kind;
      if (label && element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
    },
  };
}

/** What stands in a legend: nothing where nobody points at the chart, a dash where there is no value. */
const pointed = (show) => (plot, number, series, index) => (index === null || index === undefined ? "" : number === null || number === undefined ? "–" : show(number));
const value = (unit) => pointed((number) => measure(number, unit));
const at = pointed((seconds) => moment(seconds * 1000));
const fromZero = (least) => ({ range: (plot, low, high) => [0, Math.max(least, (high || 0) * 1.1)] });
const line = (label, stroke, more = {}) => ({ label, stroke, width: 1.8, points: { show: false }, spanGaps: false, ...more });

export const ratesChart = () => chart("Rates", ["bytes a second", "events a second"], () => ({
  axes: both("events"), scales: { y: fromZero(10), events: fromZero(1) },
  series: [{ label: "", value: at }, line("in", color("--accent"), { fill: color("--accent-soft"), value: value("B/s") }),
    line("out", color("--warm"), { width: 1.6, value: value("B/s") }),
    line("events in", color("--quiet"), { scale: "events", width: 1.2, dash: [4, 3], value: value("/s") })],
}));

/** Curves of rates of samples: [when, bytes until then, events until then, bytes out a second], the oldest first. */
export function rateCurves(samples) {
  const curves = [[], [], [], []];
  const put = (...values) => values.forEach((one, number) => curves[number].push(one));
  for (let number = 1; number < samples.length; number += 1) {
    const [before, after] = [samples[number - 1], samples[number]], seconds = (after[0] - before[0]) / 1000;
    if (seconds > GAP_S) put((before[0] + after[0]) / 2000, null, null, null);
    else put(after[0] / 1000, (after[1] - before[1]) / seconds, after[3], (after[2] - before[2]) / seconds);
  }
  return curves;
}

/** Rows of commits, a colour for each writer; and how long each took. Who wrote most comes first, others are one. */
export function commitsChart() {
  let writers = [];
  const bars = () => uPlot.paths.bars({ size: [0.02, 4, 4] });
  const drawing = chart("Commits", ["rows of a commit", "how long it took"], () => ({
    axes: both("ms", (plot, splits) => splits.map((one) => lasting(one).replace(".0 s", " s"))), scales: { y: fromZero(1), ms: fromZero(10) },
    series: [{ label: "", value: at },
      ...writers.map((one, number) => ({ label: one, stroke: color(`--writer-${number}`), fill: color(`--writer-${number}`), width: 0, paths: bars(), points: { show: false }, value: value("") })),
      { label: "took", scale: "ms", stroke: color("--warm"), width: 0, paths: () => null, points: { show: true, size: 6, fill: color("--panel"), stroke: color("--warm") }, value: pointed(lasting) }],
  }));
  return {
    ...drawing,
    showCommits(commits, nameOf) {
      const rows = new Map();
      for (const one of commits) rows.set(nameOf(one), (rows.get(nameOf(one)) || 0) + one.rows);
      const most = [...rows].sort((a, b) => b[1] - a[1]).map(([name]) => name);
      writers = most.length > WRITERS ? [...most.slice(0, WRITERS - 1), "others"] : most;
      const place = (one) => { const found = writers.indexOf(nameOf(one)); return found < 0 ? writers.length - 1 : found; };
      const last = commits.length ? commits[commits.length - 1].rows.toLocaleString("en-US") : 0;
      drawing.show([commits.map((one) => one.committed_at / 1000), ...writers.map((_, number) => commits.map((one) => (place(one) === number ? one.rows : null))), commits.map((one) => one.milliseconds)],
        `Commits: ${commits.length} shown, the last one of ${last} rows; written by ${writers.join(", ") || "nobody"}`, writers.join());
    },
  };
}

/** How far a query is behind in a stream, over time. */
export function lagChart(name) {
  const drawing = chart(`Lag of ${name}`, ["bytes behind", "events behind"], () => ({
    axes: both("events"), scales: { y: fromZero(1000), events: fromZero(10) },
    series: [{ label: "", value: at }, line("bytes", color("--accent"), { fill: color("--accent-soft"), value: value("B") }), line("events", color("--quiet"), { scale: "events", width: 1.2, dash: [4, 3], value: value("") })],
  }), 130);
  return {
    ...drawing,
    showHistory(history) {
      const curves = [[], [], []];
      history.forEach(([when, behind, events], number) => {
        if (number && when - history[number - 1][0] > GAP_S * 1000) { curves[0].push((when + history[number - 1][0]) / 2000); curves[1].push(null); curves[2].push(null); }
        curves[0].push(when / 1000); curves[1].push(behind); curves[2].push(events);
      });
      const last = history[history.length - 1];
      drawing.show(curves, `Lag of ${name}${last ? `: ${bytes(last[1])} behind` : ""}`);
    },
  };
}
