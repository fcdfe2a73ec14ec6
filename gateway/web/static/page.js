// What the views are made of: elements, tables, dialogs, and requests to /api.
// Names come from clients: they reach the page only as text (textContent), never as HTML.

const number = new Intl.NumberFormat("en");
export const shown = (value) => (typeof value === "number" ? number.format(value) : String(value));
const notice = document.getElementById("notice");

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (count >= 1024 && power < units.length - 1) {
    count /= 1024;
    power += 1;
  }
  return `${count < 10 && power ? count.toFixed(1) : Math.round(count)} ${units[power]}`;
}

export function duration(ms) {
  const s = Math.round(ms / 1000);
  if (s < 120) return `${shown(s)} s`;
  return s < 7200 ? `${Math.round(s / 60)} min` : `${shown(Math.round(s / 3600))} h`;
}

export const time = (ms) => (ms ? new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC") : "");

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(shown(child)))));
  return made;
}

export const link = (href, text) => element("a", { href }, text);
export const path = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
export const destinationLink = (kind, name) => link(path("destination", kind, name), name);

// uri: queue://NAME or topic://NAME.
export function uriLink(uri) {
  const [, kind, name] = /^(queue|topic):\/\/(.*)$/s.exec(uri) || [];
  return kind ? link(path("destination", kind, name), uri) : uri;
}

// Without the credentials that the page's own address may hold: fetch refuses such addresses.
export const address = (relative) => new URL(relative, location.origin + location.pathname);

// Of the session; requests that change something need it, and no other site knows it.
let csrf = "";

export async function ask(relative, options = {}) {
  const response = await fetch(address(relative), { ...options, headers: { "X-Penstock-CSRF": csrf } });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(answer.detail || `${relative}: ${response.status}`);
    error.needsLogin = response.status === 401;
    error.isUnknown = response.status === 404;
    error.before = answer.before;
    throw error;
  }
  return answer;
}

// Returns who asks, "" where nobody needs to log in.
export async function session(asked = ask("../api/session")) {
  const answer = await asked;
  csrf = answer.csrf;
  return answer;
}

export const logIn = (values) => session(send("../api/session", values));

export const send = (relative, body) => ask(relative, { method: "POST", body: JSON.stringify(body) });
export const remove = (relative) => ask(relative, { method: "DELETE" });

// columns: [title, cell of a row, column to sort by].  A cell is a text, a number or a node.
// sorting: {by, choose}: the column with - before it for the largest first, and what a click on a title calls.
export function table(caption, columns, rows, sorting) {
  const isNumber = (cell) => rows.length > 0 && typeof cell(rows[0]) === "number";
  const heads = columns.map(([title, cell, key]) => {
    const side = isNumber(cell) ? "number" : undefined;
    if (!sorting || !key) return element("th", { scope: "col", class: side }, title);
    const direction = sorting.by === key ? "ascending" : sorting.by === `-${key}` ? "descending" : undefined;
    const mark = { ascending: " ▲", descending: " ▼" }[direction] || "";
    const onclick = () => sorting.choose(key);
    const button = element("button", { type: "button", "data-key": `sort ${key}`, onclick }, title + mark);
    return element("th", { scope: "col", class: side, "aria-sort": direction }, button);
  });
  const cells = (row) =>
    columns.map(([, cell]) => {
      const value = cell(row);
      return element("td", typeof value === "number" ? { class: "number" } : {}, value);
    });
  return element(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))),
    ),
  );
}

// pairs: [title, value, is it bad].
export const facts = (pairs) =>
  element(
    "dl",
    {},
    ...pairs.map(([title, value, isBad]) =>
      element("div", {}, element("dt", {}, title), element("dd", isBad ? { class: "bad" } : {}, value)),
    ),
  );

const AUTOCOMPLETE = { login: "username", passcode: "current-password" };

// fields: [name, label, value] of texts; a value of several lines gets a larger field, true or false a box.
export function inputs(fields) {
  return fields.map(([name, label, value = ""]) => {
    const control =
      typeof value === "boolean"
        ? element("input", { type: "checkbox", name, checked: value ? "" : undefined })
        : value.includes("\n")
          ? element("textarea", { name, rows: 5 })
          : element("input", { name, autocomplete: AUTOCOMPLETE[name] || "off", spellcheck: "false", type: name === "passcode" ? "password" : "text" });
    if (typeof value === "string") control.value = value.trim();
    return element("label", {}, `${label} `, control);
  });
}

export const valuesOf = (form) =>
  Object.fromEntries([...form.elements].filter((one) => one.name).map((one) => [one.name, one.type === "checkbox" ? one.checked : one.value]));

export function form(fields, title, onsubmit) {
  const made = element("form", {}, ...inputs(fields), element("button", { type: "submit" }, title));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    onsubmit(valuesOf(made));
  });
  return made;
}

// Returns what was filled in, or null after No.
export function confirmed(question, fields = []) {
  return new Promise((resolve) => {
    const asked = element("form", { method: "dialog" }, element("p", {}, question), ...inputs(fields));
    const dialog = element("dialog", { "aria-label": "Confirm" }, asked);
    const answer = (value) => {
      dialog.close(); // gives the focus back
      dialog.remove();
      resolve(value);
    };
    asked.append(
      element("button", { type: "submit" }, "Yes"),
      element("button", { type: "button", onclick: () => answer(null) }, "No"),
    );
    asked.addEventListener("submit", (event) => {
      event.preventDefault();
      answer(valuesOf(asked));
    });
    dialog.addEventListener("cancel", () => answer(null));
    document.body.append(dialog);
    dialog.showModal();
  });
}

// A button that asks first; run gets what was filled in and returns the notice.  The view is drawn again afterwards.
export const action = (title, question, run, fields) =>
  element("button", {
    type: "button",
    onclick: async () => {
      const values = await confirmed(question, fields);
      if (values) await told(() => run(values));
    },
  }, title);

export function say(text, isBad = false) {
  notice.textContent = text;
  notice.className = isBad ? "bad" : "";
}

// Shows what run returns, or why it failed, and draws the view again.  run may lead to another view.
export async function told(run) {
  const before = location.hash;
  let text = "";
  let isBad = false;
  try {
    text = await run();
  } catch (error) {
    text = error.message;
    isBad = true;
  }
  if (location.hash !== before) await new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
  say(text, isBad);
  document.dispatchEvent(new Event("changed"));
}

// Waits for a run of the gateway; returns its last state.
export async function finished(what, run) {
  while (!run.done) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    run = await ask(`../api/${what}/${run[what]}`);
  }
  return run;
}
