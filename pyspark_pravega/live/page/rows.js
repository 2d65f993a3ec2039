// Rows of a table: the last ones, or those of a version or time, with a filter; and what a version has changed.
import { ask, literal, make, panel, quoted, sql, sqlName, whole } from "./values.js";

const cellsOf = (row) => row.map((cell) => (cell === null ? make("td", { class: "null" }, "NULL") : make("td", { title: cell.length > 40 ? cell : null }, cell)));
const region = (name) => make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name });

/** A table of rows, with a name for screen readers. */
export function rowTable(name, columns, rows) {
  const head = make("tr", {}, ...columns.map((column) => make("th", { scope: "col" }, column)));
  return make("table", { class: "rows" }, make("caption", { class: "only-read" }, name), make("thead", {}, head), make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cellsOf(row)))));
}

export function rowsPanel(name, soon) {
  const list = region("Last rows"), note = make("span", { class: "quiet small" });
  const column = make("select", { "aria-label": "Column of the filter", onchange: changed }, make("option", { value: "" }, "any column"));
  const text = (label, placeholder) => make("input", { type: "text", "aria-label": label, placeholder, spellcheck: "false", autocomplete: "off", oninput: changed });
  const value = text("Filter rows by a value", "value, * for any text"), moment = text("Version or time", "version, cut or time");
  const follow = make("button", { type: "button", "aria-pressed": "true", onclick: () => { follow.setAttribute("aria-pressed", String(follow.getAttribute("aria-pressed") !== "true")); if (isFollowing()) soon(); } }, "Follow");
  const log = make("button", { type: "button", "aria-pressed": "false", hidden: true, title: "The events of this table with a key: a row for each change", onclick: () => { log.setAttribute("aria-pressed", String(!isLog())); rowsOf = -1; soon(); } }, "Log");
  const isLog = () => log.getAttribute("aria-pressed") === "true";
  const statement = sql(`SELECT * FROM ${sqlName(name.replaceAll("-", "_").replace("/", "."))} LIMIT 20;`);
  const { element, head } = panel("Last rows", "w12", make("div", { class: "bar filter" }, column, value, moment, make("span", { class: "space" }), log, follow), list, statement.element);
  head.append(note);
  const title = head.querySelector("h2");
  let shown = "", rowsOf = -1, turn = 0, waiting = null, asked = "", isRaw = false;

  const isFollowing = () => follow.getAttribute("aria-pressed") === "true";
  const isTime = (words) => /^\d{4}-\d\d-\d\d|^\d{13}$/.test(words);
  function changed() { clearTimeout(waiting); waiting = setTimeout(() => { rowsOf = -1; soon(); }, 300); }
  function query() {
    const words = moment.value.trim();
    return { name, count: 20, ...(isLog() && !words && !value.value ? { log: "true" } : {}), ...(words ? { [isTime(words) ? "time" : "version"]: words } : {}), ...(value.value ? { value: value.value, column: column.value } : {}) };
  }
  function statementOf(table, columns) {
    const words = moment.value.trim(), one = column.value, given = value.value;
    const when = !words ? "" : isTime(words) ? ` TIMESTAMP AS OF ${literal(/^\d+$/.test(words) ? new Date(Number(words)).toISOString() : words)}` : ` VERSION AS OF ${/^\d+$/.test(words) ? words : literal(words)}`;
    const pattern = given.replaceAll("_", "\\_").replaceAll("%", "\\%").replaceAll("*", "%");
    const test = (name) => (one && !given.includes("*") ? `${quoted(name)} = ${literal(given)}` : `CAST(${quoted(name)} AS STRING) LIKE ${literal(one ? pattern : `%${pattern}%`)}`);
    const where = given && columns.length ? ` WHERE ${(one ? [one] : columns).map(test).join(" OR ")}` : "";
    return `SELECT * FROM ${sqlName(table, isLog() && !words && !given ? "log" : "")}${when}${where} LIMIT 20;`;
  }
  function show(answer, table) {
    const text = JSON.stringify([answer, asked]);
    if (text === shown) return;
    shown = text;
    const isSearch = answer.searched !== undefined;
    if (!isSearch) log.hidden = !answer.keyed;
    title.textContent = isSearch ? "Rows" : "Last rows";
    if (answer.columns.length && column.options.length !== answer.columns.length + 1) {
      const chosen = column.value;
      column.replaceChildren(make("option", { value: "" }, "any column"), ...answer.columns.map((one) => make("option", { value: one }, one)));
      column.value = answer.columns.includes(chosen) ? chosen : "";
    }
    // Where rows can't be shown the columns are those of before.
    statement.set(statementOf(table, [...column.options].slice(1).map((one) => one.value)));
    if (answer.error) { note.textContent = ""; list.replaceChildren(make("p", { class: "error" }, answer.error)); return; }
    const words = [];
    if (isSearch) words.push(`${whole(answer.matching)} of ${whole(answer.searched)} rows${value.value ? " match" : ""}`, answer.moment === "now" ? "as it is now" : `as of ${answer.moment}`);
    else if (answer.version) words.push(`of version ${answer.version}`);
    if (answer.is_part) words.push("older rows weren't gone through");
    if (isRaw) words.push("raw events: text where they are some, else hexadecimal digits");
    note.textContent = words.join(" · ");
    list.replaceChildren(rowTable("Last rows, the last one first", answer.columns, answer.rows.slice().reverse()));
    if (!answer.rows.length) list.append(make("p", { class: "empty" }, isSearch && answer.searched ? "No row matches." : "There are no rows."));
  }
  return {
    element,
    raw(yes) { isRaw = yes; },
    async look(line) {
      turn += 1;
      const wanted = query(), key = JSON.stringify(wanted), isOther = key !== asked;
      if (!isOther && !isFollowing()) return;
      const isSearch = Boolean(wanted.version || wanted.time || wanted.value);
      if (!isOther && (wanted.version || (turn % (isSearch ? 4 : 2) !== 0 || rowsOf === line.written_bytes) && turn % 20 !== 0)) return;
      asked = key; rowsOf = line.written_bytes;
      list.setAttribute("aria-busy", "true");
      try { show(await ask("rows", wanted), line.table); } finally { list.removeAttribute("aria-busy"); }
    },
    close: () => clearTimeout(waiting),
  };
}

/** What a version has changed, row by row. */
export function changesView(name) {
  const title = make("h2", {}), note = make("p", { class: "small quiet" }), box = region("What the version changed"), statement = sql("");
  const element = make("div", { class: "changed", hidden: true }, make("div", { class: "bar" }, title, make("span", { class: "space" }), make("button", { type: "button", onclick: () => { element.hidden = true; } }, "Close")), note, box, statement.element);
  const kinds = { insert: ["plus", "+ insert"], update: ["tilde", "~ update"], delete: ["minus", "- delete"] };
  async function open(version, table) {
    element.hidden = false;
    title.textContent = `What version ${version} changed`;
    note.textContent = "Reading it…";
    box.replaceChildren();
    statement.set(`SELECT * FROM ${sqlName(table)} CHANGES FROM VERSION ${version} TO VERSION ${version};`, `-- before Spark 4.2: SELECT * FROM ${sqlName(table, "changes")} WHERE _commit_version = ${version};`);
    element.scrollIntoView({ block: "nearest" });
    const answer = await ask("changes", { name, version });
    if (answer.error) { note.textContent = ""; box.replaceChildren(make("p", { class: "error" }, answer.error)); return; }
    const { insert, update, delete: gone } = answer.counts;
    note.textContent = `${whole(insert)} inserted, ${whole(update)} updated, ${whole(gone)} deleted` + (answer.changes.length < insert + update + gone ? `; the first ${answer.changes.length} are shown` : "");
    const body = answer.changes.map((one) => make("tr", {}, make("td", { class: kinds[one.type][0] }, kinds[one.type][1]), ...one.cells.map((cell, place) => {
      const before = one.before ? one.before[place] : cell, text = (words) => (words === null ? "NULL" : words);
      return before === cell ? cellsOf([cell])[0] : make("td", {}, make("del", {}, text(before)), " → ", make("ins", {}, text(cell)));
    })));
    const head = make("tr", {}, ...["", ...answer.columns].map((one) => make("th", { scope: "col" }, one || "change")));
    box.replaceChildren(make("table", { class: "rows" }, make("caption", { class: "only-read" }, title.textContent), make("thead", {}, head), make("tbody", {}, ...body)));
  }
  return { element, open };
}
