// Chooses the view by the address, asks again while the page is seen, and says whether the server answers.
import { keyValueView, namespacesView } from "./browse.js";
import { banner, healthView, worst } from "./health.js";
import { queriesView } from "./queries.js";
import { streamsView } from "./streams.js";
import { streamView } from "./stream.js";
import { ask, make } from "./values.js";

const main = document.getElementById("main"), live = document.getElementById("live"), liveText = document.getElementById("live-text");
const error = document.getElementById("error");
const showAlerts = banner(document.getElementById("banner")), sign = document.getElementById("health-sign");
const HEALTH_MS = 5000, ABOVE = { stream: "streams", "key-value": "namespaces" };
let view = null, timer = null, turn = 0, healthTimer = null, current = "";

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (name === "stream" && rest.length === 2) return [name, streamView(rest.join("/"), soon)];
  if (name === "key-value" && rest.length === 2) return [name, keyValueView(rest.join("/"))];
  if (name === "queries") return [name, queriesView()];
  if (name === "health") return [name, healthView()];
  if (name === "namespaces") return [name, namespacesView()];
  return ["streams", streamsView(soon, name === "streams" ? rest.join("/") : null)];
}

function open() {
  if (view && view.close) view.close();
  [current, view] = route();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (ABOVE[current] || current)) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} · pravega-spark`;
  main.replaceChildren(view.element);
  window.scrollTo(0, 0);
  soon();
  lookAtHealth();
}

/** Alerts are seen in each view. Where the server doesn't answer its own error is shown. */
async function lookAtHealth() {
  clearTimeout(healthTimer);
  if (document.hidden) return;
  const shown = view;
  try {
    const answer = await ask("health"), level = worst(answer.alerts);
    if (shown === view) showAlerts(answer, current === "health");
    sign.className = `dot ${level}`;
    sign.replaceChildren(...(answer.alerts.length ? [String(answer.alerts.length), make("span", { class: "word" }, ` alert${answer.alerts.length === 1 ? "" : "s"}`)] : []));
  } catch { sign.className = "dot"; sign.textContent = ""; }
  healthTimer = setTimeout(lookAtHealth, HEALTH_MS);
}

/** Asks now; a view calls it when it needs something else. */
function soon() {
  clearTimeout(timer);
  turn += 1;
  look(turn);
}

async function look(mine) {
  if (document.hidden) return;
  const shown = view;
  try {
    await shown.look();
    if (shown !== view || mine !== turn) return;
    error.hidden = true;
    say("on", "live");
    live.classList.toggle("beat");
  } catch (problem) {
    if (shown !== view || mine !== turn) return;
    error.textContent = problem.message;
    error.hidden = false;
    say("off", problem.status === 404 ? "not there" : problem.status ? "error" : "no answer");
  }
  timer = setTimeout(() => look(mine), shown.every);
}

function say(state, text) {
  live.classList.remove("on", "off");
  if (state) live.classList.add(state);
  if (liveText.textContent !== text) liveText.textContent = text;
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  if (view.repaint) view.repaint();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (view.repaint) view.repaint(); });
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { clearTimeout(timer); clearTimeout(healthTimer); say("", "resting"); } else { soon(); lookAtHealth(); }
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && view.search) { event.preventDefault(); view.search(); }
  if (event.key === "Escape" && !typing && ABOVE[current]) location.hash = current === "stream" ? "#/" : "#/namespaces";
});
window.addEventListener("hashchange", () => { if (location.hash !== "#main") { open(); main.focus({ preventScroll: true }); } });
open();
