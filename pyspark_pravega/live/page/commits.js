// A stream's commits: rows over time by who wrote them, who wrote how much, and each version with what it changed.
import { commitsChart } from "./charts.js";
import { changesView } from "./rows.js";
import { ago, brief, bytes, fill, lasting, make, moment, panel, sql, sqlName, table, whole } from "./values.js";

export function commitsPanels(name) {
  const drawing = commitsChart();
  const none = make("p", { class: "empty", hidden: true }, "Nobody has committed to it through this package, so it has no versions.");
  const chart = panel("Commits", "w6", drawing.element, none);
  const writers = table("Who wrote", ["Writer", "Commits", "Rows", "Bytes", "Usually every", "Last"], [1, 2, 3, 4, 5]);
  writers.box.classList.add("writers");
  const who = panel("Who wrote", "w5", writers.box);
  const list = table("Commits, the last one first", ["Version", "Committed", "Rows", "Bytes", "Took", "Written by", ""], [0, 2, 3, 4]);
  list.box.classList.add("versions");
  const changed = changesView(name), statement = sql("");
  const log = panel("Commits, the last one first", "w7", list.box, statement.element, changed.element);
  let names = {}, before = "";

  const writerOf = (one) => (one.query ? `query ${names[one.query] || brief(one.query)}` : one.writer === "others" ? "other programs" : "jobs");
  function show(answer) {
    const found = answer.commits, text = JSON.stringify([found.length, found[found.length - 1], answer.names]);
    names = answer.names;
    drawing.element.hidden = who.element.hidden = log.element.hidden = !found.length;
    none.hidden = found.length > 0;
    if (!found.length) return;
    drawing.showCommits(found, writerOf);
    showWriters(found, answer.at);
    if (text === before) return;
    before = text;
    statement.set(`SELECT * FROM ${sqlName(answer.line.table, "commits")} ORDER BY version DESC LIMIT 20;`);
    fill(list.body, found.slice().reverse().map((one) => [String(one.version), moment(one.committed_at), whole(one.rows), bytes(one.bytes), lasting(one.milliseconds),
      make("span", { title: one.writer }, writerOf(one) + (one.query ? `, epoch ${one.epoch}` : one.writer.startsWith("job ") ? ` (${brief(one.writer.slice(4))})` : "") + (one.replaces ? " (replaced the table)" : "")),
      make("button", { type: "button", class: "link", "aria-label": `What version ${one.version} changed`, onclick: () => changed.open(one.version, answer.line.table) }, "changes")]), [0, 2, 3, 4]);
  }
  function showWriters(commits, now) {
    const known = new Map();
    for (const one of commits) {
      const key = writerOf(one), line = known.get(key) || { commits: 0, rows: 0, bytes: 0, times: [] };
      line.commits += 1; line.rows += one.rows; line.bytes += one.bytes; line.times.push(one.committed_at);
      known.set(key, line);
    }
    const usual = (times) => { const gaps = times.slice(1).map((at, number) => at - times[number]).sort((a, b) => a - b); return gaps.length > 2 ? lasting(gaps[gaps.length >> 1]) : "–"; };
    const rows = [...known].sort((a, b) => b[1].rows - a[1].rows).map(([key, line]) => [key, whole(line.commits), whole(line.rows), bytes(line.bytes), usual(line.times), ago(line.times[line.times.length - 1], now)]);
    fill(writers.body, rows, [1, 2, 3, 4, 5]);
  }
  return { chart, who, log, show, repaint: drawing.repaint, close: drawing.close };
}
