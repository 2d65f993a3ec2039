// Streaming queries: what they read and write, and how their lag goes.
import { lagChart } from "./charts.js";
import { ago, ask, bytes, copyable, lasting, make, nameOf, panel, perSecond, several, whole } from "./values.js";

const COLORS = { "keeping up": "good", "catching up": "good", steady: "", measuring: "", "falling behind": "bad" };

const about = (seconds) => (seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : lasting(seconds * 1000));

/** How a lag goes, in a tag, and what that means. */
export function outlookOf(source) {
  const tag = make("span", { class: `tag ${COLORS[source.trend]}` }, source.trend);
  const words = source.trend === "catching up" ? `caught up in about ${about(source.caught_up_s)}` : source.trend === "falling behind" ? `${perSecond(source.change, "B")} more` : "";
  return [tag, words];
}

/** How old the oldest row is that isn't read, in words. */
export const waits = (since, now) => (since === null || since === undefined ? "" : `the oldest unread row is ${lasting(Math.max(0, now - since))} old`);

/** The links to tables that a query reads or writes. */
export const links = (tables) => tables.flatMap((one, number) => [...(number ? [", "] : []), make("a", { href: nameOf(one.stream) }, one.table)]);

function card(one) {
  const box = panel(one.name, "w6"), facts = make("p", { class: "flow" });
  const places = new Map(), error = make("p", { class: "error", hidden: true });
  box.head.append(make("span", { class: "quiet small mono", title: one.query || "" }, one.query ? one.query.slice(0, 8) : ""), make("span", { class: "space" }), make("span", { class: "quiet small", "data-what": "batch" }));
  box.element.append(facts, error, make("p", { class: "quiet small mono checkpoint" }, one.checkpoint), copyable("In a terminal", `pravega-spark lag '${one.checkpoint.replaceAll("'", "'\\''")}'`).element);
  function show(line, now) {
    box.head.querySelector("[data-what=batch]").textContent = line.batch === null ? "" : `batch ${whole(line.batch)}, ${ago(line.committed_at, now)}` + (line.interval_ms ? `, one every ${lasting(line.interval_ms)}` : "");
    error.hidden = !line.error; error.textContent = line.error || "";
    facts.replaceChildren(...(line.sources.length ? links(line.sources) : [make("span", { class: "quiet" }, "no stream")]), make("span", { class: "arrow", "aria-label": "into" }, " → "), ...(line.targets.length ? links(line.targets) : [make("span", { class: "quiet" }, "a sink that isn't a table here")]));
    for (const source of line.sources) {
      if (!places.has(source.stream)) {
        const drawing = lagChart(source.table), words = make("p", { class: "lag" });
        places.set(source.stream, { drawing, words });
        error.before(words, drawing.element);
      }
      const { drawing, words } = places.get(source.stream), [tag, outlook] = outlookOf(source);
      words.replaceChildren(make("strong", {}, bytes(source.bytes_behind)), ` behind in ${source.version === null ? "" : "CHANGES of "}${source.table}, about ${several(source.events_behind, "event")} `, tag, make("span", { class: "quiet" }, ` ${[outlook, waits(source.waits_since, now), source.bytes_out === null ? "" : `reads ${perSecond(source.bytes_out, "B")}`].filter(Boolean).join(", ")}`));
      drawing.showHistory(source.history);
    }
  }
  const each = (what) => () => { for (const { drawing } of places.values()) drawing[what](); };
  return { element: box.element, show, repaint: each("repaint"), close: each("close") };
}

export function queriesView() {
  const cards = new Map(), grid = make("div", { class: "grid" }), note = make("p", { class: "empty" });
  const element = make("div", {}, make("div", { class: "bar" }, make("h1", {}, "Streaming queries")), grid, note);
  async function look() {
    const answer = await ask("queries"), there = new Set(answer.queries.map((one) => one.checkpoint));
    for (const [checkpoint, one] of cards) if (!there.has(checkpoint)) { one.element.remove(); one.close(); cards.delete(checkpoint); }
    for (const one of answer.queries) {
      if (!cards.has(one.checkpoint)) { cards.set(one.checkpoint, card(one)); grid.append(cards.get(one.checkpoint).element); }
      cards.get(one.checkpoint).show(one, answer.at);
    }
    note.textContent = answer.queries.length ? "A query is called as its checkpoint's folder. Events are estimated beyond 64 KiB. Lags are remembered while the page is open." : answer.folders ? "No query has begun yet in the folders of --checkpoint." : "Start the page with --checkpoint FOLDER, a query's checkpointLocation or a folder of some, to see how far queries are behind.";
  }
  const each = (what) => () => { for (const one of cards.values()) one[what](); };
  return { element, look, every: 2000, title: "Queries", repaint: each("repaint"), close: each("close") };
}
