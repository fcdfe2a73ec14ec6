"""The document of ``/api/stat`` comes in pieces, and is whole."""

from __future__ import annotations

import json
from dataclasses import asdict

from gateway.web.resources.stat import AT_ONCE, stat_text
from gateway.web.samples.rates import RateSampler
from tests.support.engine.snapshots import broker, destination, rates_after, stat_document


def test_many_destinations_and_consumers_come_in_pieces() -> None:
    stats = broker(*[destination(f"q.{number}") for number in range(2 * AT_ONCE + 1)], consumers=AT_ONCE + 1)
    pieces = list(stat_text(stats, rates_after((0.0, stats), (1.0, stats))))
    assert max(piece.count('"depth"') + piece.count('"prefetch"') for piece in pieces) == AT_ONCE
    document = json.loads("".join(pieces))
    assert [each["name"] for each in document["destinations"]] == [f"q.{number}" for number in range(2 * AT_ONCE + 1)]
    for shown, one in zip(document["destinations"], stats.destinations, strict=True):
        assert shown == {**asdict(one), "rates": {"enqueued": 0.0, "delivered": 0.0, "acknowledged": 0.0}}
    assert document["consumers"] == [asdict(one) for one in stats.consumers]
    assert document["addresses"] == [asdict(one) for one in stats.addresses]


def test_nothing_is_left_out() -> None:
    stats = broker(destination("a"), blocked={5: "memory limit"})
    document = stat_document(stats, RateSampler())
    assert document.keys() == asdict(stats).keys() - {"blocked_ms", "until_delivered", "until_acknowledged"}
    assert document["blocked_producers"] == [{"connection_id": 5, "reason": "memory limit", "waited_ms": 1500}]
    assert document["store"] == asdict(stats.store)


def test_without_anything_it_is_a_document_all_the_same() -> None:
    document = stat_document(broker(consumers=0), RateSampler())
    assert document["destinations"] == document["consumers"] == []
