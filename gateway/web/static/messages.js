// Messages of a queue: search, one message, sending, dead letters by cause.

import { retried } from "./destination.js";
import { action, ask, bytes, element, form, link, path, remove, send, shown, table, time, told, uriLink } from "./page.js";

const PAGE = 50;
const LETTERS_PAGE = 500;
const LETTERS_MOST = 5000; // dead letters looked at for their causes
const SHARED = ["dlqCause", "_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE"]; // what the letters of one group have in common
const HEX_MOST = 65536; // octets shown
const still = (title, frame, content) => ({ title, frame: () => frame, isStill: true, content });
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
const of = (queue) => `../api/destinations/${encodeURIComponent(`queue://${queue}`)}`;
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));

// search: {filter} of what waits, or {id, key, from, to} of the log.
export async function messagesView(queue, searched = "{}") {
  const search = JSON.parse(searched);
  const go = (values) => {
    const asked = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
    location.hash = path("messages", queue, JSON.stringify(asked));
  };
  const frame = element(
    "div",
    {},
    element("h3", {}, "Waiting"),
    form([["filter", "Selector", search.filter]], "Search", go),
    element("h3", {}, "In the log, also what is settled"),
    form(
      [["id", "Message id", search.id], ["key", "Key", search.key], ["from", "From", search.from], ["to", "To", search.to]],
      "Search the log",
      (values) => go({ ...values, log: true }),
    ),
    element("h3", {}, "History of a message"),
    form([["id", "Message id, the store's or the sender's"]], "Show", ({ id }) => { location.hash = path("why", id); }),
  );
  return still(`Messages of ${queue}`, frame, [search.log ? await logPage(queue, search) : await waitingPage(queue, search)]);
}

// A page whose end leads to the next one, which replaces it.
function paged(made, more) {
  const page = element("div", {}, made);
  if (more) {
    const onclick = () => more().then((next) => page.replaceWith(next), (error) => told(() => { throw error; }));
    page.append(element("button", { type: "button", onclick }, "Next page"));
  }
  return page;
}

async function waitingPage(queue, search, next = "") {
  const start = `${of(queue)}/messages?${query({ filter: search.filter || "", limit: PAGE, body: "none" })}`;
  const answer = await ask(next ? `../api/cursors/${next}?limit=${PAGE}` : start);
  const columns = [
    ["Message", (one) => link(path("message", one.id, queue), one.id)],
    ["Stored", (one) => time(one.store_time_ms)],
    ["Type", (one) => one.type || ""],
    ["Correlation id", (one) => one.correlation_id || ""],
    ["Priority", (one) => one.priority],
    ["Body", (one) => bytes(one.body_bytes)],
  ];
  return paged(table("Waiting messages", columns, answer.messages), answer.next && (() => waitingPage(queue, search, answer.next)));
}

async function logPage(queue, search, before = "") {
  const { id = "", key = "", from = "", to = "" } = search;
  const asked = id ? { id } : { key, destination: `queue://${queue}`, from, to, before, limit: PAGE };
  const answer = await ask(`../api/store/query?${query(asked)}`);
  const columns = [
    ["Message", (one) => link(path("message", one.id, queue), one.id)],
    ["Destination", (one) => uriLink(one.destination)],
    ["Stored", (one) => time(one.store_time_ms)],
    ["Keys", (one) => one.keys.join(", ")],
    ["Body", (one) => bytes(one.body_bytes)],
  ];
  return paged(table("Messages in the log", columns, answer.messages), answer.next_before && (() => logPage(queue, search, answer.next_before)));
}

function octetsOf(message) {
  if (message.body_base64 === undefined) return new TextEncoder().encode(message.body || "");
  return Uint8Array.from(atob(message.body_base64), (one) => one.charCodeAt(0));
}

function hex(octets) {
  const lines = [];
  for (let start = 0; start < Math.min(octets.length, HEX_MOST); start += 16) {
    const some = [...octets.slice(start, start + 16)];
    const digits = some.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const text = some.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${text}`);
  }
  return lines.join("\n") + (octets.length > HEX_MOST ? "\n..." : "");
}

function json(octets) {
  try {
    return JSON.stringify(JSON.parse(new TextDecoder().decode(octets)), null, 2);
  } catch (error) {
    return `The body is no JSON: ${error.message}`;
  }
}

function body(message) {
  if (!message.whole) return element("p", {}, `The body has ${bytes(message.body_bytes)}, too much to show.`);
  const octets = octetsOf(message);
  const place = element("pre", { tabindex: 0, "aria-label": "Body" });
  const forms = { Text: (one) => new TextDecoder().decode(one), JSON: json, Hex: hex };
  const choices = Object.entries(forms).map(([title, words]) =>
    element("button", {
      type: "button",
      onclick: (event) => {
        place.textContent = words(octets);
        for (const one of choices) one.setAttribute("aria-pressed", String(one === event.currentTarget));
      },
    }, title),
  );
  choices[0].click();
  return element("section", { "aria-label": "Body" }, element("h3", {}, `Body, ${bytes(octets.length)}`), element("div", { class: "pager" }, ...choices), place);
}

// The log has it, unless it is not persistent and waits in memory.
async function found(id, queue) {
  const logged = await ask(`../api/messages/${encodeURIComponent(id)}?body=base64`).catch((error) => error);
  if (!(logged instanceof Error)) return logged;
  const asked = query({ filter: `JMSMessageID = ${quoted(id)}`, limit: 1, body: "base64" });
  const { messages } = await ask(`${of(queue)}/messages?${asked}`);
  if (!messages.length) throw logged;
  return messages[0];
}

export async function messageView(id, queue) {
  const message = await found(id, queue);
  const one = `${of(queue)}/messages/${encodeURIComponent(id)}`;
  const back = (text) => {
    location.hash = path("messages", queue);
    return text;
  };
  const to = [["to", "Destination"]];
  const buttons = [
    link(path("messages", queue), `Messages of ${queue}`),
    link(path("why", id), "History"),
    action("Move", `Move the message to another destination?`, async (values) => {
      await send(`${one}/move`, values);
      return back(`It is in ${values.to} now.`);
    }, to),
    action("Copy", `Send a copy of the message?`, async (values) => {
      await send(`${one}/copy`, values);
      return `A copy is in ${values.to}.`;
    }, to),
    action("Delete the message", `Delete ${id}?`, async () => {
      await remove(one);
      return back("It is deleted.");
    }),
  ];
  if (message.annotations["original-destination"]) {
    const run = () => retried(queue, `JMSMessageID = ${quoted(id)}`).then(back);
    buttons.push(action("Retry", "Send the dead letter back to where it failed?", run));
  }
  const { properties, annotations, body: _, body_base64: __, body_bytes: ___, whole: ____, ...headers } = message;
  const rows = (pairs) => Object.entries(pairs).filter(([, value]) => value !== null);
  const columns = [["Name", ([name]) => name], ["Value", ([name, value]) => (name === "store_time_ms" || (name === "expires_ms" && value) ? time(value) : String(value))]];
  return still(`Message ${id}`, element("div", { class: "pager" }, ...buttons), [
    body(message),
    table("Headers", columns, rows(headers)),
    table("Properties", columns, rows(properties)),
    table("Added by the gateway", columns, rows(annotations)),
  ]);
}

export function sendView(kind, name) {
  const fields = [
    ["body", "Body", "\n"],
    ["properties", "Properties (JSON)", "{}\n"],
    ["content_type", "Content type"],
    ["correlation_id", "Correlation id"],
    ["type", "JMSType"],
    ["priority", "Priority", "4"],
    ["ttl_ms", "Expires after (ms, 0 for never)", "0"],
    ["persistent", "Persistent", true],
  ];
  const submit = (values) =>
    told(async () => {
      const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
      given.properties = JSON.parse(values.properties || "{}");
      for (const count of ["priority", "ttl_ms"]) given[count] = Number(values[count]);
      const { id } = await send(`../api/destinations/${encodeURIComponent(`${kind}://${name}`)}/messages`, given);
      return `Sent${id ? ` as ${id}` : ", for later"}.`;
    });
  const made = form(fields, "Send", submit);
  made.className = "tall";
  return still(`Send to ${kind} ${name}`, made, []);
}

export async function deadView(queue) {
  const groups = new Map();
  let seen = 0;
  let next = `${of(queue)}/messages?${query({ limit: LETTERS_PAGE, body: "none" })}`;
  while (next && seen < LETTERS_MOST) {
    const answer = await ask(next);
    for (const one of answer.messages) {
      const said = one.annotations;
      const key = JSON.stringify(SHARED.map((name) => said[name]));
      const origin = said["original-destination"] || "";
      const cause = said.dlqCause || (said._AMQ_ACTUAL_EXPIRY ? "expired" : "no dead letter");
      const group = groups.get(key) || { cause, origin, said, count: 0, oldest: one.store_time_ms };
      group.count += 1;
      group.words = said.dlqDeliveryFailureCause || "";
      groups.set(key, group);
    }
    seen += answer.messages.length;
    next = answer.next && `../api/cursors/${answer.next}?limit=${LETTERS_PAGE}`;
  }
  const selector = ({ said }) =>
    SHARED.map((name) => (said[name] ? `${name} = ${quoted(said[name])}` : `${name} IS NULL`)).join(" AND ");
  const columns = [
    ["Cause", (one) => one.cause],
    ["Failed at", (one) => one.origin],
    ["Messages", (one) => one.count],
    ["Oldest", (one) => time(one.oldest)],
    ["The last one says", (one) => one.words],
    ["Selector", (one) => element("code", {}, selector(one))],
    ["Actions", (one) => element("span", { class: "pager" },
      link(path("messages", queue, JSON.stringify({ filter: selector(one) })), "Show"),
      action("Retry", `Send ${shown(one.count)} messages back to ${one.origin}?`, () => retried(queue, selector(one))))],
  ];
  const rows = [...groups.values()].sort((one, other) => other.count - one.count);
  const limit = next ? `The first ${shown(seen)} messages of the queue.` : `All ${shown(seen)} messages of the queue.`;
  return still(`Dead letters of ${queue}`, element("p", {}, limit), [table("By cause and origin", columns, rows)]);
}
