// Chooses the view by the address, asks again while the page is seen, and says whether the server answers.
import { streamsView } from "./streams.js";
import { streamView, queriesView } from "./stream.js";

const main = document.getElementById("main"), live = document.getElementById("live"), liveText = document.getElementById("live-text");
const error = document.getElementById("error");
let view = null, timer = null, turn = 0;

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (name === "stream" && rest.length === 2) return ["stream", streamView(rest.map(decodeURIComponent).join("/"))];
  return name === "queries" ? ["queries", queriesView()] : ["streams", streamsView(soon)];
}

function open() {
  if (view && view.close) view.close();
  let name;
  [name, view] = route();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name || (name === "stream" && link.dataset.view === "streams")) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} · pravega-spark`;
  main.replaceChildren(view.element);
  window.scrollTo(0, 0);
  soon();
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
    say("off", "no answer");
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
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { clearTimeout(timer); say("", "resting"); } else soon();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && view.search) { event.preventDefault(); view.search(); }
  if (event.key === "Escape" && location.hash.startsWith("#/stream/")) location.hash = "#/";
});
window.addEventListener("hashchange", () => { if (location.hash !== "#main") { open(); main.focus({ preventScroll: true }); } });
open();
