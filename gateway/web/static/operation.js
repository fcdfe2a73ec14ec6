// The gateway as a whole: producers that wait, the schedule, the store, exports, alarms.

import { action, ask, bytes, duration, element, facts, link, path, send, shown, table, time, uriLink } from "./page.js";

const nothing = () => element("div");
const orElse = (rows, made, words) => [rows.length ? made : element("p", {}, words)];

export function producersView(overview) {
  const rows = overview.blocked_producers;
  const columns = [
    ["Connection", (row) => link(path("connection", row.connection_id), row.connection_id)],
    ["Waits for", (row) => row.reason],
    ["Since", (row) => duration(row.waited_ms)],
  ];
  const content = orElse(rows, table("Producers that wait", columns, rows), "No producer waits.");
  return { title: "Waiting producers", frame: nothing, content };
}

export function alarmsView(overview) {
  const columns = [["Level", (row) => row.level], ["What", (row) => row.text]];
  const content = orElse(overview.alarms, table("Alarms", columns, overview.alarms), "Nothing is wrong.");
  return { title: "Alarms", frame: nothing, content };
}

export async function scheduleView() {
  const answer = await ask("../api/schedule?limit=200");
  const columns = [
    ["Due", (row) => time(row.due_ms)],
    ["Destination", (row) => uriLink(row.destination)],
    ["Repeats", (row) => (row.repeats ? `yes, fired ${shown(row.fired)} times` : "no")],
    ["Size", (row) => bytes(row.size_bytes)],
    ["Held back by", (row) => row.held],
    ["Message", (row) => link(path("why", row.id), row.id)],
    ["Actions", (row) => action("Cancel", `Cancel the scheduled message ${row.id}?`, async () => {
      const { cancelled } = await send("../api/schedule/cancel", { ids: [row.id] });
      return cancelled ? "It is cancelled." : "It was fired or cancelled before.";
    })],
  ];
  const words = `${shown(answer.pending)} messages wait for their time${answer.held ? `, ${shown(answer.held)} are held back` : ""}.`;
  return {
    title: "Schedule",
    frame: nothing,
    content: [element("p", {}, words), table(answer.more ? "Due first" : "All", columns, answer.schedules)],
  };
}

const DECISIONS = { commit: ["Commit", "committed"], rollback: ["Roll back", "rolled back"] };

export async function transactionsView() {
  const answer = await ask("../api/transactions?limit=200");
  const decide = (row, word) => {
    const [title, outcome] = DECISIONS[word];
    const question = `${title} ${row.xid}? Its transaction manager will be told that an operator has decided.`;
    return action(title, question, async () => {
      await send(`../api/transactions/${word}`, { xid: row.xid });
      return `${row.xid} is ${outcome}.`;
    });
  };
  const prepared = [
    ["Transaction", (row) => row.xid],
    ["User", (row) => row.user],
    ["Prepared", (row) => time(row.prepared_ms)],
    ["Sends", (row) => row.messages],
    ["Acknowledges", (row) => row.acknowledged],
    ["Size", (row) => bytes(row.size_bytes)],
    ["Actions", (row) => element("span", {}, decide(row, "commit"), " ", decide(row, "rollback"))],
  ];
  const decided = [
    ["Transaction", (row) => row.xid],
    ["User", (row) => row.user],
    ["Decided", (row) => time(row.decided_ms)],
    ["Outcome", (row) => row.outcome],
    ["Actions", (row) => action("Forget", `Forget ${row.xid}? Do so only if its transaction manager will never ask.`, async () => {
      await send("../api/transactions/forget", { xid: row.xid });
      return `${row.xid} is forgotten.`;
    })],
  ];
  const words = `${shown(answer.prepared)} distributed transactions are prepared and wait for their transaction managers.`;
  const tables = [table(answer.prepared > answer.transactions.length ? "Prepared first" : "Prepared", prepared, answer.transactions)];
  if (answer.decided.length) tables.push(table("Decided by operators", decided, answer.decided));
  return { title: "Transactions", frame: nothing, content: [element("p", {}, words), ...tables] };
}

function needs(segment) {
  const current = segment.is_current ? ["it is being written"] : [];
  const pins = segment.pins.map((one) => `${one.owner}: ${shown(one.messages)} ${one.messages === 1 ? "message" : "messages"}, ${bytes(one.bytes)}, oldest ${time(one.oldest_ms)}`);
  const lines = [...current, ...pins, ...segment.reasons].map((line) => element("li", {}, line));
  return element("ul", {}, ...lines);
}

export async function storeView() {
  const [space, { readers }] = await Promise.all([ask("../api/store/du?why=true"), ask("../api/store/readers")]);
  const segments = [
    ["Segment", (one) => one.name],
    ["Of the log", (one) => bytes(one.log_bytes)],
    ["On the disk", (one) => bytes(one.disk_bytes) + (one.is_sparse ? ", thinned" : "")],
    ["Who needs it", needs],
  ];
  const exports = [
    ["Kind", (one) => one.kind],
    ["Reader", (one) => one.reader],
    ["Takes", (one) => one.destination],
    ["Has the log until", (one) => one.to_offset],
    ["Behind", (one) => bytes(one.lag_bytes)],
    ["Pace", (one) => `${bytes(one.bytes_per_second)}/s`],
    ["Up to date in", (one) => (one.lag_bytes ? (one.eta_ms === null ? "it stands" : duration(one.eta_ms)) : "now")],
    ["Last read", (one) => time(one.read_ms)],
  ];
  const totals = facts([
    ["Directory", space.directory],
    ["Log", bytes(space.log_disk_bytes)],
    ["Queues", bytes(space.queue_disk_bytes)],
    ["Index", bytes(space.index_disk_bytes)],
    ["Log offsets", `${shown(space.first_offset)} to ${shown(space.end_offset)}`],
  ]);
  const onclick = () => document.dispatchEvent(new CustomEvent("changed", { detail: "again" }));
  return {
    title: "Store",
    frame: () => element("button", { type: "button", onclick }, "Look again"),
    isStill: true,
    content: [totals, table("Segments", segments, space.segments), ...orElse(readers, table("Exports and streams", exports, readers), "Nothing exports the log.")],
  };
}
