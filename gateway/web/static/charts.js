// Small charts of the last hour: SVG by hand, from /api/history.

import { ask, bytes, element, shown } from "./page.js";

const FRESH_MS = 9000; // the gateway adds a point every ten seconds
const MINUTE = 6; // points
const WIDTH = 240;
const HEIGHT = 48;
const known = {}; // by destination: when the history was asked for, and its answer

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Returns the lines of a chart: a gap where a minute is missing, a dot where a point stands alone.
function line(points, most) {
  const at = (index) => ((index / (points.length - 1)) * WIDTH).toFixed(1);
  const height = (value) => (HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1);
  let last = -Infinity; // with many destinations the gateway looks less often than every ten seconds
  return points
    .map((value, index) => {
      if (value === null) return "";
      const step = index - last <= MINUTE ? `L${at(index)} ${height(value)}` : `M${at(index)} ${height(value)}h0.1`;
      last = index;
      return step;
    })
    .join("");
}

function chart(title, points, words) {
  const there = points.filter((value) => value !== null);
  const now = there.length ? words(there.at(-1)) : "none yet";
  const most = there.reduce((one, other) => Math.max(one, other), 0);
  const said = `${title}: ${now}, at most ${words(most)} in the last hour`;
  return element(
    "figure",
    {},
    element("figcaption", {}, `${title} `, element("b", {}, now), `, at most ${words(most)}`),
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": said, preserveAspectRatio: "none" },
      svg("path", { d: line(points, most || 1) }),
    ),
  );
}

const perSecond = (value) => `${shown(value)}/s`;
const CHARTS = [
  ["Depth", "depth", shown],
  ["In flight", "in_flight", shown],
  ["In", "enqueued_per_s", perSecond],
  ["Out", "delivered_per_s", perSecond],
  ["Acknowledged", "acknowledged_per_s", perSecond],
  ["Memory", "memory_bytes", bytes],
  ["Connections", "connections", shown],
];

// destination: as queue://NAME, "" for the gateway.  One without a history has no charts.
export async function charts(destination = "") {
  if (!known[destination] || performance.now() - known[destination].askedMs > FRESH_MS) {
    for (const old of Object.keys(known)) if (old) delete known[old];
    const query = destination ? `?${new URLSearchParams({ destination })}` : "";
    known[destination] = { askedMs: performance.now(), answer: ask(`../api/history${query}`).catch(() => null) };
  }
  const history = await known[destination].answer;
  if (!history?.depth.some((value) => value !== null)) return [];
  const figures = CHARTS.filter(([, column]) => history[column]).map(([title, column, words]) => chart(title, history[column], words));
  return [element("section", { class: "charts", "aria-label": "The last hour" }, ...figures)];
}
