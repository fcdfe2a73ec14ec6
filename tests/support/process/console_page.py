"""The web console in Chromium, driven by selenium."""

from __future__ import annotations

from typing import Any

from tests.support.process.waiting import wait_until


class Console:
    """One page.  Whatever it draws is waited for: it refreshes by itself."""

    def __init__(self, browser: Any, url: str) -> None:
        self._browser = browser
        self._url = url

    def open(self, view: str = "") -> None:
        self._browser.get("about:blank")
        self._browser.get(f"{self._url}/console/#/{view}")

    def visit(self, path: str = "/") -> None:
        """Open an address as a user types it."""
        self._browser.get("about:blank")
        self._browser.get(self._url + path)

    def has(self, *texts: str) -> None:
        """Wait until the page shows these texts."""
        wait_until(lambda: all(text in self.text() for text in texts), f"{texts} on the page")

    def text(self) -> str:
        return str(self._browser.execute_script("return document.body.innerText"))

    def column(self, number: int) -> list[str]:
        """Return the texts of a column of the first table, from 1."""
        script = "return [...document.querySelectorAll(arguments[0])].map(cell => cell.innerText)"
        return [str(text) for text in self._browser.execute_script(script, f"main tbody td:nth-child({number})")]

    def cells(self, caption: str) -> list[list[str]]:
        """Return the texts of the table of that caption, row by row."""
        script = """
            const found = [...document.querySelectorAll("main table")].find(e => e.caption.innerText === arguments[0]);
            return found ? [...found.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.innerText)) : [];
        """
        rows: list[list[str]] = self._browser.execute_script(script, caption)
        return rows

    def press(self, title: str) -> None:
        """Click the button or link of that text, in a dialog if one is open."""
        script = """
            const inside = document.querySelector("dialog") || document;
            const found = [...inside.querySelectorAll("button, a")].find(e => e.innerText.startsWith(arguments[0]));
            if (found) found.click();
            return Boolean(found);
        """
        wait_until(lambda: self._browser.execute_script(script, title), f"{title} to press")

    def fill(self, **texts: str) -> None:
        """Write into the fields of these names, in a dialog if one is open."""
        script = """
            const inside = document.querySelector("dialog") || document;
            return Object.entries(arguments[0]).every(([name, text]) => {
                const field = inside.querySelector(`[name="${name}"]`);
                if (field) field.value = text;
                return Boolean(field);
            });
        """
        wait_until(lambda: self._browser.execute_script(script, texts), f"the fields {list(texts)}")

    def run(self, script: str, *arguments: object) -> Any:
        """Return what a script returns; a function that it calls last in ``arguments``, if it does so later."""
        return self._browser.execute_async_script(script, *arguments)

    def search(self, text: str) -> None:
        self._browser.find_element("id", "search").send_keys(text)

    def complaints(self) -> list[str]:
        """Return what the browser has logged: errors of the script, refusals of the policy."""
        return [str(entry["message"]) for entry in self._browser.get_log("browser")]
