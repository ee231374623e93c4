"use strict";
// The page works without this file. It fetches what changed, when it may, without moving what is being read or typed.
(() => {
  const byId = (id) => document.getElementById(id);
  const page = () => byId("main");
  const later = (seconds) => seconds * 1000 * (0.85 + Math.random() * 0.3);
  const here = () => location.pathname.replace(/(answer|decision|finding)\/$/, "") + location.search;

  // ------------------------------------------------------------ saying things
  let said = 0, waitingWords = null;
  function say(words, now) {
    if (now) { byId("say-now").textContent = words; return; }
    clearTimeout(waitingWords);
    waitingWords = setTimeout(() => { said = Date.now(); byId("say").textContent = words; }, Math.max(0, said + 5000 - Date.now()));
  }
  const clockOf = (date) => date.toTimeString().slice(0, 8);
  let fresh = new Date();

  function line(words, button) {
    const at = byId("connection");
    at.classList.toggle("on", Boolean(words));
    at.replaceChildren(...(words ? [Object.assign(document.createElement("span"), { textContent: words })] : []));
    if (words && button) {
      const link = Object.assign(document.createElement("a"), { textContent: button.words, href: button.to });
      at.append(link);
    }
  }

  // ------------------------------------------------------------ the socket: it only says that there is news
  let socket = null, topic = null, tries = 0, over = false, lost = 0, heard = 0, told = null;
  function connect() {
    const wanted = page().dataset.topic || null;
    if (socket && topic === wanted) return;
    if (socket) { socket.onclose = null; socket.close(); socket = null; }
    topic = wanted;
    if (!topic || over) return;
    socket = new WebSocket(location.origin.replace(/^http/, "ws") + topic);
    socket.onopen = () => {
      tries = 0;
      if (lost) { line("Up to date again"); setTimeout(() => { if (!lost) line(""); }, 5000); look(); }
      lost = 0; clearTimeout(told);
    };
    socket.onmessage = (event) => {
      const seq = Number(String(event.data).split(" ")[1] || 0);
      heard = Math.max(heard, seq);
      if (!seq || seq > Number(page().dataset.seq || 0)) look();
    };
    socket.onclose = (event) => {
      socket = null;
      if (event.code === 4401) return ended("Signed out in another tab.", { words: "Sign in", to: "/sign-in/?next=" + encodeURIComponent(here()) });
      if (event.code === 4404) return ended("You no longer have access to this.", { words: "First page", to: "/" });
      if (!lost) { lost = Date.now(); trouble(); }
      setTimeout(connect, Math.min(200 * 2 ** tries++, 3000) * (0.75 + Math.random() / 2));
    };
  }
  function trouble() {
    const down = () => { line("Live updates are off. Pages still work; reload to refresh.", { words: "Reload", to: here() }); say("Live updates are off.", true); };
    told = setTimeout(() => { line(`Reconnecting. What you see is from ${clockOf(fresh)}.`); told = setTimeout(down, 27000); }, 3000);
  }
  function ended(words, button) { over = true; clearTimeout(told); line(words, button); say(words, true); inert(words); }

  // ------------------------------------------------------------ looking: at most once a second, later in a hidden tab
  let looking = false, wanted = false, last = 0, timer = null;
  function look() {
    wanted = true;
    if (looking || timer || over) return;
    timer = setTimeout(fetchPage, Math.max(Math.random() * 60, last + 1000 * (1 + Math.random() * 0.2) - Date.now()));
  }
  async function fetchPage() {
    timer = null;
    if (busy()) { timer = setTimeout(fetchPage, 400); return; }
    looking = true; wanted = false; last = Date.now();
    try {
      const answer = await fetch(here(), { headers: { "HX-Request": "true" }, credentials: "same-origin", redirect: "error" });
      if (answer.status === 401) return ended("Signed out in another tab.", { words: "Sign in", to: "/sign-in/?next=" + encodeURIComponent(here()) });
      if (answer.status === 404) return ended("You no longer have access to this.", { words: "First page", to: "/" });
      if (answer.ok) { const text = await answer.text(); fresh = new Date(); put(new DOMParser().parseFromString(text, "text/html")); }
    } catch { /* the next look tries again */ } finally {
      looking = false;
      if (wanted) look();
    }
  }
  (function poll() {
    setTimeout(() => { if (page() && page().dataset.topic && (!socket || socket.readyState !== 1 || document.hidden)) look(); poll(); }, later(document.hidden ? 60 : 20));
  })();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });

  // ------------------------------------------------------------ what is under the pointer or the focus stays where it is
  let moved = 0, pressed = false, sending = false, over_ = null;
  addEventListener("pointermove", (event) => { moved = Date.now(); over_ = event.target; }, { passive: true });
  addEventListener("pointerdown", () => { pressed = true; }, { passive: true });
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { pressed = false; moved = Date.now(); }, { passive: true });
  const busy = () => pressed || sending || (Date.now() - moved < 800 && over_ && over_.closest && over_.closest("main a, main button, main label, main input, main textarea, main select, main summary"));
  const typing = () => { const at = document.activeElement; return at && at.closest("main form") && at.matches("input, textarea, select"); };

  function put(found) {
    const next = found.getElementById("main"), nav = found.getElementById("nav"), now = page();
    if (!next) return;
    if (nav && byId("nav")) { nav.removeAttribute("hx-swap-oob"); Idiomorph.morph(byId("nav"), nav, { morphStyle: "outerHTML" }); }
    if (found.title) document.title = found.title;
    const card = now.querySelector("[data-card]"), fresher = next.querySelector("[data-card]");
    now.dataset.seq = next.dataset.seq || now.dataset.seq || "";
    if (card && byId("act") && fresher) return reading(card, fresher, now, next);
    if (now.querySelector("[data-rows], .tabs")) return rows(now, next);
    if (typing()) { wanted = true; timer = setTimeout(fetchPage, 2000); return; }
    steadily(() => Idiomorph.morph(now, next, { morphStyle: "outerHTML" }));
    if (window.htmx) htmx.process(page());
  }

  // a card with a form: facts stay; if it stands otherwise now, it is said, and the buttons can do nothing
  function reading(card, fresher, now, next) {
    const aside = now.querySelector("aside"), other = next.querySelector("aside");
    if (aside && other && !aside.contains(document.activeElement)) Idiomorph.morph(aside, other, { morphStyle: "innerHTML" });
    if (card.dataset.card === fresher.dataset.card) return;
    const note = byId("note"), words = fresher.dataset.cardNote || "This changed.";
    if (!note || note.textContent) return;
    note.classList.add("on");
    note.append(words + " ", Object.assign(document.createElement("a"), { textContent: "Show", href: here() }));
    inert(words);
    say(words, true);
  }
  function inert(words) {
    for (const button of document.querySelectorAll("main form button")) { button.setAttribute("aria-disabled", "true"); button.dataset.inert = words; }
  }

  // a list: rows stay where they are; what came new waits behind one line
  let shown = null;
  function rows(now, next) {
    const known = (from) => new Map([...from.querySelectorAll("[data-rows] > li")].map((row) => [row.id, row]));
    const old = known(now), young = known(next);
    for (const [id, row] of old) {
      const other = young.get(id);
      if (!other) { if (!row.classList.contains("gone")) { row.classList.add("gone"); row.querySelector(".seen").textContent = "No longer waiting here"; } }
      else if (row.querySelector(".seen").textContent.trim() !== other.querySelector(".seen").textContent.trim()) {
        row.querySelector(".seen").replaceChildren(...other.querySelector(".seen").childNodes); row.classList.add("changed");
      }
    }
    const added = [...young.keys()].filter((id) => !old.has(id)).length, news = byId("news");
    for (const part of [".head", ".tabs"]) { const at = now.querySelector(part), to = next.querySelector(part); if (at && to && !at.contains(document.activeElement)) Idiomorph.morph(at, to); }
    shown = next;
    if (!news || !added) return;
    const words = `${added} new, show`;
    if (news.textContent !== words) { news.textContent = words; news.hidden = false; say(`${added} new request${added > 1 ? "s" : ""}`); }
  }
  document.addEventListener("click", (event) => {
    const news = event.target.closest && event.target.closest("#news");
    if (!news || !shown || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    Idiomorph.morph(page(), shown, { morphStyle: "outerHTML" });
    shown = null;
    byId("title").focus({ preventScroll: true });
  });

  function steadily(change) {
    const anchor = [document.activeElement, over_].find((at) => at && at.id !== "main" && at.closest && at.closest("#main"));
    const top = anchor && anchor.getBoundingClientRect().top;
    change();
    if (anchor && anchor.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - top);
  }

  // ------------------------------------------------------------ sending: once
  document.addEventListener("submit", (event) => {
    const form = event.target, button = event.submitter;
    if (!form.matches("[data-once]")) return;
    if (form.dataset.sent || (button && button.dataset.inert)) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    form.dataset.sent = "1"; sending = true;
    setTimeout(() => { // after the form was read: its button's name and value go with it
      for (const each of form.querySelectorAll("button")) each.setAttribute("aria-disabled", "true");
      if (button) { button.dataset.words = button.textContent; button.textContent = "Sending…"; }
    });
  }, true);
  function unsent() {
    sending = false;
    for (const form of document.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      for (const each of form.querySelectorAll("button")) { if (!each.dataset.inert) each.removeAttribute("aria-disabled"); if (each.dataset.words) each.textContent = each.dataset.words; }
    }
  }
  addEventListener("pageshow", (event) => { if (event.persisted) { unsent(); look(); } });
  for (const name of ["htmx:sendError", "htmx:timeout"]) document.addEventListener(name, () => { unsent(); line("Not sent: the server cannot be reached. Try again."); });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.requestConfig && event.detail.requestConfig.verb === "post") { sending = false; arrive(); }
    connect();
  });

  // own action: the focus goes to what came of it, or to what is wrong
  function arrive() {
    const at = byId("problem-box") || byId("title");
    if (at) { at.focus({ preventScroll: true }); scrollTo(0, Math.max(0, at.getBoundingClientRect().top + scrollY - 90)); }
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details.menu[open]")) { menu.open = false; menu.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });

  addEventListener("DOMContentLoaded", () => {
    Idiomorph.defaults.ignoreActiveValue = true;
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
      !(name === "open" && node instanceof HTMLDetailsElement) && !(name === "value" && node.matches("main form input"));
    if (byId("problem-box")) byId("problem-box").focus();
    connect();
  });
})();
