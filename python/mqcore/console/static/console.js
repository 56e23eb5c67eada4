// What the console does beyond plain pages: keys, refreshing, the live view. Every page works without it.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");

  // Selects that send their form at once.
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  });

  // Pages with figures load again, in the background, while they are looked at and nobody types.
  const main = document.getElementById("main");
  const everyS = Number(main && main.dataset.refresh);
  if (everyS) {
    setInterval(async () => {
      const isBusy = main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
      if (document.hidden || isBusy || getSelection().toString()) return;
      try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        if (!answer.ok || answer.redirected) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("main");
        const at = rows().indexOf(marked());
        if (fresh) main.replaceChildren(...fresh.childNodes);
        offerCopies();
        if (at >= 0) mark(rows()[at]);
      } catch { /* The next round tries again. */ }
    }, everyS * 1000);
  }

  // Command lines can be copied.
  const offerCopies = () => {
    if (!navigator.clipboard) return;
    for (const text of document.querySelectorAll("pre.command:not(.copied > pre)")) {
      const around = document.createElement("div");
      around.className = "copied";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
      text.replaceWith(around);
      around.append(text, button);
    }
  };
  offerCopies();

  // Keys.
  const goes = { o: "/", b: "/brokers", t: "/topics", g: "/groups", m: "/messages", d: "/dead-letters", n: "/namesrv", c: "/clients", l: "/later" };
  let isGoing = false;
  const rows = () => [...document.querySelectorAll("table[data-rows] tbody tr")];
  const marked = () => document.querySelector("tr.at");
  const mark = (row) => {
    if (!row) return;
    if (marked()) marked().classList.remove("at");
    row.classList.add("at");
    row.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.matches("input, select, textarea")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (isGoing) {
      isGoing = false;
      if (goes[event.key]) location.assign(goes[event.key]);
      return;
    }
    const all = rows();
    const at = all.indexOf(marked());
    if (event.key === "/") { const field = document.getElementById("search"); if (field) { event.preventDefault(); field.focus(); } }
    else if (event.key === "g") { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); }
    else if (event.key === "?") location.assign("/help");
    else if (event.key === "j") mark(all[Math.min(at + 1, all.length - 1)]);
    else if (event.key === "k") mark(all[Math.max(at - 1, 0)]);
    else if (event.key === "Enter" && marked() && target === document.body) { const link = marked().querySelector("a"); if (link) location.assign(link.href); }
  });

  // The live view.
  const live = document.getElementById("live");
  if (live) {
    const list = document.getElementById("live-rows");
    const state = document.getElementById("live-state");
    const button = document.getElementById("pause");
    const rowsMax = 200;
    let isPaused = false;
    let shown = 0;
    let leftOut = 0;
    const cell = (text, name) => { const made = document.createElement("td"); made.textContent = text; if (name) made.className = name; return made; };
    const report = (text) => { state.textContent = `${text}: ${shown} shown, ${leftOut} beside`; };
    const source = new EventSource(live.dataset.events);
    source.addEventListener("begin", () => report("connected"));
    source.addEventListener("message", (event) => {
      if (isPaused) { leftOut += 1; return; }
      const row = JSON.parse(event.data);
      const line = document.createElement("tr");
      line.className = "new";
      const when = document.createElement("td");
      const link = document.createElement("a");
      link.href = row.url;
      link.textContent = new Date(row.stored_ms).toISOString();
      when.append(link);
      line.append(when, cell(`${row.broker}:${row.queue}`), cell(row.offset, "n"), cell(row.tags), cell(row.keys), cell(row.preview, "preview"));
      list.prepend(line);
      shown += 1;
      while (list.children.length > rowsMax) list.lastChild.remove();
    });
    source.addEventListener("count", (event) => { leftOut += JSON.parse(event.data).left_out; report(isPaused ? "paused" : "connected"); });
    source.addEventListener("fault", (event) => { state.textContent = JSON.parse(event.data).text; });
    source.onerror = () => report("connecting again");
    button.addEventListener("click", () => { isPaused = !isPaused; button.textContent = isPaused ? "Go on" : "Pause"; report(isPaused ? "paused" : "connected"); });
  }
})();
