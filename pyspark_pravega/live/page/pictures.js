// A canvas: a stream's key ranges over time.
import { bytes, color, make, moment, perSecond } from "./values.js";

const SCALES = {
  light: ["#e4e9ee", "#c6def1", "#7db8e3", "#3b82c4", "#5b4bb0", "#c0407d"],
  dark: ["#26323d", "#1f4b70", "#2f7fbf", "#69b3ee", "#b79bf5", "#ff8fb8"],
};
const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function mixed(from, to, part) {
  const parse = (text) => [1, 3, 5].map((begin) => parseInt(text.slice(begin, begin + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((value, number) => Math.round(value + (b[number] - value) * part)).join(",")})`;
}

/** The colour of a rate: nothing is grey, and each step is ten times as much. */
export function rateColor(rate) {
  const stops = SCALES[isDark() ? "dark" : "light"];
  if (!(rate > 0)) return stops[0];
  const place = Math.min(stops.length - 2, Math.max(0, Math.log10(rate / 10) * (stops.length - 2) / 6));
  const low = Math.min(stops.length - 3, Math.floor(place));
  return mixed(stops[low + 1], stops[low + 2], place - low);
}

function ready(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return [pen, width, height];
}

function ticks(from, until, count) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800, 2592000].map((seconds) => seconds * 1000);
  const step = steps.find((one) => (until - from) / one <= count) || steps[steps.length - 1];
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) found.push(at);
  return found;
}

export const segmentName = (one) => `segment ${one.number}${one.epoch ? ` of epoch ${one.epoch}` : ""}`;

/** The rate of a segment's last piece, in bytes a second. */
export function lastRate(one, now) {
  const points = one.points;
  if (one.ended_at !== null || points.length < 2) return null;
  let first = points.length - 2;
  while (first > 0 && points[points.length - 1][0] - points[first][0] < 5000) first -= 1;
  return 1000 * (points[points.length - 1][1] - points[first][1]) / Math.max(1, now - points[first][0]);
}

export function segmentsPicture() {
  const canvas = make("canvas", { role: "img", tabindex: "0", "aria-label": "Segments" });
  const say = make("p", { class: "say", role: "status" });
  const scale = make("canvas", { "aria-hidden": "true" });
  const legend = make("span", { class: "legend" }, "10 B/s", scale, "10 MB/s");
  const help = "Arrow keys go from segment to segment.";
  let data = null, span = 3600e3, chosen = null;
  const places = [];
  const left = 34, bottom = 20, top = 24;

  function draw() {
    if (!data || !canvas.clientWidth) return;
    const [pen, width, height] = ready(canvas);
    const shown = data.segments, until = data.at;
    const oldest = Math.min(...shown.map((one) => one.made_at), until - 10000);
    const from = span ? Math.max(oldest, until - span) : oldest;
    const x = (at) => left + (width - left - 4) * (Math.min(Math.max(at, from), until) - from) / (until - from);
    const y = (key) => top + (height - top - bottom) * (1 - key);
    places.length = 0;
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.fillStyle = color("--quiet"); pen.textBaseline = "middle"; pen.textAlign = "right";
    for (const key of [0, 0.25, 0.5, 0.75, 1]) pen.fillText(String(key), left - 6, y(key));
    pen.textAlign = "left"; pen.textBaseline = "alphabetic"; pen.fillText("keys", 0, 10);
    pen.textAlign = "center"; pen.textBaseline = "alphabetic";
    for (const at of ticks(from, until, Math.max(2, width / 110))) {
      pen.fillText(moment(at).replace(/:00$/, ""), Math.min(width - 26, Math.max(left + 18, x(at))), height - 5);
    }
    for (const one of shown) {
      const end = one.ended_at === null ? until : one.ended_at;
      if (end < from) continue;
      const high = y(one.max_key), tall = y(one.min_key) - high;
      const points = steps(one.points, Math.max(3000, 4 * (until - from) / width));
      for (let number = 1; number < points.length; number += 1) {
        const [began, before] = points[number - 1], [ended, after] = points[number];
        if (ended < from) continue;
        pen.fillStyle = rateColor(1000 * (after - before) / Math.max(1, ended - began));
        pen.fillRect(x(began), high, Math.max(0.6, x(ended) - x(began) + 0.3), tall);
      }
      if (one.points.length < 2) { pen.fillStyle = rateColor(0); pen.fillRect(x(one.made_at), high, Math.max(0.6, x(end) - x(one.made_at)), tall); }
      places.push({ one, x0: x(one.made_at), x1: Math.max(x(end), x(one.made_at) + 1), y0: high, y1: high + tall });
    }
    pen.lineWidth = 1.5; pen.strokeStyle = color("--panel");
    for (const { x0, x1, y0, y1 } of places) pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
    pen.textBaseline = "alphabetic"; pen.textAlign = "center"; pen.fillStyle = color("--quiet"); pen.strokeStyle = color("--quiet");
    let last = -99;
    for (const [at, words] of scales(shown)) {
      if (at < from) continue;
      pen.lineWidth = 1; pen.setLineDash([2, 3]); pen.beginPath(); pen.moveTo(x(at), top); pen.lineTo(x(at), height - bottom); pen.stroke(); pen.setLineDash([]);
      if (x(at) - last > 52) { pen.fillText(words, Math.min(width - 24, Math.max(left + 20, x(at))), 11); last = x(at); }
    }
    const marked = places.find((place) => place.one.segment === chosen);
    if (marked) { pen.lineWidth = 2.5; pen.strokeStyle = color("--ink"); pen.strokeRect(marked.x0 + 1, marked.y0 + 1, marked.x1 - marked.x0 - 2, marked.y1 - marked.y0 - 2); }
    drawScale();
  }

  function drawScale() {
    const [pen, width, height] = ready(scale);
    for (let place = 0; place < width; place += 1) { pen.fillStyle = rateColor(10 * 10 ** (6 * place / width)); pen.fillRect(place, 0, 1.5, height); }
  }

  function words(one) {
    const rate = lastRate(one, data.at), end = one.ended_at === null ? (one.sealed ? "sealed" : "now") : moment(one.ended_at);
    return `${segmentName(one)}: keys ${one.min_key.toFixed(3)} to ${one.max_key.toFixed(3)}, ${moment(one.made_at)} to ${end}, ${bytes(one.end_offset - one.start_offset)}` + (rate === null ? "" : `, ${perSecond(rate, "B")}`);
  }
  function choose(one) {
    chosen = one ? one.segment : null;
    say.textContent = one ? words(one) : help;
    draw();
  }
  canvas.addEventListener("pointermove", (event) => {
    const area = canvas.getBoundingClientRect(), px = event.clientX - area.left, py = event.clientY - area.top;
    const hit = places.find((place) => px >= place.x0 && px <= place.x1 && py >= place.y0 && py <= place.y1);
    if ((hit ? hit.one.segment : null) !== chosen) choose(hit ? hit.one : null);
  });
  canvas.addEventListener("pointerleave", () => { if (document.activeElement !== canvas) choose(null); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !places.length) return;
    event.preventDefault();
    const now = places.findIndex((place) => place.one.segment === chosen);
    choose(places[now < 0 ? (step > 0 ? 0 : places.length - 1) : (now + step + places.length) % places.length].one);
  });
  canvas.addEventListener("blur", () => choose(null));
  say.textContent = help;
  const watcher = new ResizeObserver(draw);
  watcher.observe(canvas);

  return {
    element: make("div", { class: "picture" }, canvas, say), legend, draw,
    close: () => watcher.disconnect(),
    show(found) {
      data = found;
      const current = found.segments.filter((one) => one.ended_at === null && !one.sealed).length;
      const label = `Key ranges over time: ${found.segments.length} segments, ${current} of which take events, ${scales(found.segments).length} scales`;
      if (canvas.getAttribute("aria-label") !== label) canvas.setAttribute("aria-label", label);
      draw();
    },
    range(milliseconds) { span = milliseconds; draw(); },
  };
}

/** When a stream was scaled, and whether segments were split or merged: the begins of all epochs but the first one. */
export function scales(segments) {
  const made = new Map();
  for (const one of segments) made.set(one.epoch, [...(made.get(one.epoch) || []), one]);
  return [...made].filter(([epoch]) => epoch > Math.min(...made.keys())).map(([, ones]) => {
    const ids = new Set(ones.map((one) => one.segment));
    const before = segments.filter((one) => one.successors.some((id) => ids.has(id))).length;
    return [Math.min(...ones.map((one) => one.made_at)), before < ones.length ? "split" : before > ones.length ? "merge" : "renewal"];
  }).sort((a, b) => a[0] - b[0]);
}

/** A segment's tails, far enough from each other in time that the rate between two of them says something. */
function steps(points, least) {
  const kept = [points[0]];
  for (const point of points.slice(1, -1)) if (point[0] - kept[kept.length - 1][0] >= least) kept.push(point);
  const last = points[points.length - 1];
  if (kept.length > 1 && last[0] - kept[kept.length - 1][0] < least / 2) kept.pop();
  return points.length > 1 ? [...kept, last] : kept;
}
