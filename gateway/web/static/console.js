// The console: every few seconds it asks /api and draws the view that the address names after #.
// Names come from clients: they reach the page only as text (textContent), never as HTML.

const REFRESH_MS = 2000;
const PAGE = 50;

const view = document.getElementById("view");
const notice = document.getElementById("notice");
const overviewList = document.getElementById("overview");
const list = { search: "", sort: "-depth", offset: 0 };
let drawn = ""; // the address whose frame is on the page, and its state
let asked = 0; // a draw that a later one has overtaken changes nothing

const number = new Intl.NumberFormat("en");
const shown = (value) => (typeof value === "number" ? number.format(value) : String(value));

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (count >= 1024 && power < units.length - 1) {
    count /= 1024;
    power += 1;
  }
  return `${count < 10 && power ? count.toFixed(1) : Math.round(count)} ${units[power]}`;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(shown(child)))));
  return made;
}

async function ask(path, options) {
  // Without the credentials that the page's own address may hold: fetch refuses such addresses.
  const response = await fetch(new URL(path, location.origin + location.pathname), options);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.detail || `${path}: ${response.status}`);
  return answer;
}

const send = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body) });
const destinationLink = (kind, name) =>
  element("a", { href: `#/destination/${kind}/${encodeURIComponent(name)}` }, name);

// columns: [title, cell of a row, column to sort by].  A cell is a text, a number or a node.
function table(caption, columns, rows, onSort) {
  const isNumber = (cell) => rows.length > 0 && typeof cell(rows[0]) === "number";
  const heads = columns.map(([title, cell, key]) => {
    const side = isNumber(cell) ? "number" : undefined;
    if (!onSort || !key) return element("th", { scope: "col", class: side }, title);
    const direction = list.sort === key ? "ascending" : list.sort === `-${key}` ? "descending" : undefined;
    const mark = { ascending: " ▲", descending: " ▼" }[direction] || "";
    const button = element("button", { type: "button", onclick: () => onSort(key) }, title + mark);
    return element("th", { scope: "col", class: side, "aria-sort": direction }, button);
  });
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      ...columns.map(([, cell]) => {
        const value = cell(row);
        return element("td", typeof value === "number" ? { class: "number" } : {}, value);
      }),
    ),
  );
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...body),
    ),
  );
}

const rate = (row, name) => (row.rates ? row.rates[name] : "");
const DESTINATIONS = [
  ["Name", (row) => destinationLink(row.kind, row.name), "name"],
  ["Kind", (row) => row.kind, "kind"],
  ["Depth", (row) => row.depth, "depth"],
  ["In flight", (row) => row.in_flight, "in_flight"],
  ["Delayed", (row) => row.delayed, "delayed"],
  ["Consumers", (row) => row.consumers, "consumers"],
  ["In/s", (row) => rate(row, "enqueued")],
  ["Out/s", (row) => rate(row, "delivered")],
  ["Dead-lettered", (row) => row.dead_lettered, "dead_lettered"],
];
const consumerLink = (row) => element("a", { href: `#/consumer/${row.consumer_id}` }, row.consumer_id);
const window_ = (row) => `${shown(row.in_flight)} of ${shown(row.prefetch)} in flight`;
const CONSUMERS = [
  ["Consumer", consumerLink, "consumer_id"],
  ["Destination", (row) => row.destination, "destination"],
  ["Subscription", (row) => row.subscription, "subscription"],
  ["Window", window_, "in_flight"],
  ["Acknowledged", (row) => row.acknowledged, "acknowledged"],
  ["Gate", (row) => row.gate || "served", "gate"],
  ["Slow", (row) => (row.is_slow ? "yes" : ""), "is_slow"],
];

function pager(answer) {
  const last = Math.min(answer.offset + PAGE, answer.matching);
  const move = (by) => () => {
    list.offset = Math.max(0, list.offset + by);
    draw();
  };
  const button = (title, by, is_possible) =>
    element("button", { type: "button", onclick: move(by), disabled: is_possible ? undefined : "" }, title);
  return element(
    "div",
    { class: "pager" },
    button("Previous", -PAGE, answer.offset > 0),
    `${shown(answer.matching ? answer.offset + 1 : 0)} to ${shown(last)} of ${shown(answer.matching)}`,
    button("Next", PAGE, last < answer.matching),
  );
}

function searchForm() {
  const input = element("input", { type: "search", id: "search", autocomplete: "off" });
  input.value = list.search;
  input.addEventListener("input", () => {
    list.search = input.value;
    list.offset = 0;
    draw();
  });
  const form = element("form", { role: "search" }, element("label", { for: "search" }, "Search names"), input);
  form.addEventListener("submit", (event) => event.preventDefault());
  return form;
}

// A view has a frame, drawn once for each of its states, and a content, drawn again with each answer: focus and input stay.
async function listView(what, caption, columns) {
  const query = new URLSearchParams({ search: list.search, sort: list.sort, offset: list.offset, limit: PAGE });
  const answer = await ask(`../api/${what}?${query}`);
  const sortBy = (key) => {
    list.sort = list.sort === `-${key}` ? key : `-${key}`;
    list.offset = 0;
    draw();
  };
  return { frame: searchForm, content: [table(caption, columns, answer[what], sortBy), pager(answer)] };
}

function confirmed(question) {
  return new Promise((resolve) => {
    const answer = (value) => () => {
      dialog.close();
      dialog.remove();
      resolve(value);
    };
    const dialog = element(
      "dialog",
      { "aria-label": "Confirm", oncancel: answer(false) },
      element("p", {}, question),
      element("button", { type: "button", onclick: answer(true) }, "Yes"),
      " ",
      element("button", { type: "button", onclick: answer(false) }, "No"),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}

const action = (title, question, run) =>
  element("button", {
    type: "button",
    onclick: async () => {
      if (!(await confirmed(question))) return;
      try {
        notice.textContent = await run();
      } catch (error) {
        notice.textContent = error.message;
      }
      draw();
    },
  }, title);

async function destinationView(kind, name) {
  const written = `/${kind}/${name}`;
  const query = new URLSearchParams({ kind, name, limit: 1 });
  const [found, consumers, settings] = await Promise.all([
    ask(`../api/destinations?${query}`),
    ask(`../api/consumers?${new URLSearchParams({ destination: `${kind}://${name}`, limit: 500 })}`),
    ask(`../api/explain/destination/${encodeURIComponent(written)}`),
  ]);
  const row = found.destinations[0];
  const facts = row ? [["State", (one) => (one.is_paused ? "paused" : "open")], ...DESTINATIONS.slice(2)] : [];
  const frame = () =>
    element(
      "div",
      {},
      element("h2", {}, `${kind} ${name}`),
      element(
        "form",
        {},
        ...(kind === "queue"
          ? [
              action("Purge", `Drop all messages that wait in the queue ${name}?`, async () => {
                await send("../api/purge", { destination: written });
                return `The purge of ${name} has begun.`;
              }),
              row?.is_paused
                ? action("Resume", `Let the queue ${name} hand its messages over again?`, async () => {
                    await send("../api/resume", { destination: written });
                    return `${name} is resumed.`;
                  })
                : action("Pause", `Hand no messages of the queue ${name} over? It accepts messages.`, async () => {
                    await send("../api/pause", { destination: written });
                    return `${name} is paused.`;
                  }),
            ]
          : []),
        action("Delete", `Delete the ${kind} ${name}, with its messages?`, async () => {
          await send("../api/delete", { destination: written, force: true });
          location.hash = "#/";
          return `${name} is deleted.`;
        }),
      ),
    );
  const known = element("dl", {}, ...facts.map(([title, cell]) =>
    element("div", {}, element("dt", {}, title), element("dd", {}, cell(row)))));
  const origins = [
    ["Setting", ([key]) => key],
    ["Value", ([, one]) => String(one.value)],
    ["Comes from", ([, one]) => one.source],
  ];
  return {
    frame,
    state: row?.is_paused && "paused",
    content: [
      row ? known : element("p", {}, "It does not exist now."),
      table("Consumers", CONSUMERS, consumers.consumers),
      table("Settings in force", origins, Object.entries(settings.settings)),
    ],
  };
}

async function whyView(what, id) {
  const answer = await ask(`../api/why/${what}/${encodeURIComponent(id)}`);
  const lines = answer.lines.map((line) => element("li", {}, line));
  return { frame: () => element("h2", {}, `Why: ${what} ${id}`), content: [element("ul", {}, ...lines)] };
}

async function producersView() {
  const { blocked_producers: rows } = await ask("../api/overview");
  const columns = [
    ["Connection", (row) => element("a", { href: `#/producer/${row.connection_id}` }, row.connection_id)],
    ["Waits for", (row) => row.reason],
    ["Since", (row) => `${shown(Math.round(row.waited_ms / 1000))} s`],
  ];
  const text = rows.length ? table("Producers that wait", columns, rows) : element("p", {}, "No producer waits.");
  return { frame: () => element("h2", {}, "Waiting producers"), content: [text] };
}

async function drawOverview() {
  const stats = await ask("../api/overview");
  const facts = [
    ["Store", stats.store.is_accepting ? "accepts messages" : stats.store.reason, !stats.store.is_accepting],
    ["Memory", `${bytes(stats.memory_bytes)} of ${bytes(stats.memory_limit_bytes)}`,
      stats.memory_bytes >= stats.memory_limit_bytes],
    ["Connections", shown(stats.connections)],
    ["Waiting producers", shown(stats.blocked_producers.length), stats.blocked_producers.length > 0],
  ];
  if (stats.store.retention) facts.push(["Retention", stats.store.retention, true]);
  overviewList.replaceChildren(...facts.map(([title, text, isBad]) =>
    element("div", {}, element("dt", {}, title), element("dd", isBad ? { class: "bad" } : {}, text))));
}

function chosenView() {
  const [first = "", ...rest] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  if (first === "destination") return destinationView(rest[0], rest.slice(1).join("/"));
  if (first === "consumers") return listView("consumers", "Consumers", CONSUMERS);
  if (first === "consumer" || first === "producer") return whyView(first, rest[0]);
  if (first === "producers") return producersView();
  return listView("destinations", "Destinations", DESTINATIONS);
}

async function draw() {
  const mine = ++asked;
  try {
    const [drawing] = await Promise.all([chosenView(), drawOverview()]);
    if (mine !== asked) return;
    const address = location.hash + (drawing.state || "");
    if (drawn !== address || !view.lastElementChild) {
      view.replaceChildren(drawing.frame(), element("div"));
      drawn = address;
    }
    const focused = document.activeElement?.closest("th")?.cellIndex;
    view.lastElementChild.replaceChildren(...drawing.content);
    if (focused !== undefined) view.querySelectorAll("th button")[focused]?.focus();
    document.body.dataset.drawn = String(mine);
  } catch (error) {
    if (mine === asked) notice.textContent = error.message;
  }
}

function turn() {
  list.search = "";
  list.offset = 0;
  list.sort = location.hash === "#/consumers" ? "consumer_id" : "-depth";
  notice.textContent = "";
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.getAttribute("href") === (location.hash || "#/");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  drawn = "";
  view.replaceChildren();
  draw();
}

addEventListener("hashchange", turn);
setInterval(() => {
  if (!document.hidden) draw();
}, REFRESH_MS);
turn();
