// Values as people read them, and elements made of them. Text of users only ever becomes text: nothing here takes HTML.

const UNITS = ["", "k", "M", "G", "T", "P"];

/** A number in about three digits: 1234567 is 1.23M. */
export function short(number) {
  if (number === null || number === undefined) return "–";
  if (number > 0 && number < 0.05) return "< 0.1";
  let power = 0;
  while (Math.abs(number) >= 999.5 && power < UNITS.length - 1) { number /= 1000; power += 1; }
  const digits = power === 0 && Number.isInteger(number) ? 0 : Math.max(0, (power ? 3 : 2) - String(Math.trunc(Math.abs(number))).length);
  return number.toFixed(digits) + UNITS[power];
}

/** A number of things: about 1.23M events. */
export const several = (number, what) => `${short(number)} ${what}${number === 1 ? "" : "s"}`;

/** The same with a unit, its prefix beside it: 1.23 kB. */
export function measure(number, unit) {
  if (number === null || number === undefined) return "–";
  const text = short(number), prefix = /[A-Z]$/i.test(text) ? text.slice(-1) : "";
  return `${prefix ? text.slice(0, -1) : text}${unit || !prefix ? "\u202f" : ""}${prefix}${unit}`.trimEnd();
}

export const bytes = (number) => measure(number, "B");
export const perSecond = (number, unit) => (number === null || number === undefined ? "–" : `${measure(number, unit)}/s`);
export const whole = (number) => (number === null || number === undefined ? "?" : number.toLocaleString("en-US"));

const two = (number) => String(number).padStart(2, "0");

/** A moment of today as a time, others with their day. */
export function moment(milliseconds) {
  if (!milliseconds) return "–";
  const at = new Date(milliseconds), now = new Date();
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return at.toDateString() === now.toDateString() ? time : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** How long ago, in words. */
export function ago(milliseconds, now) {
  if (!milliseconds) return "–";
  const seconds = Math.max(0, (now - milliseconds) / 1000);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
}

/** A length of time in words. */
export function lasting(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 90e3) return `${(milliseconds / 1000).toFixed(1)} s`;
  if (milliseconds < 5400e3) return `${Math.round(milliseconds / 60e3)} min`;
  return milliseconds < 129600e3 ? `${Math.round(milliseconds / 3600e3)} h` : `${Math.round(milliseconds / 86400e3)} days`;
}

/** An element with attributes and children; texts become text nodes. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A table's body anew. Rows are lists of texts or elements; columns say which are numbers. */
export function fill(body, rows, numbers = []) {
  body.replaceChildren(...rows.map((row) => make("tr", {}, ...row.map((cell, place) => make("td", { class: numbers.includes(place) ? "n" : null }, cell)))));
}

/** A table with a name for screen readers, within a box that scrolls. */
export function table(name, heads, numbers = []) {
  const body = make("tbody");
  const head = make("thead", {}, make("tr", {}, ...heads.map((text, place) => make("th", { scope: "col", class: numbers.includes(place) ? "n" : null }, text))));
  const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, make("table", {}, make("caption", { class: "only-read" }, name), head, body));
  return { box, body };
}

export function panel(title, width, ...children) {
  const head = make("div", { class: "head" }, make("h2", {}, title));
  return { element: make("section", { class: `panel ${width}`, "aria-label": title }, head, ...children), head };
}

/** What the server answers; an error with its sentence where it doesn't. */
export async function ask(path, query = {}) {
  let answer;
  try {
    answer = await fetch(`api/${path}?${new URLSearchParams(query)}`);
  } catch {
    throw new Error("pravega-spark ui doesn't answer: it has ended, or this machine is busy");
  }
  const content = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(content.error || `the server answered ${answer.status}`), { status: answer.status });
  return content;
}

/** What shows SQL that gives the same as a view, and copies it. */
export const sql = (...statements) => copyable("SQL", ...statements);

/** Lines to copy, behind a name. */
export function copyable(name, ...statements) {
  const code = make("code", {}, statements.join("\n"));
  const copied = make("span", { class: "quiet small", role: "status" });
  const copy = make("button", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(code.textContent); copied.textContent = "copied"; } catch { getSelection().selectAllChildren(code); copied.textContent = "selected: copy it with the keyboard"; }
    setTimeout(() => { copied.textContent = ""; }, 3000);
  } }, "Copy");
  const element = make("details", { class: "sql" }, make("summary", {}, name), make("pre", {}, code), copy, " ", copied);
  return { element, set: (...lines) => { const text = lines.join("\n"); if (code.textContent !== text) code.textContent = text; } };
}

/** A name as SQL takes it: in backticks where it holds more than letters, digits and _. */
export const quoted = (name) => (/^[a-z_]\w*$/i.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);
/** A table's name in SQL, within the catalog; with a metadata table's behind it. */
export const sqlName = (table, kind = "") => {
  const place = table.indexOf("."), [namespace, name] = [table.slice(0, place), table.slice(place + 1)];
  return `pravega.${quoted(namespace)}.${quoted(kind ? `${name}$${kind}` : name)}`;
};
/** Statements that list the tables of some namespaces, of the first ones where there are many. */
export const listsOf = (namespaces) => ["SHOW NAMESPACES IN pravega;", ...namespaces.slice(0, 3).map((name) => `SHOW TABLES IN pravega.${quoted(name)};`)];
/** A text as SQL takes it. */
export const literal = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
/** The first part of an id that is long. */
export const brief = (id) => (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) ? id.slice(0, 8) : id);

export const nameOf = (stream) => `#/stream/${stream.split("/").map(encodeURIComponent).join("/")}`;
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
