// One stream, and the streaming queries.
import { commitsChart, lastRate, ratesChart, segmentName, segmentsPicture } from "./pictures.js";
import { ago, ask, bytes, fill, lasting, make, measure, moment, nameOf, panel, perSecond, table, whole } from "./values.js";

const RANGES = [["5 min", 300e3], ["1 h", 3600e3], ["24 h", 86400e3], ["all", 0]];
const KEPT = 600, SLOW = 5;

function facts(names) {
  const cells = names.map((name) => [make("dt", {}, name), make("dd", {}, "–")]);
  return { element: make("dl", { class: "facts" }, ...cells.map((pair) => make("div", {}, ...pair))), set: (values) => values.forEach((text, number) => { const cell = cells[number][1]; if (cell.textContent !== text) cell.textContent = text; }) };
}

export function streamView(name) {
  const shown = name.replaceAll("-", "_").replace("/", ".");
  const title = make("h1", {}, shown);
  const figures = facts(["in", "events in", "out", "stored", "rows", "segments", "version", "last commit"]);
  const picture = segmentsPicture(), rates = ratesChart(), commits = commitsChart();
  const ranges = make("span", { role: "group", "aria-label": "Time shown" });
  for (const [text, span] of RANGES) ranges.append(make("button", { type: "button", "aria-pressed": String(span === 3600e3), onclick: (event) => { for (const one of ranges.children) one.setAttribute("aria-pressed", String(one === event.target)); picture.range(span); } }, text), " ");
  const segments = panel("Segments: key ranges over time", "w12", picture.element);
  segments.head.append(make("span", { class: "space" }), picture.legend, ranges);
  const segmentTable = table("Segments", ["Segment", "Keys", "Made", "Ended", "Bytes", "Rate", "Followed by"], [4, 5]);
  segments.element.append(make("details", {}, make("summary", {}, "Segments as a table"), segmentTable.box));
  const hidden = make("p", { class: "empty small", hidden: true });
  segments.element.append(hidden);
  const ratesPanel = panel("Rates", "w6", rates.element);
  const commitsPanel = panel("Commits", "w6", commits.element);
  const commitTable = table("Commits, the last one first", ["Version", "Committed", "Rows", "Bytes", "Took", "Written by"], [0, 2, 3, 4]);
  const commitList = panel("Commits, the last one first", "w7", commitTable.box);
  const open = panel("Open jobs and transactions", "w5"), openList = make("div");
  open.element.append(openList);
  const queryPanel = panel("Queries", "w6"), queryList = make("div");
  queryPanel.element.append(queryList);
  const retention = panel("Retention", "w6"), retentionText = make("div");
  retention.element.append(retentionText);
  const rowsTable = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Last rows" });
  const rowsPanel = panel("Last rows", "w12", rowsTable), rowsNote = make("span", { class: "quiet small" });
  const logButton = make("button", { type: "button", "aria-pressed": "false", hidden: "" }, "Log");
  logButton.title = "The events of this table with a key: a row for each change";
  logButton.addEventListener("click", () => {
    logButton.setAttribute("aria-pressed", String(logButton.getAttribute("aria-pressed") !== "true"));
    askRows();
  });
  rowsPanel.head.append(rowsNote, logButton);
  const schema = panel("Columns", "w5"), versions = panel("Schema versions", "w7");
  const schemaList = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Columns" }), versionList = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Schema versions" });
  schema.element.append(schemaList); versions.element.append(versionList);
  const element = make("div", {}, make("div", { class: "bar" }, make("a", { href: "#/", "aria-label": "All streams" }, "← Streams"), title), figures.element,
    make("div", { class: "grid" }, segments.element, ratesPanel.element, commitsPanel.element, rowsPanel.element, commitList.element, open.element, queryPanel.element, retention.element, schema.element, versions.element));
  const samples = new Map();
  let turns = 0, lastRows = "", rowsOf = -1;

  async function look() {
    const answer = await ask("stream", { name });
    const line = answer.line, now = answer.at;
    if (title.textContent !== line.table) title.textContent = line.table;
    figures.set([perSecond(line.bytes_in, "B"), perSecond(line.events_in, ""), perSecond(line.bytes_out, "B"), bytes(line.bytes), whole(line.rows), line.segments ? String(line.segments) : "sealed", String(line.version || "–"), ago(line.committed_at, now)]);
    picture.show(answer);
    fill(segmentTable.body, answer.segments.slice().reverse().map((one) => [segmentName(one), `${one.min_key.toFixed(4)} to ${one.max_key.toFixed(4)}`, moment(one.made_at), one.ended_at === null ? (one.sealed ? "sealed" : "") : moment(one.ended_at), bytes(one.end_offset - one.start_offset), perSecond(lastRate(one, now), "B"), one.successors.map((id) => String(id % 4294967296)).join(", ")]), [4, 5]);
    hidden.hidden = !answer.hidden;
    hidden.textContent = `${whole(answer.hidden)} older segments aren't shown.`;
    for (const [at, written, events] of answer.samples) samples.set(at, [written, events, samples.has(at) ? samples.get(at)[2] : line.bytes_out]);
    while (samples.size > KEPT) samples.delete(samples.keys().next().value);
    const times = [...samples.keys()].sort((a, b) => a - b), curves = [[], [], [], []];
    for (let number = 1; number < times.length; number += 1) {
      const [before, after] = [samples.get(times[number - 1]), samples.get(times[number])], seconds = (times[number] - times[number - 1]) / 1000;
      curves[0].push(times[number] / 1000); curves[1].push((after[0] - before[0]) / seconds); curves[2].push(after[2]); curves[3].push((after[1] - before[1]) / seconds);
    }
    rates.show(curves, `Rates: in ${perSecond(line.bytes_in, "B")}, ${perSecond(line.events_in, " events")}, out ${perSecond(line.bytes_out, "B")}`);
    showCommits(answer);
    showOpen(answer);
    if (turns % SLOW === 0) showTable(await ask("table", { name }));
    if (turns % (2 * SLOW) === 0 || (turns % 2 === 0 && rowsOf !== line.written_bytes)) {
      rowsOf = line.written_bytes;
      await askRows();
    }
    turns += 1;
  }

  async function askRows() {
    const log = logButton.getAttribute("aria-pressed");
    const answer = await ask("rows", { name, count: 20, log });
    if (log === logButton.getAttribute("aria-pressed")) showRows(answer);
  }

  function showCommits(answer) {
    const found = answer.commits;
    commits.show([found.map((one) => one.committed_at / 1000), found.map((one) => one.rows), found.map((one) => one.milliseconds)], `Commits: ${found.length} shown, the last one of ${found.length ? whole(found[found.length - 1].rows) : 0} rows`);
    fill(commitTable.body, found.slice().reverse().map((one) => [String(one.version), moment(one.committed_at), whole(one.rows), bytes(one.bytes), lasting(one.milliseconds), one.writer + (one.replaces ? " (replaced the table)" : "")]), [0, 2, 3, 4]);
  }

  function showOpen(answer) {
    const jobs = answer.jobs.map((job) => make("div", {},
      make("span", { class: `tag ${job.committing ? "good" : "warm"}` }, job.committing ? "committing" : job.job ? "writing" : "ending"), " ",
      make("span", { class: "mono" }, job.job || "job"), make("span", { class: "quiet" }, ` since ${moment(job.since)}`),
      ...job.transactions.map(([id, state]) => make("div", { class: "mono quiet" }, `${id} ${state.toLowerCase()}`))));
    openList.replaceChildren(...(jobs.length ? jobs : [make("p", { class: "empty" }, "No job is open. Transactions that other programs have open can't be listed.")]));
    const readers = answer.readers.map((one) => make("p", { class: "small" }, make("span", { class: "tag" }, "reads"), " ", make("span", { class: "mono" }, one.query || one.checkpoint), ` batch ${one.batch}, ${bytes(one.bytes_behind)} and about ${whole(one.events_behind)} events behind`));
    const writers = answer.queries.map((one) => make("p", { class: "small" }, make("span", { class: "tag" }, "writes"), " ", make("span", { class: "mono" }, one.query), ` epoch ${one.epoch}, ${ago(one.at, answer.at)}`));
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
    retentionText.replaceChildren(...says.map((text) => make("p", { class: "small" }, text)));
  }

  function showRows(answer) {
    const text = JSON.stringify(answer);
    if (text === lastRows) return;
    lastRows = text;
    logButton.hidden = !answer.keyed;
    rowsNote.textContent = answer.error ? "" : answer.version ? `of version ${answer.version}` : "";
    if (answer.error) { rowsTable.replaceChildren(make("p", { class: "error" }, answer.error)); return; }
    const head = make("tr", {}, ...answer.columns.map((column) => make("th", { scope: "col" }, column)));
    const body = answer.rows.slice().reverse().map((row) => make("tr", {}, ...row.map((cell) => (cell === null ? make("td", { class: "null" }, "NULL") : make("td", { title: cell.length > 40 ? cell : null }, cell)))));
    rowsTable.replaceChildren(make("table", { class: "rows" }, make("caption", { class: "only-read" }, "Last rows, the last one first"), make("thead", {}, head), make("tbody", {}, ...body)));
    if (!answer.rows.length) rowsTable.append(make("p", { class: "empty" }, "There are no rows."));
  }

  function showTable(answer) {
    const columns = answer.columns.map((one) => make("tr", {}, make("td", {}, one.name), make("td", { class: "mono" }, one.type + (one.nullable ? "" : " NOT NULL")), make("td", { class: "wrap quiet" }, one.comment)));
    const properties = Object.entries(answer.properties).map(([key, text]) => make("tr", {}, make("td", { class: "quiet" }, key), make("td", { class: "mono wrap", colspan: "2" }, text)));
    schemaList.replaceChildren(make("table", {}, make("caption", { class: "only-read" }, "Columns and properties"), make("tbody", {}, ...columns, ...properties)));
    if (answer.error) schemaList.replaceChildren(make("p", { class: "error" }, answer.error));
    const kinds = { "+": "plus", "-": "minus", "~": "tilde" };
    const found = answer.versions.slice().reverse().map((one) => make("tr", {}, make("td", { class: "n" }, String(one.version)), make("td", {}, moment(one.added_at)), make("td", {}, one.format),
      make("td", { class: "wrap" }, make("ul", { class: "changes" }, ...one.changes.map((change) => make("li", { class: kinds[change[0]] || "" }, change)), ...(one.changes.length ? [] : [make("li", {}, "the same columns")])))));
    const heads = make("tr", {}, ...["Version", "Added", "Format", "What changed"].map((text) => make("th", { scope: "col" }, text)));
    versionList.replaceChildren(found.length ? make("table", {}, make("thead", {}, heads), make("tbody", {}, ...found)) : make("p", { class: "empty" }, "The schema registry has none: the events are raw, or their format needs none."));
  }

  return { element, look, every: 1000, title: shown, repaint: () => { picture.draw(); rates.repaint(); commits.repaint(); }, close: () => { picture.close(); rates.close(); commits.close(); } };
}

export function queriesView() {
  const heads = ["Query", "Stream", "Batch", "Committed", "Bytes behind", "Events behind", "Checkpoint"];
  const list = table("Streaming queries", heads, [2, 4, 5]), note = make("p", { class: "empty" });
  const element = make("div", {}, make("div", { class: "bar" }, make("h1", {}, "Streaming queries")), make("div", { class: "panel" }, list.box, note));
  async function look() {
    const answer = await ask("queries");
    fill(list.body, answer.queries.flatMap((one) => {
      const common = (cells) => [make("span", { class: "mono" }, one.query || "–"), ...cells, make("span", { class: "mono" }, one.checkpoint)];
      if (one.error) return [common([make("span", { class: "tag bad" }, one.error), one.batch === null ? "–" : String(one.batch), "–", "–", "–"])];
      return one.sources.map((source) => common([make("a", { href: nameOf(source.stream) }, source.stream), String(one.batch), ago(one.committed_at, answer.at), bytes(source.bytes_behind), measure(source.events_behind, "")]));
    }), [2, 4, 5]);
    note.textContent = answer.queries.length ? "From checkpoints on this machine. Events are estimated beyond 64 KiB." : answer.folders ? "No query has begun yet in the folders of --checkpoint." : "Start the page with --checkpoint FOLDER, a query's checkpointLocation or a folder of some, to see how far queries are behind.";
  }
  return { element, look, every: 2000, title: "Queries" };
}
