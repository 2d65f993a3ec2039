// Namespaces with what is in them, and key-value tables.
import { rowTable } from "./rows.js";
import { ask, bytes, fill, listsOf, make, panel, perSecond, sql, sqlName, table, whole } from "./values.js";

const keyValueName = (name) => `#/key-value/${name.split("/").map(encodeURIComponent).join("/")}`;

export function namespacesView() {
  const list = table("Namespaces", ["Namespace", "Streams", "In", "Stored", "Key-value tables"], [1, 2, 3]), empty = make("p", { class: "empty", hidden: true }, "There are no namespaces yet: CREATE NAMESPACE makes one.");
  const statement = sql(...listsOf([])), box = panel("Streams and key-value tables", "w12", list.box, empty, statement.element);
  const element = make("div", {}, make("div", { class: "bar" }, make("h1", {}, "Namespaces")), make("div", { class: "grid" }, box.element));
  list.box.classList.add("tall");
  async function look() {
    const answer = await ask("namespaces");
    fill(list.body, answer.namespaces.map((one) => [make("a", { href: `#/streams/${encodeURIComponent(`${one.name}.`)}` }, one.name), whole(one.streams), perSecond(one.bytes_in, "B"), bytes(one.bytes),
      make("span", {}, ...(one.key_values.length ? one.key_values.flatMap((other, number) => [...(number ? [", "] : []), make("a", { href: keyValueName(other.name) }, other.table)]) : ["–"]))]), [1, 2, 3]);
    for (const row of list.body.rows) row.lastChild.className = "wrap";
    statement.set(...listsOf(answer.namespaces.map((one) => one.name)));
    empty.hidden = answer.namespaces.length > 0;
  }
  return { element, look, every: 5000, title: "Namespaces" };
}

export function keyValueView(name) {
  const title = make("h1", {}, name.replaceAll("-", "_").replace("/", ".")), note = make("span", { class: "quiet small" });
  const list = make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Entries" }), statement = sql("");
  const entries = panel("Entries", "w12", list, statement.element), columns = table("Columns", ["Column", "Type", "Part of"]);
  entries.head.append(note);
  const grid = make("div", { class: "grid", hidden: true }, entries.element, panel("Columns", "w6", columns.box).element);
  const element = make("div", {}, make("div", { class: "bar" }, make("a", { href: "#/namespaces" }, "← Namespaces"), title, make("span", { class: "tag" }, "key-value table")), grid);
  async function look() {
    const answer = await ask("key-value", { name, count: 50 });
    grid.hidden = false;
    title.textContent = answer.table;
    note.textContent = `${answer.rows.length} shown, in no order · ${answer.partitions} partition${answer.partitions === 1 ? "" : "s"} · keys of ${answer.key_bytes} bytes`;
    fill(columns.body, answer.columns.map((one) => [one.name, make("span", { class: "mono" }, one.type), one.key ? "the key" : "the value"]));
    statement.set(`SELECT * FROM ${sqlName(answer.table)} LIMIT 50;`);
    list.replaceChildren(answer.error ? make("p", { class: "error" }, answer.error) : rowTable("Entries", answer.columns.map((one) => one.name), answer.rows));
    if (!answer.error && !answer.rows.length) list.append(make("p", { class: "empty" }, "There are no entries."));
  }
  return { element, look, every: 3000, title: name };
}
