// The console: it draws the view that the address names after #, and again after each sample of the gateway.

import { connectionView, destinationView, historyView, settingsView, whyView } from "./destination.js";
import { listView, restart, subscriptionsView } from "./lists.js";
import { deadView, messagesView, messageView, sendView } from "./messages.js";
import { alarmsView, producersView, scheduleView, storeView, transactionsView } from "./operation.js";
import { address, ask, bytes, element, facts, form, logIn, remove, say, session, shown } from "./page.js";

const REFRESH_MS = 1900; // samples come every second
const AGAIN_MS = 5000;

const view = document.getElementById("view");
let overview = null;
let drawn = null; // the address whose frame is on the page, and its state; "" is an address, too
let drawnMs = 0;
let isStill = false; // the view is as it was asked for: events do not draw it again
let isTurned = false; // another address was chosen: the focus goes to its view
let asked = 0; // a draw that a later one has overtaken changes nothing
let ended = 0; // the last draw that nothing has overtaken
let events = null;

const VIEWS = {
  "": () => listView("destinations"),
  connections: () => listView("connections"),
  consumers: () => listView("consumers"),
  destination: destinationView,
  connection: connectionView,
  consumer: (id) => whyView("consumer", id),
  why: historyView,
  messages: messagesView,
  message: messageView,
  send: sendView,
  dead: deadView,
  producers: () => producersView(overview),
  alarms: () => alarmsView(overview),
  schedule: scheduleView,
  subscriptions: subscriptionsView,
  transactions: transactionsView,
  store: storeView,
  settings: settingsView,
};

function chosenView() {
  const [first = "", ...rest] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  return (Object.hasOwn(VIEWS, first) ? VIEWS[first] : VIEWS[""])(...rest);
}

function drawOverview() {
  const { store, alarms, blocked_producers: waiting } = overview;
  const pairs = [
    ["Store", store.is_accepting ? "accepts messages" : store.reason, !store.is_accepting],
    ["Memory", `${bytes(overview.memory_bytes)} of ${bytes(overview.memory_limit_bytes)}`, overview.memory_bytes >= overview.memory_limit_bytes],
    ["Connections", shown(overview.connections)],
    ["Waiting producers", shown(waiting.length), waiting.length > 0],
    ["Alarms", alarms.length ? alarms.map((one) => one.text).join("; ") : "none", alarms.length > 0],
  ];
  document.getElementById("overview").replaceChildren(...facts(pairs).children);
}

// Replaces the content; focus stays on what has the same key, address or text, and scrolled tables stay where they are.
function replaceContent(place, content) {
  const marks = (root) => [...root.querySelectorAll("a, button, input, [tabindex]")];
  const mark = (one) => one.dataset.key || one.getAttribute("href") || one.getAttribute("aria-label") || one.textContent;
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const same = focused && marks(place).filter((one) => mark(one) === mark(focused)).indexOf(focused);
  const scrolled = [...place.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  place.replaceChildren(...content);
  if (focused) marks(place).filter((one) => mark(one) === mark(focused))[same]?.focus({ preventScroll: true });
  place.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
}

async function draw() {
  const mine = ++asked;
  drawnMs = performance.now();
  try {
    if (!overview) overview = await ask("../api/overview");
    drawOverview();
    const drawing = await chosenView();
    if (mine !== asked) return;
    const state = location.hash + (drawing.state || "");
    if (drawn !== state) {
      const isHere = isTurned || view.contains(document.activeElement);
      view.replaceChildren(element("h2", {}, drawing.title), drawing.frame(), element("div"));
      document.title = `${drawing.title} - Penstock`;
      if (isHere) view.focus({ preventScroll: true });
      isTurned = false;
      drawn = state;
    }
    isStill = Boolean(drawing.isStill);
    replaceContent(view.lastElementChild, drawing.content);
    document.body.dataset.drawn = String(mine);
  } catch (error) {
    if (mine !== asked) return;
    if (error.needsLogin) askForLogin();
    else say(error.message, true);
  } finally {
    if (mine === asked) ended = mine;
  }
}

function askForLogin() {
  events?.close();
  events = null;
  if (document.getElementById("login")) return;
  const fields = [["login", "User"], ["passcode", "Password"]];
  const made = form(fields, "Log in", (values) => logIn(values).then(begin, (error) => say(error.message, true)));
  made.id = "login";
  isStill = true;
  drawn = null;
  view.replaceChildren(element("h2", {}, "Log in"), made);
  made.querySelector("input").focus();
}

// Who has logged in by the form can log out.
async function begin() {
  try {
    const { login, csrf } = await session();
    const onclick = () => remove("../api/session").finally(() => location.reload());
    const out = element("button", { type: "button", onclick }, `Log out ${login}`);
    document.getElementById("who").replaceChildren(...(csrf ? [out] : []));
    turn();
    listen();
  } catch (error) {
    if (error.needsLogin) askForLogin();
    else say(error.message, true);
  }
}

function listen() {
  events?.close();
  events = null;
  if (document.hidden) return; // a browser has few connections to one gateway
  const mine = (events = new EventSource(address("../api/events")));
  mine.onmessage = (event) => {
    overview = JSON.parse(event.data);
    drawOverview();
    const isSelecting = !getSelection().isCollapsed && view.contains(getSelection().anchorNode);
    const isBusy = isSelecting || ended !== asked || document.querySelector("dialog");
    if (!isStill && !isBusy && performance.now() - drawnMs >= REFRESH_MS) draw();
  };
  mine.onerror = () => {
    if (mine.readyState !== EventSource.CLOSED) return;
    draw(); // says why
    setTimeout(() => { if (events === mine) listen(); }, AGAIN_MS);
  };
}

function turn() {
  restart();
  say("");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === (location.hash || "#/")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  drawn = null;
  view.replaceChildren();
  draw();
}

addEventListener("hashchange", () => {
  isTurned = true;
  turn();
});
addEventListener("keydown", (event) => {
  const search = document.getElementById("search");
  if (event.key !== "/" || !search || document.querySelector("input:focus, textarea:focus, dialog")) return;
  event.preventDefault();
  search.focus();
});
// Something was done, or is asked for anew.  What stands still shows its results in the notice alone.
document.addEventListener("changed", (event) => {
  if (!isStill || event.detail === "again") draw();
});
document.addEventListener("visibilitychange", () => {
  if (!document.getElementById("login")) listen();
});
begin();
