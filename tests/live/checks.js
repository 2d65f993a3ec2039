// What tests/live/test_page.py looks for in the page.

/** How many colours a canvas shows. */
function colors(selector) {
  const canvas = document.querySelector(selector);
  if (!canvas || !canvas.width) return 0;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
  for (let place = 0; place < data.length; place += 4) {
    if (data[place + 3] > 200) seen.add(data[place] * 65536 + data[place + 1] * 256 + data[place + 2]);
  }
  return seen.size;
}

/** Texts whose contrast is below 4.5, as WCAG 2 computes it. */
function poorContrast() {
  const parts = (text) => text.match(/[\d.]+/g).map(Number);
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parts(getComputedStyle(one).backgroundColor);
      if (color.length < 4 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent.trim()).join("");
    if (!text || !element.checkVisibility() || element.closest(".only-read, .skip, script, style")) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}

/** What a screen reader couldn't name. */
function nameless() {
  const named = (one) => (one.getAttribute("aria-label") || one.textContent || one.title || "").trim() || (one.labels && one.labels.length);
  const wanted = "a[href], button, input, select, canvas[role], [role=img], [role=region], [role=group], [tabindex='0']";
  const bad = [...document.querySelectorAll(wanted)].filter((one) => !named(one)).map((one) => one.outerHTML.slice(0, 120));
  for (const table of document.querySelectorAll("table:not(.u-legend)")) {
    if (!table.caption && !table.closest("[aria-label]")) bad.push("a table without a name");
    if ([...table.querySelectorAll("th")].some((head) => !head.scope)) bad.push("a head without scope");
  }
  if (!document.documentElement.lang) bad.push("no language");
  if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  if (new Set(ids).size !== ids.length) bad.push("an id twice");
  return bad;
}

/** A stream's line in the table of streams, by column. */
function cells(stream) {
  const link = [...document.querySelectorAll("tr.line a")].find((one) => one.getAttribute("href").endsWith(stream));
  if (!link) return null;
  return Object.fromEntries([...link.closest("tr").cells].map((cell) => [cell.className.match(/c-(\w+)/)[1], cell.textContent]));
}

/** The columns of a stream's line that are seen. */
function seen(stream) {
  const link = [...document.querySelectorAll("tr.line a")].find((one) => one.getAttribute("href").endsWith(stream));
  return [...link.closest("tr").cells].filter((cell) => cell.checkVisibility()).map((cell) => cell.className.match(/c-(\w+)/)[1]);
}

/** Cells of the table of streams that show less than they hold. */
function cut() {
  return [...document.querySelectorAll("tr.line td")].filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent);
}

/** One of a stream's figures. */
function fact(name) {
  const term = [...document.querySelectorAll("dt")].find((one) => one.textContent === name);
  return term ? term.nextElementSibling.textContent : "";
}

/** The rows of the commits that are listed, the last one first. */
function commits() {
  return [...document.querySelectorAll("[aria-label^='Commits, the'] tbody tr")].map((one) => one.cells[2].textContent);
}

/** The second column of the last rows, and how it is marked, by the first one. */
function values() {
  const rows = [...document.querySelectorAll("table.rows tbody tr")].map((one) => one.cells);
  return Object.fromEntries(rows.map(([id, value]) => [id.textContent, [value.className, value.textContent]]));
}

/** How many charts are filled as on a light page. */
function lightCharts() {
  const isLight = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width || 1, canvas.height || 1);
    for (let at = 0; at < data.length; at += 4) if (data[at] === 220 && data[at + 1] === 235 && data[at + 2] === 247 && data[at + 3] === 255) return true;
    return false;
  };
  return [...document.querySelectorAll(".uplot canvas")].filter(isLight).length;
}

/** Begins to measure the longest task of the page. */
function watchTasks() {
  window.longest = 0;
  const longer = (list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); };
  new PerformanceObserver(longer).observe({ entryTypes: ["longtask"] });
}

/** Begins to count how often the page asks. */
function countRequests() {
  const real = window.fetch;
  window.requests = 0;
  window.fetch = (...given) => { window.requests += 1; return real(...given); };
}

/** Lets the page believe that it is hidden, or that it is seen again. */
function hide(isHidden) {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
