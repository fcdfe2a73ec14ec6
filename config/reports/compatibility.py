"""docs/reference/compatibility.md, generated from the tables: every option of every dialect and what happens to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from config import destination_options
from config.address_schema import ADDRESS
from config.options import Table
from config.schema import SERVER, leaves
from config.sources import activemq_options, artemis_options, uri_options

INTRODUCTION: Final = """\
# Effects of other brokers' options

Generated from the tables by which files are read: `penstock check-config --options > docs/reference/compatibility.md`.

- **honoured**: sets the key named, or does what the text says; [configuration.md](configuration.md) has the keys.
- **listed**: the file is accepted, the option has no effect; `penstock check-config` and `penstock lint` show the text
  and its line, `penstock run` logs both at start.
- **refused**: the file is not accepted, because running without the option would not be safe.

An unknown option is refused, and the error names the nearest known one; only unknown elements of HornetQ's and Artemis'
core are listed instead. A setting that a file leaves out takes Penstock's default, never another broker's:
`penstock lint` lists where these differ.
"""

_ATTRIBUTE: Final = re.compile("`([a-z_.]+)`")
_KEYS: Final = {leaf.path: key for key, leaf in leaves(ADDRESS).items()} | {
    f"{prefix}{leaf.path}": key for prefix in ("", "server.") for key, leaf in leaves(SERVER).items()
}


def build() -> str:
    """Return the text of the page."""
    parts = [INTRODUCTION]
    for title, tables in _dialects():
        parts.append(f"\n## {title}\n")
        for element, known in tables.items():
            parts.append(f"\n### {element}\n\n| option | | effect, or why it has none |\n|---|---|---|\n")
            parts.extend(
                f"| `{option.name}` | {option.status} | {_by_keys(option.text.replace('|', '/'))} |\n"
                for option in known.values()
            )
    return "".join(parts)


def _by_keys(text: str) -> str:
    """Return ``text`` with attribute names replaced by the keys of the YAML file."""
    return _ATTRIBUTE.sub(lambda found: f"`{_KEYS.get(found[1], found[1])}`", text)


def _dialects() -> Iterator[tuple[str, Mapping[str, Table]]]:
    prefix = destination_options.CONSUMER_PREFIX
    yield (
        "Options of a destination and of SUBSCRIBE",
        {
            f"`{prefix}NAME` after a destination's `?`, `activemq.NAME` in SUBSCRIBE": destination_options.CONSUMER,
            f"`{destination_options.PRODUCER_PREFIX}NAME` after a destination's `?`": destination_options.PRODUCER,
        },
    )
    yield (
        "Connection URIs, of listeners and of the command-line clients",
        {"after the `?`": uri_options.OPTIONS, "after `failover:(...)?`": uri_options.FAILOVER},
    )
    yield "activemq.xml", {f"`{element}`": known for element, known in activemq_options.tables().items() if known}
    yield (
        "HornetQ and Artemis: hornetq-configuration.xml, hornetq-jms.xml, hornetq-users.xml, broker.xml",
        {f"`{element}`": known for element, known in artemis_options.tables().items()},
    )
