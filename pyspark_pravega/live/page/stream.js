// One stream: figures, segments, rates, commits, rows, what is open, who reads and needs it, and its schemas.
import { ratesChart, rateCurves } from "./charts.js";
import { commitsPanels } from "./commits.js";
import { lastRate, segmentName, segmentsPicture } from "./pictures.js";
import { links, outlookOf, waits } from "./queries.js";
import { rowsPanel } from "./rows.js";
import { ago, ask, brief, bytes, fill, lasting, literal, make, moment, nameOf, panel, perSecond, several, sql, sqlName, table, whole } from "./values.js";

const RANGES = [["5 min", 300e3], ["1 h", 3600e3], ["24 h", 86400e3], ["all", 0]];
const KEPT = 600, SLOW = 5;

function facts(names) {
  const cells = names.map((name) => [make("dt", {}, name), make("dd", {}, "–")]);
  return { element: make("dl", { class: "facts" }, ...cells.map((pair) => make("div", {}, ...pair))), set: (values) => values.forEach((text, number) => { const cell = cells[number][1]; if (cell.textContent !== text) cell.textContent = text; }) };
}

function segmentsPanel(picture) {
  const ranges = make("span", { role: "group", "aria-label": "Time shown" });
  for (const [text, span] of RANGES) ranges.append(make("button", { type: "button", "aria-pressed": String(span === 3600e3), onclick: (event) => { for (const one of ranges.children) one.setAttribute("aria-pressed", String(one === event.target)); picture.range(span); } }, text), " ");
  const { element, head } = panel("Segments: key ranges over time", "w12", picture.element);
  head.append(make("span", { class: "space" }), picture.legend, ranges);
  const list = table("Segments", ["Segment", "Keys", "Made", "Ended", "Bytes", "Rate", "Followed by"], [4, 5]);
  const hidden = make("p", { class: "empty small", hidden: true }), statement = sql("");
  element.append(make("details", {}, make("summary", {}, "Segments as a table"), list.box), hidden, statement.element);
  return {
    element,
    show(answer) {
      picture.show(answer);
      fill(list.body, answer.segments.slice().reverse().map((one) => [segmentName(one), `${one.min_key.toFixed(4)} to ${one.max_key.toFixed(4)}`, moment(one.made_at), one.ended_at === null ? (one.sealed ? "sealed" : "") : moment(one.ended_at), bytes(one.end_offset - one.start_offset), perSecond(lastRate(one, answer.at), "B"), one.successors.map((id) => String(id % 4294967296)).join(", ")]), [4, 5]);
      hidden.hidden = !answer.hidden;
      hidden.textContent = `${whole(answer.hidden)} older segments aren't shown.`;
      statement.set(`SELECT * FROM ${sqlName(answer.line.table, "segments")};`);
    },
  };
}

function schemaPanels() {
  const columns = panel("Columns", "w5"), versions = panel("Schema versions", "w7"), statement = sql("");
  const region = (name) => make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name });
  const columnList = region("Columns"), versionList = region("Schema versions");
  columns.element.append(columnList, statement.element); versions.element.append(versionList);
  const kinds = { "+": "plus", "-": "minus", "~": "tilde" }, opened = new Set();
  const difference = (one) => (one.difference.length ? [make("details", { open: opened.has(one.version), ontoggle: (event) => { if (event.target.open) opened.add(one.version); else opened.delete(one.version); } }, make("summary", {}, "Its text, line by line"), make("pre", { class: "diff" }, ...one.difference.map((line) => make("span", { class: kinds[line[0]] || "quiet" }, `${line}\n`))))] : []);
  function show(answer, name) {
    statement.set(`DESCRIBE TABLE EXTENDED ${sqlName(name)};`, `SHOW CREATE TABLE ${sqlName(name)};`);
    const lines = answer.columns.map((one) => make("tr", {}, make("td", {}, one.name), make("td", { class: "mono" }, one.type + (one.nullable ? "" : " NOT NULL")), make("td", { class: "wrap quiet" }, one.comment)));
    const properties = Object.entries(answer.properties).map(([key, text]) => make("tr", {}, make("td", { class: "quiet" }, key), make("td", { class: "mono wrap", colspan: "2" }, text)));
    columnList.replaceChildren(make("table", {}, make("caption", { class: "only-read" }, "Columns and properties"), make("tbody", {}, ...lines, ...properties)));
    if (answer.format === "raw") columnList.prepend(make("p", { class: "small quiet" }, "Raw events: no schema is known of them, so each is a row of one column."));
    if (answer.error) columnList.replaceChildren(make("p", { class: "error" }, answer.error));
    const found = answer.versions.slice().reverse().map((one) => make("tr", {}, make("td", { class: "n" }, String(one.version)), make("td", {}, moment(one.added_at)), make("td", {}, one.format),
      make("td", { class: "wrap" }, make("ul", { class: "changes" }, ...one.changes.map((change) => make("li", { class: kinds[change[0]] || "" }, change)), ...(one.changes.length ? [] : [make("li", {}, "the same columns")])), ...difference(one))));
    const heads = make("tr", {}, ...["Version", "Added", "Format", "What changed"].map((text) => make("th", { scope: "col" }, text)));
    versionList.replaceChildren(found.length ? make("table", {}, make("caption", { class: "only-read" }, "Schema versions"), make("thead", {}, heads), make("tbody", {}, ...found)) : make("p", { class: "empty" }, "The schema registry has none: the events are raw, or their format needs none."));
  }
  return { columns, versions, show };
}

function openPanels() {
  const open = panel("Open jobs and transactions", "w6"), queries = panel("Queries", "w6"), retention = panel("Retention", "w6"), needs = panel("Subscribers, cuts, dead letters", "w6");
  const lists = [open, queries, retention, needs].map((one) => { const list = make("div"); one.element.append(list); return list; });
  const [openList, queryList, retentionText, needsList] = lists, statement = sql("");
  needs.element.append(statement.element);
  const line = (...parts) => make("p", { class: "small" }, ...parts);
  function show(answer) {
    const jobs = answer.jobs.map((job) => make("div", {},
      make("span", { class: `tag ${job.committing ? "good" : "warm"}` }, job.committing ? "committing" : job.job ? "writing" : "ending"), " ",
      make("span", { class: "mono" }, job.job || "job"), make("span", { class: "quiet" }, ` since ${moment(job.since)}`),
      ...job.transactions.map(([id, state]) => make("div", { class: "mono quiet" }, `${id} ${state.toLowerCase()}`))));
    openList.replaceChildren(...(jobs.length ? jobs : [make("p", { class: "empty" }, "No job is open. Transactions that other programs have open can't be listed.")]));
    const readers = answer.readers.map((one) => { const [tag, outlook] = outlookOf(one); return line(make("span", { class: "tag" }, "reads"), " ", make("a", { href: "#/queries" }, one.name), ...(one.targets.length ? [" into ", ...links(one.targets)] : []), ` · batch ${one.batch} · ${bytes(one.bytes_behind)} and about ${several(one.events_behind, "event")} behind `, tag, make("span", { class: "quiet" }, ` ${[outlook, waits(one.waits_since, answer.at)].filter(Boolean).join(", ")}`)); });
    const writers = answer.queries.map((one) => line(make("span", { class: "tag" }, "writes"), " ", answer.names[one.query] ? make("a", { href: "#/queries" }, answer.names[one.query]) : make("span", { class: "mono", title: one.query }, brief(one.query)), ` · epoch ${one.epoch}, ${ago(one.at, answer.at)}`));
    queryList.replaceChildren(...(readers.length || writers.length ? [...readers, ...writers] : [make("p", { class: "empty" }, "No streaming query is known. Start the page with --checkpoint to see those that read.")]));
    const next = answer.retention, says = [];
    if (!next) says.push("Everything is kept.");
    else {
      says.push(`Kept: ${next.policy}.`);
      if (next.versions) says.push(`Next to be truncated: versions ${next.versions[0]} to ${next.versions[1]}, committed until ${moment(next.until)}, about ${bytes(next.bytes)}.`);
      else if (next.bytes) says.push(`Next to be truncated: about ${bytes(next.bytes)}.`);
      else if (!next.due) says.push("Nothing is due.");
      if (next.due) says.push(`To be removed: ${next.due}.`);
    }
    retentionText.replaceChildren(...says.map((text) => line(text)));
  }
  function showNeeds(answer, shownLine, now) {
    const found = [
      ...answer.subscribers.map((one) => line(make("span", { class: "tag" }, "subscriber"), " ", make("span", { class: "mono" }, one.name), one.version === null ? " keeps retention from removing what it hasn't read" : ` has read until version ${one.version}${one.behind ? `, ${whole(one.behind)} version${one.behind === 1 ? " waits" : "s wait"}${one.waits_since ? `, the oldest for ${lasting(now - one.waits_since)}` : ""}` : ", and nothing waits"}`)),
      ...answer.cuts.map((one) => line(make("span", { class: "tag" }, "cut"), " ", make("span", { class: "mono" }, one.name), ` since ${moment(one.created_at)}`)),
      ...(answer.letters ? [line(make("span", { class: "tag" }, "dead letters"), " go into ", make("a", { href: nameOf(answer.letters.stream) }, answer.letters.table), answer.waiting_error || answer.waiting.length ? "" : ": none waits")] : []),
      ...answer.waiting.map((one) => line(make("span", { class: "tag bad" }, `${whole(one.letters)} wait${one.letters === 1 ? "s" : ""}`), ...(answer.is_letters ? [" of ", make("a", { href: nameOf(one.source) }, one.source)] : []), one.since ? `${answer.is_letters ? "," : ""} the oldest for ${lasting(now - one.since)}` : "")),
      ...(answer.waiting_error ? [line(make("span", { class: "quiet" }, `They can't be counted: ${answer.waiting_error}`))] : []),
      ...(answer.is_letters ? [line(make("span", { class: "tag warm" }, "dead letters"), " Its rows are events of other tables that couldn't be decoded, each with its reason.")] : []),
    ];
    needsList.replaceChildren(...(found.length ? found : [make("p", { class: "empty" }, "Nobody has subscribed, no cut has a name, and bad events go nowhere: the property bad-events names a table for them.")]));
    // Procedures take scope/stream, too: a name may hold dots.
    const mended = `${shownLine.stream}-mended`, statements = [`CALL pravega.system.subscribers(${literal(shownLine.stream)});`];
    if (answer.letters) {
      statements.push(`SELECT source, reason, count(*) FROM ${sqlName(answer.letters.table)} GROUP BY source, reason;`, `CREATE TABLE IF NOT EXISTS ${sqlName(`${shownLine.table}_mended`)} LIKE ${sqlName(shownLine.table)};`,
        `CALL pravega.system.redeliver(letters => ${literal(answer.letters.stream)}, source => ${literal(shownLine.stream)}, target => ${literal(mended)});`);
    }
    statement.set(...statements);
  }
  return { open, queries, retention, needs, show, showNeeds };
}

export function streamView(name, soon) {
  const shown = name.replaceAll("-", "_").replace("/", "."), title = make("h1", {}, shown), tags = make("span", { class: "tags" });
  const figures = facts(["in", "events in", "out", "stored", "rows", "segments", "version", "last commit"]);
  const picture = segmentsPicture(), rates = ratesChart(), segments = segmentsPanel(picture), commits = commitsPanels(name), rows = rowsPanel(name, soon);
  const open = openPanels(), schema = schemaPanels();
  const ratesPanel = panel("Rates", "w6", rates.element);
  const content = make("div", { hidden: true }, figures.element, make("div", { class: "grid" }, segments.element, ratesPanel.element, commits.chart.element, rows.element, commits.log.element, commits.who.element,
    open.queries.element, open.open.element, open.needs.element, open.retention.element, schema.columns.element, schema.versions.element));
  const element = make("div", {}, make("div", { class: "bar" }, make("a", { href: "#/", "aria-label": "All streams" }, "← Streams"), title, tags), content);
  const samples = new Map();
  let turns = 0;

  async function look() {
    let answer;
    try { answer = await ask("stream", { name }); } catch (problem) { if (problem.status === 404 || problem.status === 400) { content.hidden = true; tags.replaceChildren(); } throw problem; }
    content.hidden = false;
    const line = answer.line, now = answer.at;
    if (title.textContent !== line.table) title.textContent = line.table;
    figures.set([perSecond(line.bytes_in, "B"), perSecond(line.events_in, ""), perSecond(line.bytes_out, "B"), bytes(line.bytes), whole(line.rows), line.segments ? String(line.segments) : "sealed", String(line.version || "–"), ago(line.committed_at, now)]);
    segments.show(answer);
    answer.samples.forEach(([at, written, events], number) => {
      // What goes out is known of now only.
      const out = samples.has(at) ? samples.get(at)[3] : number === answer.samples.length - 1 ? line.bytes_out : null;
      samples.set(at, [at, written, events, out]);
    });
    while (samples.size > KEPT) samples.delete(samples.keys().next().value);
    rates.show(rateCurves([...samples.values()].sort((a, b) => a[0] - b[0])), `Rates: in ${perSecond(line.bytes_in, "B")}, ${perSecond(line.events_in, " events")}, out ${perSecond(line.bytes_out, "B")}`);
    commits.show(answer);
    open.show(answer);
    if (turns % SLOW === 0) showTable(await ask("table", { name }), await ask("around", { name }), line, now);
    await rows.look(line);
    turns += 1;
  }
  function showTable(answer, around, line, now) {
    schema.show(answer, line.table);
    open.showNeeds(around, line, now);
    rows.raw(answer.format === "raw");
    const words = [...(answer.format === "raw" ? ["raw events"] : answer.format ? [answer.format] : []), ...(around.key.length ? [`key ${around.key.join(", ")}`] : []), ...(around.is_letters ? ["dead letters"] : []), ...(line.segments ? [] : ["sealed"])];
    tags.replaceChildren(...words.map((text) => make("span", { class: "tag" }, text)), make("span", { class: "quiet small mono" }, ` ${line.stream}`));
  }
  const drawings = [rates, commits];
  return { element, look, every: 1000, title: shown, repaint: () => { picture.draw(); drawings.forEach((one) => one.repaint()); }, close: () => { picture.close(); rows.close(); drawings.forEach((one) => one.close()); } };
}
