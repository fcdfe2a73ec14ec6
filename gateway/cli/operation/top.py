"""``penstock top``: the console's destinations in a terminal, live."""

from __future__ import annotations

import argparse
import os
import select
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

from gateway.cli.shared.http_client import add_http_arguments, authorization_of, fetch
from gateway.cli.shared.parsers import CommandError, Subparsers, add_command
from gateway.process import exit_codes
from gateway.process.log_lines import one_line

INTERVAL_S: Final = 1.0
ROWS_MAX: Final = 500  # of a page of the gateway
ROWS_DEFAULT: Final = 20  # without a terminal
HEAD_LINES: Final = 8  # of the screen, beside the rows; alarms and producers that wait take more
BARS: Final = " ▁▂▃▄▅▆▇█"
BARS_MAX: Final = 60

# Title, key and width, in the words of the console; a key with a dot is one of the rates.  A narrow screen has fewer.
Columns = tuple[tuple[str, str, int], ...]
COLUMNS: Final[Columns] = (
    ("Depth", "depth", 12),
    ("In flight", "in_flight", 10),
    ("Delayed", "delayed", 9),
    ("Consumers", "consumers", 10),
    ("In/s", "rates.enqueued", 10),
    ("Out/s", "rates.delivered", 10),
    ("Dead-lettered", "dead_lettered", 14),
    ("Expired", "expired", 9),
)
NAME_LEAST: Final = 30
SORTED: Final = tuple(key for _, key, _ in COLUMNS if "." not in key)
KEYS: Final = "q ends, s sorts by the next column, n and p turn the page"

ALTERNATE: Final = "\x1b[?1049h\x1b[?25l"
BACK: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
REST_OF_LINE: Final = "\x1b[K"
REST_OF_SCREEN: Final = "\x1b[J"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "top",
        "watch destinations, alarms and waiting producers in the terminal",
        f"A live view of the running gateway. Keys: {KEYS}.",
    )
    parser.add_argument("--search", metavar="TEXT", default="", help="only destinations with this part in their name")
    parser.add_argument("--sort", choices=("name", *SORTED), default="depth", help="column (default: %(default)s)")
    parser.add_argument("--once", action="store_true", help="print it once and end")
    add_http_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    top = Top(arguments.http, authorization_of(arguments.user), arguments.search, arguments.sort)
    if arguments.once or not sys.stdout.isatty():
        print("\n".join(top.screen(shutil.get_terminal_size((160, ROWS_DEFAULT + HEAD_LINES)))), flush=True)
        return exit_codes.OK
    if not sys.stdin.isatty():
        raise CommandError("the keys of top come from a terminal, and standard input is none; --once needs none")
    with _terminal():
        while True:
            size = shutil.get_terminal_size()
            lines = top.screen(size)[: size.lines]
            text = "\r\n".join(line + REST_OF_LINE for line in lines)
            sys.stdout.write(f"{HOME}{text}{REST_OF_SCREEN}")
            sys.stdout.flush()
            if not top.press(_key(INTERVAL_S)):
                return exit_codes.OK


class Top:
    """What the screen shows.  sort: a column; offset: the first row."""

    def __init__(self, url: str, authorization: str | None, search: str, sort: str) -> None:
        self._url = url
        self._authorization = authorization
        self._search = search
        self.sort = sort
        self.offset = 0
        self._rows = ROWS_DEFAULT

    def press(self, key: str) -> bool:
        """Do what a key asks for, "" for none; return False for the end."""
        if key == "s":
            following = SORTED.index(self.sort) + 1 if self.sort in SORTED else 0
            self.sort = SORTED[following % len(SORTED)]
            self.offset = 0
        elif key == "n":
            self.offset += self._rows
        elif key == "p":
            self.offset = max(0, self.offset - self._rows)
        return key not in ("q", "\x03", "\x04")

    def screen(self, size: os.terminal_size) -> list[str]:
        """Return the lines of the screen.  Raises: HttpError."""
        overview = self._ask("/api/overview")
        history = self._ask("/api/history")
        warnings = [_fit(f"{one['level']}: {one['text']}", size.columns) for one in overview["alarms"]]
        warnings += [_fit(_waiting(one), size.columns) for one in overview["blocked_producers"]]
        del warnings[max(3, size.lines // 3) :]
        self._rows = max(1, min(ROWS_MAX, size.lines - HEAD_LINES - len(warnings)))
        page = self._page()
        if self.offset and self.offset >= page["matching"]:
            self.offset = max(0, (page["matching"] - 1) // self._rows * self._rows)
            page = self._page()
        last = min(self.offset + self._rows, page["matching"])
        first = self.offset + 1 if page["matching"] else 0
        columns = _columns(size.columns)
        name_width = max(NAME_LEAST, size.columns - _width(columns))
        lines = [
            *_facts(overview, history, size.columns),
            *warnings,
            "",
            self._titles(columns, name_width),
            *(_row(one, columns, name_width) for one in page["destinations"]),
            "",
            f"{first:,} to {last:,} of {page['matching']:,}; {KEYS}",
        ]
        return [line[: size.columns] for line in lines]

    def _titles(self, columns: Columns, name_width: int) -> str:
        cells = [(title + ("▼" if key == self.sort else "")).rjust(width) for title, key, width in columns]
        return " ".join([("Destination" + ("▲" if self.sort == "name" else "")).ljust(name_width), *cells])

    def _page(self) -> dict[str, Any]:
        sort = self.sort if self.sort == "name" else f"-{self.sort}"
        asked = {"sort": sort, "offset": self.offset, "limit": self._rows, "search": self._search}
        return self._ask(f"/api/destinations?{urlencode(asked)}")

    def _ask(self, path: str) -> dict[str, Any]:
        return fetch(self._url, path, self._authorization)


def _facts(overview: dict[str, Any], history: dict[str, Any], columns: int) -> list[str]:
    mebibyte = 1024 * 1024
    store = overview["store"]
    schedule = overview["schedule"]
    pairs = [
        f"Store {'accepts messages' if store['is_accepting'] else one_line(store['reason'])}",
        f"Memory {overview['memory_bytes'] / mebibyte:.1f} of {overview['memory_limit_bytes'] / mebibyte:.0f} MiB",
        f"Connections {overview['connections']:,}",
        f"Waiting producers {len(overview['blocked_producers']):,}",
        f"Alarms {len(overview['alarms']) or 'none'}",
        *([f"Scheduled {schedule['pending']:,}"] if schedule["pending"] else []),
    ]
    width = min(BARS_MAX, max(10, columns - 40))
    charts = [
        f"{title:<6} {bars(history[column], width)} {_last(history[column])}"
        for title, column in (("Depth", "depth"), ("In/s", "enqueued_per_s"), ("Out/s", "delivered_per_s"))
    ]
    return ["  ".join(pairs), *charts]


def bars(points: Sequence[float | None], width: int) -> str:
    """Return the last hour as bars, each the largest of its points; blank where there is none."""
    part = -(-len(points) // width)
    largest = [
        max((one for one in points[start : start + part] if one is not None), default=None)
        for start in range(0, len(points), part)
    ]
    most = max((one for one in largest if one is not None), default=0) or 1
    # What is not zero is seen.
    return "".join(" " if one is None else BARS[1 + round(one / most * (len(BARS) - 2))] for one in largest)


def _last(points: Sequence[float | None]) -> str:
    known = [one for one in points if one is not None]
    return f"{known[-1]:,.0f}, at most {max(known):,.0f} in the last hour" if known else "not known yet"


def _waiting(one: dict[str, Any]) -> str:
    return f"connection {one['connection_id']} waits for {one['waited_ms'] / 1000:.0f} s: {one['reason']}"


def _columns(most: int) -> Columns:
    """Return the columns for which a screen has room."""
    return next(
        (COLUMNS[:end] for end in range(len(COLUMNS), 1, -1) if _width(COLUMNS[:end]) + NAME_LEAST <= most), COLUMNS[:1]
    )


def _width(columns: Columns) -> int:
    return sum(width + 1 for _, _, width in columns)


def _row(row: dict[str, Any], columns: Columns, name_width: int) -> str:
    name = one_line(f"{row['kind']}://{row['name']}") + (" (paused)" if row["is_paused"] else "")
    return " ".join(
        [_fit(name, name_width).ljust(name_width), *(_cell(row, key).rjust(width) for _, key, width in columns)]
    )


def _cell(row: dict[str, Any], key: str) -> str:
    if not key.startswith("rates."):
        return f"{row[key]:,}"
    return "-" if row["rates"] is None else f"{row['rates'][key.removeprefix('rates.')]:,.0f}"


def _fit(text: str, width: int) -> str:
    text = one_line(text)
    return text if len(text) <= width else text[: width - 1] + "…"


@contextmanager
def _terminal() -> Iterator[None]:
    """Take the whole screen, and each key as it is pressed; give both back at the end."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    sys.stdout.write(ALTERNATE)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write(BACK)
        sys.stdout.flush()


def _key(limit_s: float) -> str:
    """Return the key that is pressed within the time, "" for none."""
    found, _, _ = select.select([sys.stdin], [], [], limit_s)
    if not found:
        return ""
    octets = os.read(sys.stdin.fileno(), 64)
    return octets[:1].decode("latin-1") if octets else "q"
