"""The JSON document behind ``penstock stat``; docs/reference/configuration.md describes each field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from operator import attrgetter
from typing import Any, Final

from engine.values.broker_stats import AddressStats, BrokerStats, ConsumerStats, DestinationStats
from gateway.web.management.connections import ConnectionRow
from gateway.web.routing.fields import Schema
from gateway.web.routing.schemas import INTEGER, STRING, closed, listed, members, or_null, schema_of
from gateway.web.samples.rates import Rates, RateSampler

AT_ONCE: Final = 128  # destinations, consumers or addresses in one piece of the text

Row = DestinationStats | ConsumerStats | AddressStats | ConnectionRow


def overview(stats: BrokerStats) -> dict[str, Any]:
    """Return everything but the destinations, consumers, addresses and histograms."""
    rest = asdict(replace(stats, destinations=[], consumers=[], addresses=[]))
    for name in ("destinations", "consumers", "addresses", "blocked_ms", "until_delivered", "until_acknowledged"):
        del rest[name]
    rest["blocked_producers"] = [
        {"connection_id": connection_id, "reason": reason, "waited_ms": stats.blocked_ms.get(connection_id, 0)}
        for connection_id, reason in stats.blocked_producers.items()
    ]
    return rest


def present(stats: BrokerStats, alarms: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the overview with what is wrong now."""
    return {**overview(stats), "alarms": [{"level": level, "text": text} for level, text in alarms]}


def stat_text(stats: BrokerStats, rates: RateSampler) -> Iterator[str]:
    """Yield the document in pieces, each of which takes only about a millisecond to make."""
    yield json.dumps(overview(stats))[:-1]
    yield from _list("destinations", stats.destinations, rates)
    yield from _list("consumers", stats.consumers, rates)
    yield from _list("addresses", stats.addresses, rates)
    yield "}"


def _list(name: str, rows: Sequence[Row], rates: RateSampler) -> Iterator[str]:
    yield f', "{name}": ['
    for start in range(0, len(rows), AT_ONCE):
        text = json.dumps([values(row, rates) for row in rows[start : start + AT_ONCE]])[1:-1]
        yield f", {text}" if start else text
    yield "]"


def values(row: Row, rates: RateSampler) -> dict[str, Any]:
    """Return the fields of one row, and the rates of a destination."""
    names, get = _COLUMNS[type(row)]
    columns: dict[str, Any] = dict(zip(names, get(row), strict=True))
    if isinstance(row, DestinationStats):
        own = rates.rates_of(row.kind, row.name)
        columns["rates"] = None if own is None else dict(zip(_RATES[0], _RATES[1](own), strict=True))
    return columns


def _columns(of: type) -> tuple[tuple[str, ...], attrgetter[tuple[Any, ...]]]:
    names = tuple(field.name for field in fields(of))
    return names, attrgetter(*names)


def _overview_schema() -> Schema:
    of_stats = dict(schema_of(BrokerStats)["properties"])
    for name in ("destinations", "consumers", "addresses", "blocked_ms", "until_delivered", "until_acknowledged"):
        del of_stats[name]
    waiting = members(connection_id=INTEGER, reason=STRING, waited_ms=INTEGER)
    return closed({**of_stats, "blocked_producers": listed(waiting)})


def _destination_schema() -> Schema:
    return closed({**schema_of(DestinationStats)["properties"], "rates": or_null(schema_of(Rates))})


OVERVIEW: Final = _overview_schema()
PRESENT: Final = closed({**OVERVIEW["properties"], "alarms": listed(members(level=STRING, text=STRING))})
ROWS: Final[dict[type, Schema]] = {
    DestinationStats: _destination_schema(),
    ConsumerStats: schema_of(ConsumerStats),
    AddressStats: schema_of(AddressStats),
    ConnectionRow: schema_of(ConnectionRow),
}
STAT: Final = closed(
    {
        **OVERVIEW["properties"],
        "destinations": listed(ROWS[DestinationStats]),
        "consumers": listed(ROWS[ConsumerStats]),
        "addresses": listed(ROWS[AddressStats]),
    }
)

# dataclasses.asdict takes ten times as long.
_COLUMNS: Final = {of: _columns(of) for of in (DestinationStats, ConsumerStats, AddressStats, ConnectionRow)}
_RATES: Final = _columns(Rates)
