// One destination, and where settings come from.

import { charts } from "./charts.js";
import { CONSUMERS, DESTINATIONS } from "./lists.js";
import { action, ask, bytes, element, facts, finished, form, link, path, remove, send, shown, table } from "./page.js";

const SETTINGS = [
  ["Setting", ([key]) => key],
  ["Value", ([, one]) => String(one.value)],
  ["Comes from", ([, one]) => one.source],
  ["Instead of", ([, one]) => one.overrode.map((other) => `${other.value} (${other.source})`).join("; ")],
];
export const settingsTable = (answer) => table("Settings in force", SETTINGS, Object.entries(answer.settings));

function limits(one) {
  const parts = [];
  if (one.limit_bytes >= 0) parts.push(`${bytes(one.used_bytes)} of ${bytes(one.limit_bytes)}`);
  if (one.limit_messages >= 0) parts.push(`${shown(one.used_messages)} of ${shown(one.limit_messages)} messages`);
  return `${parts.join(", ")}${one.is_full ? `, full (${one.policy})` : ""}`;
}

function buttons(kind, name, row) {
  const written = `/${kind}/${name}`;
  const found = [link(path("send", kind, name), "Send a message")];
  if (kind === "queue") {
    found.push(
      link(path("messages", name), "Messages"),
      link(path("dead", name), "Dead letters by cause"),
      action("Purge", `Drop all messages that wait in the queue ${name}?`, async ({ filter }) => {
        await send("../api/purge", { destination: written, filter });
        return `The purge of ${name} has begun.`;
      }, [["filter", "Only those that a selector matches"]]),
      row?.is_paused
        ? action("Resume", `Let the queue ${name} hand its messages over again?`, async () => {
            await send("../api/resume", { destination: written });
            return `${name} is resumed.`;
          })
        : action("Pause", `Hand no messages of the queue ${name} over? It accepts messages.`, async () => {
            await send("../api/pause", { destination: written });
            return `${name} is paused.`;
          }),
    );
  }
  found.push(
    action("Delete", `Delete the ${kind} ${name}, with its messages?`, async () => {
      await send("../api/delete", { destination: written, force: true });
      location.hash = "#/";
      return `${name} is deleted.`;
    }),
  );
  return element("div", { class: "pager" }, ...found);
}

export async function destinationView(kind, name) {
  const uri = `${kind}://${name}`;
  const of = (query) => new URLSearchParams(query);
  const [found, consumers, addresses, settings, figures] = await Promise.all([
    ask(`../api/destinations?${of({ kind, name, limit: 1 })}`),
    ask(`../api/consumers?${of({ destination: uri, limit: 500 })}`),
    ask(`../api/addresses?${of({ address: uri, limit: 1 })}`),
    ask(`../api/explain/destination/${encodeURIComponent(`/${kind}/${name}`)}`),
    charts(uri),
  ]);
  const row = found.destinations[0];
  const pairs = row ? [["State", row.is_paused ? "paused" : "open"], ...DESTINATIONS.slice(2).map(([title, cell]) => [title, cell(row)])] : [];
  pairs.push(...addresses.addresses.map((one) => ["Limit", limits(one), one.is_full]));
  return {
    title: `${kind} ${name}`,
    frame: () => buttons(kind, name, row),
    state: row?.is_paused && "paused",
    content: [
      row ? facts(pairs) : element("p", {}, "It does not exist now."),
      ...figures,
      table("Consumers", CONSUMERS, consumers.consumers),
      settingsTable(settings),
    ],
  };
}

export async function whyView(what, id) {
  const answer = await ask(`../api/why/${what}/${encodeURIComponent(id)}`);
  const content = [element("pre", { tabindex: 0 }, answer.lines.join("\n"))];
  if (what === "consumer") content.push(settingsTable(await ask(`../api/explain/consumer/${encodeURIComponent(id)}`)));
  return { title: `Why: ${what} ${id}`, frame: () => element("div"), content };
}

// What was searched for in the log stands still: a search reads much of it.  before: the log offset below which to search.
export async function historyView(id, before = "") {
  const asked = before && `?${new URLSearchParams({ before })}`;
  const answer = await ask(`../api/why/message/${encodeURIComponent(id)}${asked}`).catch((error) => {
    if (!error.isUnknown) throw error;
    return { lines: [error.message], search: { is_whole: error.before === undefined, from_offset: error.before } };
  });
  const { lines, search } = answer;
  const content = [element("pre", { tabindex: 0 }, lines.join("\n"))];
  if (search && !search.is_whole) {
    const earlier = String(search.from_offset);
    content.push(element("p", {}, link(path("why", id, earlier), `Search the log below offset ${earlier}`)));
  }
  return { title: `Why: message ${id}`, frame: () => element("div"), isStill: Boolean(search), content };
}

export async function connectionView(id) {
  const [answer, consumers] = await Promise.all([
    ask(`../api/why/producer/${id}`),
    ask(`../api/consumers?${new URLSearchParams({ connection_id: id, limit: 500 })}`),
  ]);
  const close = action("Close the connection", `Close connection ${id}? Its messages return.`, async () => {
    await remove(`../api/connections/${id}`);
    location.hash = "#/connections";
    return `Connection ${id} is closed.`;
  });
  return {
    title: `Connection ${id}`,
    frame: () => element("div", { class: "pager" }, close),
    content: [element("pre", { tabindex: 0 }, answer.lines.join("\n")), table("Consumers", CONSUMERS, consumers.consumers)],
  };
}

// The settings that apply to any name, also to one that does not exist yet.
export async function settingsView(name = "") {
  const frame = () =>
    element(
      "div",
      {},
      form([["name", "Destination, as a client writes it", name]], "Show", (values) => {
        location.hash = path("settings", values.name);
      }),
      action("Reload the configuration", "Read the configuration's files again?", async () => {
        const { applied, restart } = await send("../api/reload", {});
        return `Applied: ${applied.join("; ") || "nothing has changed"}.${restart.length ? ` After a restart: ${restart.join("; ")}.` : ""}`;
      }),
    );
  if (!name) return { title: "Settings", frame, isStill: true, content: [] };
  const answer = await ask(`../api/explain/destination/${encodeURIComponent(name)}`);
  const permissions = Object.entries(answer.permissions).map(([action, groups]) => [action, groups.join(", ")]);
  return {
    title: `Settings of ${answer.what}`,
    frame,
    isStill: true,
    content: [
      settingsTable(answer),
      table("Permissions", [["Action", ([one]) => one], ["Groups", ([, groups]) => groups]], permissions),
    ],
  };
}

export async function retried(queue, filter) {
  const run = await finished("retry", await send("../api/retry", { queue, filter }));
  const skipped = run.skipped ? ` ${shown(run.skipped)} name no origin and stay.` : "";
  return `${shown(run.moved)} of ${queue} went back.${skipped}${run.failure && ` It ended early: ${run.failure}`}`;
}
