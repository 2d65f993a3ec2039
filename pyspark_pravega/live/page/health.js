// How well all is: a band that can be read from across a room, servers, commit logs with open transactions, alerts.
import { ago, ask, brief, copyable, fill, make, nameOf, panel, table } from "./values.js";

const WORDS = { good: "All is well", warn: "Look at this", bad: "Something is wrong" };
export const worst = (alerts) => (alerts.some((one) => one.level === "bad") ? "bad" : alerts.length ? "warn" : "good");

function alertLine(one, now) {
  const what = one.stream ? make("a", { href: one.kind === "lag" || one.kind === "query" ? "#/queries" : nameOf(one.stream) }, one.what) : make("strong", {}, one.what);
  return make("li", { class: one.level }, make("span", { class: `tag ${one.level}` }, one.kind), " ", what, `: ${one.text}`, one.since ? make("span", { class: "quiet small" }, ` (${ago(one.since, now)})`) : null);
}

/** The band below the head of each view: hidden while all is well. */
export function banner(element) {
  let last = "";
  return (answer, isHealth) => {
    const level = worst(answer.alerts), [first] = answer.alerts;
    const text = first ? `${first.what}: ${first.text}` : "", more = answer.alerts.length - 1;
    element.hidden = level === "good" || isHealth;
    element.className = `banner ${level}`;
    const shown = text + more;
    if (shown !== last) element.replaceChildren(make("a", { href: "#/health" }, make("strong", {}, WORDS[level]), ` ${text}`, more > 0 ? ` · ${more} more` : ""));
    last = shown;
  };
}

export function healthView() {
  const sign = make("p", { class: "sign" }), big = make("strong", {}), small = make("span", {}), list = make("ul", { class: "alerts" });
  sign.append(big, small);
  const servers = table("Servers", ["Server", "Answers in", "Says"], [1]), logs = table("Commit logs", ["Table", "Version", "Committed", "State"], [1]);
  const open = table("Open transactions", ["Table", "Job", "Since", "Transaction", "State"]);
  open.box.classList.add("open");
  const none = make("p", { class: "empty" }, "No transaction of this package is open. Those that other programs have open can't be listed.");
  const element = make("div", {}, make("div", { class: "bar" }, make("h1", {}, "Health")), sign, list,
    make("div", { class: "grid" }, panel("Servers", "w6", servers.box).element, panel("Open transactions", "w6", open.box, none).element, panel("Commit logs, the last ones that were written to", "w12", logs.box).element), copyable("In a terminal", "pravega-spark doctor").element);
  async function look() {
    const answer = await ask("health"), level = worst(answer.alerts), count = answer.alerts.length;
    sign.className = `sign ${level}`;
    big.textContent = count ? `${count} alert${count === 1 ? "" : "s"}` : WORDS.good;
    small.textContent = count ? WORDS[level] : `${answer.servers.length} servers answer, ${answer.logs.length} commit logs are sound`;
    list.replaceChildren(...answer.alerts.map((one) => alertLine(one, answer.at)));
    fill(servers.body, answer.servers.map((one) => [make("span", {}, one.kind, make("br"), make("span", { class: "mono quiet" }, one.address)), one.milliseconds === null ? make("span", { class: "tag bad" }, "no answer") : `${one.milliseconds || "< 1"} ms`, one.text]), [1]);
    for (const row of servers.body.rows) row.lastChild.className = "wrap";
    fill(logs.body, answer.logs.map((one) => [make("a", { href: nameOf(one.stream) }, one.table), String(one.version), ago(one.committed_at, answer.at), make("span", { class: `tag ${one.state === "idle" ? "" : "good"}` }, one.state)]), [1]);
    const rows = answer.logs.flatMap((log) => log.jobs.flatMap((job) => (job.transactions.length ? job.transactions : [["–", "–"]]).map(([id, state]) => [make("a", { href: nameOf(log.stream) }, log.table), make("span", { class: "mono", title: job.job || "" }, job.job ? brief(job.job) : "ending"), ago(job.since, answer.at), make("span", { class: "mono", title: id }, id.length > 8 ? `…${id.slice(-8)}` : id), state.toLowerCase()])));
    fill(open.body, rows);
    open.box.hidden = !rows.length; none.hidden = rows.length > 0;
  }
  return { element, look, every: 3000, title: "Health" };
}
