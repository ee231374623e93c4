"use strict";
// Pages work without this. It fetches what changed and moves nothing that is read or typed.
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const element = (tag, facts) => Object.assign(document.createElement(tag), facts);
  const here = () => location.pathname.replace(/(answer|decision|finding|void|evidence|compensate|supply)\/$/, "") + location.search;
  const page = () => byId("main");
  const focused = () => document.activeElement;
  const on = (name, act, early) => document.addEventListener(name, act, early);

  // ---- saying
  let said = 0, saying = null, fresh = new Date();
  function say(words) {
    clearTimeout(saying); // one in 5 s
    saying = setTimeout(() => { said = Date.now(); byId("say").textContent = words; }, Math.max(0, said + 5000 - Date.now()));
  }
  const sayNow = (words) => { byId("say-now").textContent = words; };
  function line(words, link, to) {
    byId("connection").classList.toggle("on", !!words);
    byId("connection").replaceChildren(element("span", { textContent: words }), ...(link ? [element("a", { textContent: link, href: to })] : []));
  }

  // ---- the socket: only "there is news"
  let socket = null, topic = null, tries = 0, over = false, lost = false, trouble = null;
  function connect() {
    const wanted = page().dataset.topic;
    if (over || (socket && topic === wanted)) return;
    if (socket) { socket.onclose = null; socket.close(); socket = null; }
    if (!(topic = wanted)) return;
    socket = new WebSocket(location.origin.replace(/^http/, "ws") + topic);
    socket.onopen = () => {
      tries = 0;
      clearTimeout(trouble);
      if (lost) { line("Up to date again"); trouble = setTimeout(line, 5000, ""); look(); }
      lost = false;
    };
    socket.onmessage = ({ data }) => {
      const seq = Number(data.split(" ")[1]);
      if (!seq || seq > Number(page().dataset.seq)) look();
    };
    socket.onclose = ({ code }) => {
      socket = null;
      if (code === 4401 || code === 4404) return end(code - 4000);
      if (!lost) {
        lost = true;
        trouble = setTimeout(() => {
          line(`Reconnecting. What you see is from ${fresh.toTimeString().slice(0, 8)}.`);
          trouble = setTimeout(() => { line("Live updates are off. Pages still work; reload to refresh.", "Reload", here()); sayNow("Live updates are off."); }, 27000);
        }, 3000);
      }
      setTimeout(connect, Math.min(200 * 2 ** tries++, 3000) * (0.75 + Math.random() / 2));
    };
  }
  function end(status) {
    over = true;
    clearTimeout(trouble);
    const form = status === 401 && all(FIELDS, page()).find((at) => at.value !== at.defaultValue)?.form;
    if (form) keep(form);
    if (status === 401) line("Signed out in another tab.", "Sign in", "/sign-in/?next=" + encodeURIComponent(here()));
    else line("You no longer have access to this.", "First page", "/");
    sayNow(byId("connection").firstChild.textContent);
    inert();
  }

  // ---- looking: once a second at most
  let looking = false, again = false, last = 0, timer = null;
  function look() {
    again = true;
    if (!looking && !timer && !over) timer = setTimeout(fetchPage, Math.max(Math.random() * 60, last + 1000 + Math.random() * 200 - Date.now()));
  }
  async function fetchPage() {
    if (busy()) { timer = setTimeout(fetchPage, 400); return; }
    timer = null; looking = true; again = false; last = Date.now();
    try {
      const answer = await fetch(here(), { headers: { "HX-Request": "true" }, redirect: "error" });
      if (answer.status === 401 || answer.status === 404) return end(answer.status);
      const text = answer.ok && await answer.text();
      if (busy()) again = true;
      else if (text) { fresh = new Date(); put(new DOMParser().parseFromString(text, "text/html")); }
    } catch { /* later */ } finally {
      looking = false;
      if (again) look();
    }
  }
  function poll() {
    if (page().dataset.topic && (socket?.readyState !== 1 || Date.now() - last > 6e4)) look();
    setTimeout(poll, (document.hidden ? 6e4 : 2e4) * (0.85 + Math.random() * 0.3));
  }
  setTimeout(poll, 2e4);
  on("visibilitychange", () => document.hidden || look());

  // ---- nothing moves under pointer or focus
  let moved = 0, pressed = false, sending = false, under = null;
  const PRESSABLE = "main :is(a, button, label, input, textarea, select, summary)";
  on("pointermove", (event) => { moved = Date.now(); under = event.pointerType === "mouse" ? event.target : null; });
  on("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) on(name, () => { pressed = false; moved = Date.now(); });
  const resting = () => under?.matches?.(":hover") && under.closest(PRESSABLE);
  const writing = () => focused()?.matches("main form :is(input, textarea, select)");
  const busy = () => pressed || sending || (page().querySelector(".tabs, [data-card] #act") ? Date.now() - moved < 800 && resting() : resting() || writing());

  function put(found) {
    const now = page(), next = found.getElementById("main"), nav = found.getElementById("nav");
    if (!next) return;
    if (nav) { nav.removeAttribute("hx-swap-oob"); Idiomorph.morph(byId("nav"), nav); }
    document.title = found.title;
    const card = now.querySelector("[data-card]"), fresher = next.querySelector("[data-card]");
    if (now.querySelector(".tabs")) return list(now, next);
    if (card && fresher && byId("act") && (!("follow" in card.dataset) || typed())) { now.dataset.seq = next.dataset.seq; return reading(card, fresher, next); }
    const anchor = [focused(), under].find((at) => at && at !== now && now.contains(at));
    const top = anchor?.getBoundingClientRect().top;
    Idiomorph.morph(now, next);
    if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - top);
    htmx.process(page());
  }

  const typed = () => all("#act :is(textarea, input:not([type=hidden]))").some((at) => at.value !== at.defaultValue || at.checked !== at.defaultChecked);
  // a card with a form: facts stay, a note tells
  function reading(card, fresher, next) {
    const aside = page().querySelector("aside"), other = next.querySelector("aside"), note = byId("note");
    const due = page().querySelector(".topline"), left = next.querySelector(".topline");
    const same = card.dataset.card === fresher.dataset.card;
    if (left && same) Idiomorph.morph(due, left);
    if (aside && !aside.contains(focused())) Idiomorph.morph(aside, other, { morphStyle: "innerHTML" });
    if (same || !note || note.textContent) return;
    note.append(fresher.dataset.cardNote + " ", element("a", { textContent: "Show", href: here() }));
    note.classList.add("on");
    sayNow(fresher.dataset.cardNote);
    inert();
  }
  function inert() {
    for (const button of all("main form button")) { button.setAttribute("aria-disabled", "true"); button.dataset.inert = "1"; }
  }

  // a list: rows stay, new ones wait
  let newer = null;
  function list(now, next) {
    const known = (from) => new Map(all("[data-rows] > li", from).map((row) => [row.id, row]));
    const old = known(now), young = known(next);
    for (const [id, row] of old) {
      const seen = row.querySelector(".seen"), fresher = young.get(id)?.querySelector(".seen");
      if (!fresher) { row.className = "gone"; seen.textContent = "No longer waits"; }
      else if (seen.textContent.trim() !== fresher.textContent.trim()) { seen.replaceChildren(...fresher.cloneNode(true).childNodes); row.className = "changed"; }
    }
    for (const part of [".head", ".tabs"]) if (!now.querySelector(part).contains(focused())) Idiomorph.morph(now.querySelector(part), next.querySelector(part));
    newer = next;
    const count = [...young.keys()].filter((id) => !old.has(id)).length, words = `${count} new, show`;
    if (!count || byId("news").textContent === words) return;
    Object.assign(byId("news"), { textContent: words, hidden: false });
    say(`${count} new request${count > 1 ? "s" : ""}`);
  }
  on("click", (event) => {
    for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    if (!newer || !event.target.closest("#news") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    Idiomorph.morph(page(), newer);
    newer = null;
    byId("title").focus({ preventScroll: true });
  });
  on("keydown", (event) => {
    if (event.key === "Escape") for (const menu of all("details.menu[open]")) { menu.open = false; menu.firstElementChild.focus(); }
  });

  // ---- sending: once
  on("submit", (event) => {
    const form = event.target, button = event.submitter;
    if (!form.matches("[data-once]")) return;
    if (form.dataset.sent || button?.dataset.inert) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    form.dataset.sent = "1";
    sending = true;
    setTimeout(() => {
      for (const each of all("button", form)) each.setAttribute("aria-disabled", "true");
      if (button) { button.dataset.words = button.textContent; button.textContent = "Sending…"; }
    });
  }, true);
  function unsent() {
    sending = false;
    for (const form of all("form[data-sent]")) {
      delete form.dataset.sent;
      for (const each of all("button", form)) {
        if (!each.dataset.inert) each.removeAttribute("aria-disabled");
        if (each.dataset.words) each.textContent = each.dataset.words;
      }
    }
  }
  addEventListener("pageshow", (event) => { if (event.persisted) { unsent(); look(); } });
  on("htmx:sendError", () => { unsent(); line("Not sent: the server cannot be reached. Try again."); });
  on("htmx:afterSettle", ({ detail }) => {
    sending = false;
    connect();
    if (detail.requestConfig?.verb !== "post") return;
    const at = byId("problem-box") || byId("title");
    at.focus({ preventScroll: true });
    scrollTo(0, Math.max(0, at.getBoundingClientRect().top + scrollY - 90));
  });

  // ---- typed, and the sign-in was over: given back once, to the same person in this tab. No password, no file.
  const KEPT = "sayso-typed", FIELDS = "textarea, select, input:not([type=hidden], [type=password], [type=file])";
  function keep(form) {
    const fields = all(FIELDS, form).map((at) => [at.name, at.value, at.checked]);
    sessionStorage.setItem(KEPT, JSON.stringify({ who: page().dataset.who, where: here(), to: form.getAttribute("action"), fields }));
  }
  on("submit", ({ target }) => { if (target.matches("main form[method=post]")) keep(target); });
  on("htmx:afterRequest", ({ detail }) => { if (detail.xhr.status !== 401) sessionStorage.removeItem(KEPT); });
  function giveBack() {
    const kept = JSON.parse(sessionStorage.getItem(KEPT));
    sessionStorage.removeItem(KEPT);
    const signedIn = new URL(document.referrer || location.href).pathname === "/sign-in/";
    if (!kept || !signedIn || kept.who !== page().dataset.who || kept.where !== here()) return;
    const form = all("main form[method=post]").find((each) => each.getAttribute("action") === kept.to);
    if (!form) return;
    for (const [name, value, checked] of kept.fields)
      for (const at of all(FIELDS, form))
        if (at.name === name && (!/radio|checkbox/.test(at.type) || at.value === value)) { at.checked = checked; at.value = value; }
    line("Nothing was sent: your sign-in had ended. What you typed is here again.");
  }

  addEventListener("DOMContentLoaded", () => {
    Object.assign(Idiomorph.defaults, { morphStyle: "outerHTML", ignoreActiveValue: true });
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
      !(name === "open" && node.matches("details")) && !(name === "value" && node.matches("main form input"));
    byId("problem-box")?.focus();
    giveBack();
    connect();
  });
})();
