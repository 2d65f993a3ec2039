// All streams: a table of which only the lines in view are in the document, and only those are asked for.
import { ago, ask, bytes, listsOf, make, measure, nameOf, perSecond, sql, whole } from "./values.js";

const COLUMNS = [
  ["table", "Table", ""], ["bytes_in", "In", "n"], ["curve", "Last minute", ""], ["events_in", "Events in", "n"], ["bytes_out", "Out", "n"],
  ["bytes", "Stored", "n"], ["rows", "Rows", "n"], ["segments", "Segments", "n"], ["version", "Version", "n"], ["committed_at", "Committed", "n"],
];
const MARGIN = 6, SECONDS = 60;
const phone = matchMedia("(max-width: 720px)");
/** The height of a line, as page.css has it. */
const height = () => (phone.matches ? 58 : 30);
const LABELS = { rows: "rows", segments: "segments" };
const asked = { sort: "table", descending: false, text: "" };

/** A curve of a minute, by time: nothing is drawn where nobody has looked. */
function curvePath(curve) {
  const most = Math.max(1, ...curve.map(([, rate]) => rate || 0));
  let path = "", isOpen = false;
  for (const [ago, rate] of curve) {
    if (rate === null) { isOpen = false; continue; }
    path += `${isOpen ? "L" : "M"}${(118 * (1 - ago / SECONDS)).toFixed(1)},${(19 - 18 * rate / most).toFixed(1)}`;
    isOpen = true;
  }
  return path;
}

export function streamsView(soon, text) {
  if (text !== null) asked.text = text;
  const search = make("input", { type: "search", placeholder: "Filter  ( / )", "aria-label": "Filter streams by name", value: asked.text, spellcheck: "false", autocomplete: "off" });
  const sums = make("span", { class: "quiet", role: "status" });
  const above = make("tr", { "aria-hidden": "true" }, make("td"));
  const below = make("tr", { "aria-hidden": "true" }, make("td"));
  const heads = COLUMNS.map(([name, title, kind]) => {
    const inner = name === "curve" ? title : make("button", { type: "button", onclick: () => sortBy(name) }, title);
    return make("th", { scope: "col", class: `${kind} c-${name}`, "data-column": name }, inner);
  });
  const body = make("tbody", {}, above, below);
  const grid = make("table", {}, make("caption", { class: "only-read" }, "Streams"), make("thead", {}, make("tr", {}, ...heads)), body);
  const box = make("div", { class: "scroll", tabindex: "-1" }, grid);
  const empty = make("p", { class: "empty", hidden: true });
  const statement = sql(...listsOf([]));
  const element = make("div", {}, make("div", { class: "bar" }, make("h1", {}, "Streams"), search, make("span", { class: "space" }), sums), make("div", { class: "panel streams" }, box), statement.element, empty);
  const lines = new Map();
  let begin = 0, waiting = null;

  function sortBy(name) {
    asked.descending = asked.sort === name ? !asked.descending : name !== "table";
    asked.sort = name;
    box.scrollTop = 0;
    soon();
  }
  const inView = () => Math.max(8, Math.ceil(box.clientHeight / height())) + 2 * MARGIN;
  search.addEventListener("input", () => { asked.text = search.value; box.scrollTop = 0; soon(); });
  box.addEventListener("scroll", () => {
    const wanted = Math.max(0, Math.floor(box.scrollTop / height()) - MARGIN);
    if (Math.abs(wanted - begin) < MARGIN / 2) return;
    clearTimeout(waiting);
    waiting = setTimeout(soon, 60);
  });
  body.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = event.target.closest("tr.line");
    if (!step || !line) return;
    event.preventDefault();
    const next = step > 0 ? line.nextElementSibling : line.previousElementSibling;
    if (next && next.classList.contains("line")) {
      next.querySelector("a").focus({ preventScroll: true });
      const top = (Number(next.getAttribute("aria-rowindex")) - 2) * height(), sight = box.clientHeight - 2 * height();
      if (top < box.scrollTop) box.scrollTop = top; else if (top > box.scrollTop + sight) box.scrollTop = top - sight;
    }
  });
  search.addEventListener("keydown", (event) => {
    const first = body.querySelector("tr.line a");
    if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
  });

  function line(stream) {
    const cells = Object.fromEntries(COLUMNS.map(([name, , kind]) => [name, make("td", { class: `${kind} c-${name}`, "data-label": LABELS[name] || null })]));
    const link = make("a", { href: nameOf(stream) });
    cells.table.append(link);
    const curve = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    curve.setAttribute("class", "spark"); curve.setAttribute("viewBox", "0 0 118 20"); curve.setAttribute("aria-hidden", "true"); curve.setAttribute("preserveAspectRatio", "none");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    curve.append(path); cells.curve.append(curve);
    const row = make("tr", { class: "line" }, ...COLUMNS.map(([name]) => cells[name]));
    return { row, cells, link, path };
  }

  function show(one, found, now, place) {
    const { row, cells, link, path } = found;
    link.textContent = one.table;
    row.setAttribute("aria-rowindex", place + 2);
    row.title = one.error || "";
    cells.bytes_in.textContent = one.error ? "error" : perSecond(one.bytes_in, "B");
    cells.events_in.textContent = perSecond(one.events_in, "");
    for (const rate of ["bytes_in", "events_in"]) cells[rate].classList.toggle("quiet", !one[rate]);
    cells.bytes_out.textContent = perSecond(one.bytes_out, "B");
    cells.bytes.textContent = bytes(one.bytes);
    cells.rows.textContent = whole(one.rows);
    cells.rows.title = one.rows === null ? "They would have to be counted: others write to it, or it was truncated" : "";
    cells.segments.textContent = one.segments || (one.error ? "–" : "sealed");
    cells.version.textContent = one.version || "–";
    cells.committed_at.textContent = ago(one.committed_at, now);
    path.setAttribute("d", curvePath(one.curve));
  }

  async function look() {
    const first = Math.max(0, Math.floor(box.scrollTop / height()) - MARGIN);
    const answer = await ask("streams", { sort: asked.sort, order: asked.descending ? "descending" : "ascending", text: asked.text, begin: first, count: inView() });
    const focused = document.activeElement && document.activeElement.closest ? document.activeElement.closest("tr.line") : null;
    begin = answer.begin;
    const there = new Set(answer.lines.map((one) => one.stream));
    for (const [stream, found] of lines) if (!there.has(stream)) { found.row.remove(); lines.delete(stream); }
    answer.lines.forEach((one, number) => {
      if (!lines.has(one.stream)) lines.set(one.stream, line(one.stream));
      const found = lines.get(one.stream), place = body.children[number + 1];
      show(one, found, answer.at, answer.begin + number);
      if (place !== found.row) body.insertBefore(found.row, place);
    });
    if (focused && focused.isConnected && document.activeElement === document.body) focused.querySelector("a").focus({ preventScroll: true });
    above.firstChild.style.height = `${answer.begin * height()}px`; above.hidden = answer.begin === 0;
    const rest = Math.max(0, answer.matching - answer.begin - answer.lines.length);
    below.firstChild.style.height = `${rest * height()}px`; below.hidden = rest === 0;
    grid.setAttribute("aria-rowcount", answer.matching + 1);
    for (const head of heads) {
      if (head.dataset.column === asked.sort) head.setAttribute("aria-sort", asked.descending ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
    }
    const count = answer.matching === answer.total ? whole(answer.total) : `${whole(answer.matching)} of ${whole(answer.total)}`;
    sums.textContent = `${count} stream${answer.total === 1 ? "" : "s"} · in ${perSecond(answer.bytes_in, "B")} · ${measure(answer.events_in, "")} events/s`;
    statement.set(...listsOf([...new Set(answer.lines.map((one) => one.table.split(".")[0]))]));
    empty.hidden = answer.matching > 0;
    empty.textContent = answer.total ? "No stream has such a name." : "There are no streams yet: CREATE TABLE makes one.";
  }
  return { element, look, every: 2000, title: "Streams", search: () => search.focus(), close: () => clearTimeout(waiting) };
}
