// Lists of destinations, consumers and connections: the gateway searches, sorts and pages.

import { charts } from "./charts.js";
import { action, ask, bytes, destinationLink, duration, element, link, path, send, shown, table, uriLink } from "./page.js";

const PAGE = 50;
const list = { search: "", sort: "", offset: 0 };

export function restart() {
  Object.assign(list, { search: "", sort: "", offset: 0 });
}

const redraw = () => document.dispatchEvent(new Event("changed"));
const rate = (row, name) => (row.rates ? row.rates[name] : "");
export const DESTINATIONS = [
  ["Name", (row) => destinationLink(row.kind, row.name), "name"],
  ["Kind", (row) => row.kind, "kind"],
  ["Depth", (row) => row.depth, "depth"],
  ["In flight", (row) => row.in_flight, "in_flight"],
  ["Delayed", (row) => row.delayed, "delayed"],
  ["Consumers", (row) => row.consumers, "consumers"],
  ["Memory", (row) => bytes(row.memory_bytes), "memory_bytes"],
  ["Disk", (row) => bytes(row.disk_bytes), "disk_bytes"],
  ["In/s", (row) => rate(row, "enqueued")],
  ["Out/s", (row) => rate(row, "delivered")],
  ["Dead-lettered", (row) => row.dead_lettered, "dead_lettered"],
  ["Expired", (row) => row.expired, "expired"],
];
const connectionLink = (row) => link(path("connection", row.connection_id), row.connection_id);
export const CONSUMERS = [
  ["Consumer", (row) => link(path("consumer", row.consumer_id), row.consumer_id), "consumer_id"],
  ["Connection", connectionLink, "connection_id"],
  ["Destination", (row) => uriLink(row.destination), "destination"],
  ["Subscription", (row) => row.subscription, "subscription"],
  ["Window", (row) => `${shown(row.in_flight)} of ${shown(row.prefetch)} in flight`, "in_flight"],
  ["Acknowledged", (row) => row.acknowledged, "acknowledged"],
  ["Gate", (row) => row.gate || "served", "gate"],
  ["Slow", (row) => (row.is_slow ? "yes" : ""), "is_slow"],
];
const CONNECTIONS = [
  ["Connection", connectionLink, "connection_id"],
  ["Protocol", (row) => row.protocol, "protocol"],
  ["Address", (row) => row.address, "address"],
  ["Client id", (row) => row.client_id, "client_id"],
  ["Login", (row) => row.login, "login"],
  ["Consumers", (row) => row.consumers, "consumers"],
  ["Holds", (row) => bytes(row.held_bytes), "held_bytes"],
  ["Its messages wait for", (row) => row.waits_for && `${row.waits_for}, since ${duration(row.waited_ms)}`, "waited_ms"],
];
const KINDS = {
  destinations: ["Destinations", DESTINATIONS, "-depth", "Search names"],
  consumers: ["Consumers", CONSUMERS, "consumer_id", "Search destinations"],
  connections: ["Connections", CONNECTIONS, "connection_id", "Search addresses, client ids, logins"],
};

function pager(answer) {
  const last = Math.min(answer.offset + PAGE, answer.matching);
  const move = (by) => () => {
    list.offset = Math.max(0, list.offset + by);
    redraw();
  };
  const button = (title, by, isPossible) =>
    element("button", { type: "button", onclick: move(by), disabled: isPossible ? undefined : "" }, title);
  return element(
    "div",
    { class: "pager" },
    button("Previous", -PAGE, answer.offset > 0),
    `${shown(answer.matching ? answer.offset + 1 : 0)} to ${shown(last)} of ${shown(answer.matching)}`,
    button("Next", PAGE, last < answer.matching),
  );
}

function searchForm(label) {
  const input = element("input", { type: "search", id: "search", autocomplete: "off" });
  input.value = list.search;
  input.addEventListener("input", () => {
    list.search = input.value;
    list.offset = 0;
    redraw();
  });
  const made = element("form", { role: "search" }, element("label", { for: "search" }, label), input);
  made.addEventListener("submit", (event) => event.preventDefault());
  return made;
}

export async function listView(what) {
  const [caption, columns, order, label] = KINDS[what];
  const by = list.sort || order;
  const query = new URLSearchParams({ search: list.search, sort: by, offset: list.offset, limit: PAGE });
  const [answer, figures] = await Promise.all([ask(`../api/${what}?${query}`), what === "destinations" ? charts() : []]);
  const choose = (key) => {
    list.sort = (list.sort || order) === `-${key}` ? key : `-${key}`; // as it is now: two clicks may come before a drawing
    list.offset = 0;
    redraw();
  };
  return {
    title: caption,
    frame: () => searchForm(label),
    content: [...figures, table(caption, columns, answer[what], { by, choose }), pager(answer)],
  };
}

const SHOWN = 200;

export async function subscriptionsView() {
  const query = new URLSearchParams({ search: list.search, limit: SHOWN });
  const { durable, subscriptions: rows } = await ask(`../api/subscriptions?${query}`);
  const remove = (row) =>
    action("Delete", `Delete the subscription ${row.name} with the ${shown(row.waiting)} messages that wait for it?`, async () => {
      await send("../api/subscriptions/delete", { client_id: row.client_id, name: row.name });
      return `${row.name} is deleted.`;
    });
  const columns = [
    ["Name", (row) => row.name],
    ["Client id", (row) => row.client_id],
    ["Topic", (row) => (row.source.includes("*") || row.source.endsWith(">") ? row.source : uriLink(row.source))],
    ["Selector", (row) => row.selector],
    ["Owner", (row) => row.owner],
    ["Consumers", (row) => row.consumers],
    ["Waiting", (row) => row.waiting],
    ["Actions", (row) => (row.consumers ? "" : remove(row))],
  ];
  const words = `${shown(durable)} durable subscriptions${durable > rows.length ? `, the first ${shown(rows.length)} of which are shown` : ""}.`;
  return {
    title: "Durable subscriptions",
    frame: () => searchForm("Search names, client ids, topics, owners"),
    content: [element("p", {}, words), table("Durable subscriptions", columns, rows)],
  };
}
