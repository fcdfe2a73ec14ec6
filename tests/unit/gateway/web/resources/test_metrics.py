"""What Prometheus scrapes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.store.read.log_readers import LogReader
from engine.values.broker_stats import BranchStats, ScheduleStats
from engine.values.histogram import Histogram
from gateway.process.counters import GatewayCounters
from gateway.web.resources import metrics
from tests.support.engine.snapshots import broker, destination, with_histograms


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_every_number_of_the_snapshot_is_there() -> None:
    stats = broker(destination("orders"), destination("news", "topic", enqueued=7, acknowledged=7), blocked={3: "full"})
    page, content_type = metrics.render(stats)
    assert content_type.startswith("text/plain")
    found = samples(page)
    labels = (("destination", "orders"), ("kind", "queue"))
    for name, value in (
        ("depth", 6),
        ("in_flight", 2),
        ("delayed", 1),
        ("consumers", 3),
        ("enqueued_total", 10),
        ("delivered_total", 6),
        ("acknowledged_total", 4),
        ("redelivered_total", 1),
        ("dead_lettered_total", 5),
        ("expired_total", 6),
    ):
        assert found[(f"penstock_destination_{name}", labels)] == value, name
    assert found[("penstock_destination_enqueued_total", (("destination", "news"), ("kind", "topic")))] == 7
    consumer = (("connection", "7"), ("consumer", "1"), ("destination", "queue://orders"), ("subscription", "sub"))
    assert found[("penstock_consumer_prefetch", consumer)] == 1000
    assert found[("penstock_consumer_in_flight", consumer)] == 2
    assert found[("penstock_consumer_acknowledged_total", consumer)] == 4
    for name, value in (
        ("connections", 8),
        ("blocked_producers", 1),
        ("memory_bytes", 1024),
        ("memory_limit_bytes", 256 * 1024 * 1024),
        ("store_accepting", 1),
        ("store_append_offset_bytes", 4096),
        ("store_durable_offset_bytes", 2048),
        ("left_out_of_metrics", 0),
    ):
        assert found[(f"penstock_{name}", ())] == value, name


def test_those_who_read_the_log_and_the_limit_of_their_number() -> None:
    readers = [LogReader("stream", f"s{n}", ">", 5, 1000 - n, 7, 20, 50) for n in range(metrics.LOG_READERS_MAX + 1)]
    found = samples(metrics.render(broker(), readers=readers)[0])
    first = (("kind", "stream"), ("reader", "s0"))
    assert found[("penstock_log_reader_lag_bytes", first)] == 1000
    assert found[("penstock_log_reader_bytes_per_second", first)] == 20
    assert len([name for name, _ in found if name == "penstock_log_reader_lag_bytes"]) == metrics.LOG_READERS_MAX


def test_a_store_that_does_not_accept() -> None:
    page, _ = metrics.render(broker(accepting=False))
    assert samples(page)[("penstock_store_accepting", ())] == 0


def test_addresses_blocked_producers_and_slow_consumers() -> None:
    page, _ = metrics.render(broker(blocked={3: "full"}))
    found = samples(page)
    address = (("address", "queue://orders"),)
    for name, value in (
        ("used_bytes", 120),
        ("limit_bytes", 100),
        ("used_messages", 7),
        ("limit_messages", -1),
        ("is_full", 1),
        ("dropped_total", 3),
        ("failed_total", 2),
    ):
        assert found[(f"penstock_address_{name}", address)] == value
    assert found[("penstock_producer_blocked_seconds", (("connection", "3"),))] == 1.5
    for name, value in (("slow_consumers_found", 4), ("slow_consumers_ended", 5), ("evicted_messages", 6)):
        assert found[(f"penstock_{name}_total", ())] == value
    slow = [labels for (name, labels), value in found.items() if name == "penstock_consumer_is_slow" and value == 1]
    assert len(slow) == 1


def test_gates_are_counted_without_their_details() -> None:
    consumers = [
        replace(broker().consumers[0], consumer_id=number, gate=gate)
        for number, gate in enumerate(
            ("", "", "window-full: 9 of 9 in flight", "window-full: 1 of 1", "paused by user ann", "nothing-waiting")
        )
    ]
    stats = replace(broker(), consumers=consumers, producer_waits={"memory": 3, "rate": 0})
    found = samples(metrics.render(stats)[0])
    gates = {labels[0][1]: value for (name, labels), value in found.items() if name == "penstock_consumers_at_gate"}
    assert gates == {"open": 2, "window-full": 2, "paused": 1, "nothing-waiting": 1}
    waits = {labels[0][1]: value for (name, labels), value in found.items() if name == "penstock_producer_waits_total"}
    assert waits == {"memory": 3, "rate": 0}


def test_names_that_need_escapes() -> None:
    page, _ = metrics.render(broker(destination('a"b\\c\nd')))
    assert ("penstock_destination_depth", (("destination", 'a"b\\c\nd'), ("kind", "queue"))) in samples(page)


def test_a_scrape_is_bounded_and_says_so() -> None:
    page, _ = metrics.render(broker(consumers=metrics.CONSUMERS_MAX + 5))
    found = samples(page)
    assert sum(name == "penstock_consumer_prefetch" for name, _ in found) == metrics.CONSUMERS_MAX
    assert found[("penstock_left_out_of_metrics", ())] == 5


def test_long_names_of_links_are_cut() -> None:
    stats = broker(consumers=2)
    long = [replace(consumer, subscription="n" * 15_000) for consumer in stats.consumers]
    page, _ = metrics.render(replace(stats, consumers=long))
    shown = [dict(labels) for name, labels in samples(page) if name == "penstock_consumer_prefetch"]
    assert [len(labels["subscription"]) for labels in shown] == [200, 200]
    assert len({labels["consumer"] for labels in shown}) == 2


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=1.0.0", "text/plain"])
def test_the_scraper_chooses_the_format(accept: str) -> None:
    _, content_type = metrics.render(broker(), accept)
    assert content_type.startswith(accept.partition(";")[0])


def test_the_schedule_is_told() -> None:
    stats = replace(broker(), schedule=ScheduleStats(5, 1_700_000_000_500, 2, 9, 3, 1, held=2))
    found = samples(metrics.render(stats)[0])
    for name, value in (
        ("schedule_pending", 5),
        ("schedule_next_due_seconds", 1_700_000_000.5),
        ("schedule_late", 2),
        ("schedule_held", 2),
        ("scheduled_messages_total", 9),
        ("schedule_fired_total", 3),
        ("schedule_cancelled_total", 1),
    ):
        assert found[(f"penstock_{name}", ())] == value, name


def test_prepared_transactions_are_told() -> None:
    stats = replace(broker(), branches=BranchStats(2, 4_096, 1_700_000_000_500, 7, 3))
    found = samples(metrics.render(stats)[0])
    for name, value in (
        ("prepared_transactions", 2),
        ("prepared_transactions_bytes", 4_096),
        ("prepared_oldest_seconds", 1_700_000_000.5),
        ("prepared_committed_total", 7),
        ("prepared_rolled_back_total", 3),
    ):
        assert found[(f"penstock_{name}", ())] == value, name


def test_times_are_histograms_of_prometheus() -> None:
    sync_times = Histogram((0.001,))
    sync_times.add(0.0002)
    page, _ = metrics.render(with_histograms(broker()), counters=GatewayCounters(sync_times=sync_times))
    found = samples(page)
    for name, bucket, count in (
        ("publish_to_deliver", "0.5", 2),
        ("publish_to_deliver", "1.0", 3),
        ("publish_to_deliver", "+Inf", 3),
        ("publish_to_acknowledge", "0.5", 0),
        ("publish_to_acknowledge", "1.0", 1),
        ("publish_to_acknowledge", "+Inf", 4),
        ("sync", "0.001", 1),
        ("sync", "+Inf", 1),
    ):
        assert found[(f"penstock_{name}_seconds_bucket", (("le", bucket),))] == count, (name, bucket)
    assert found[("penstock_publish_to_deliver_seconds_sum", ())] == 1.25
    assert found[("penstock_publish_to_acknowledge_seconds_count", ())] == 4
    assert found[("penstock_sync_seconds_sum", ())] == 0.0002


def test_times_that_are_not_measured_are_not_there() -> None:
    assert b"_seconds_bucket" not in metrics.render(broker())[0]
