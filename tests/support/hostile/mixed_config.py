"""Addresses whose settings are mixed at random: what each setting does alone, it must do beside any other.

An address has a policy for when it is full, or none, and some other settings; virtual topics and their queues, too.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

import yaml

MIXED: Final = ("m0", "m1", "m2", "m3", "VirtualTopic", "Consumer.a.VirtualTopic")

# Who waits for room waits for a limited time: clients that wait for ever cannot say goodbye.
FULL: Final = (
    "max-size-messages: 20, address-full-policy: BLOCK, block-timeout-ms: 300",
    "max-size-messages: 3, address-full-policy: BLOCK, block-timeout-ms: 300",
    "max-size-bytes: 8 KiB, address-full-policy: BLOCK, max-size-bytes-reject-threshold: 64 KiB, block-timeout-ms: 500",
    "max-size-messages: 5, address-full-policy: FAIL",
    "max-size-bytes: 8 KiB, address-full-policy: DROP",
    "max-size-messages: 5, address-full-policy: DROP",
    "max-size-bytes: 4 KiB, page-limit-messages: 100, page-full-policy: DROP",
    "max-size-messages: 5, page-limit-messages: 30, page-full-policy: FAIL",
    "max-size-bytes: 2 KiB",
)
OTHERS: Final = (
    *("ring-size: 3", "last-value-queue: true, last-value-key: key", "purge-on-no-consumers: true"),
    *("non-destructive: true, max-expiry-delay-ms: 500", "exclusive-queue: true", "strict-order-dispatch: true"),
    *("auto-delete: true, auto-delete-message-count: 3", "prioritized-messages: false", "log-non-persistent: true"),
    *("auto-delete: true, auto-delete-message-count: -1, auto-delete-delay-ms: 100", "use-consumer-priority: false"),
    *("consumers-before-dispatch: 2, delay-before-dispatch-ms: 300", "group-rebalance: true", "group-buckets: 4"),
    *("group-idle-timeout-ms: 200", "group-first-key: first", "prefetch-top-up: each-ack", "nack: requeue"),
    *("prefetch: {use-prefetch-extension: false}", "prefetch: {queue-prefetch: 3, non-persistent-queue-prefetch: 1}"),
    *("consumer-window-size: 2000", "consumer-max-rate: 50", "producer-max-rate: 3", "producer-max-rate: 10"),
    *("producer-window-size: 2000", "expiry-delay-ms: 100", "min-expiry-delay-ms: 300", "nack: dead-letter"),
    *("expiry-delay-ms: 200, expiry-queues: {strategy: individual}", "dead-letters: {strategy: discard}"),
    *("redelivery: {maximum-redeliveries: 0, initial-redelivery-delay-ms: 0}", "enable-ingress-timestamp: true"),
    *("redelivery: {maximum-redeliveries: 4, initial-redelivery-delay-ms: 10, non-blocking-redelivery: false}",),
    *(
        "redelivery: {maximum-redeliveries: 1, delays-rollback: true}",
        "redelivery: {blame: none}",
        "redelivery: {blame: all}",
    ),
    *("dead-letters: {strategy: individual, use-queue-for-topic-messages: false}", "send-to-dla-on-no-route: true"),
    *("dead-letters: {destination-per-durable-subscriber: true, strategy: individual}",),
    *("retroactive-message-count: 5, retroactive: {always: true}",),
    *("pending-message-limit: {strategy: constant, limit: 5, eviction: oldest-lowest-priority}",),
    *("pending-message-limit: {strategy: constant, limit: 5, eviction: unique-property, eviction-property: key}",),
    *("advisories: {slow-consumers: true, discarding-messages: true, when-full: true, fast-producers: true}",),
    *("advisories: {delivery: true, consumed: true, dispatched: true, no-consumers: true, include-body: true}",),
    *("abort-slow-consumers: {strategy: slow-ack, check-period-ms: 200, max-time-since-last-ack-ms: 500}",),
    *("abort-slow-consumers: {strategy: slow, check-period-ms: 200, max-slow-duration-ms: 400}",),
)
LIMITS: Final = (
    *("global-max-messages: 40", "global-max-size: 30 KiB", "late-memory-per-user: 20 KiB"),
    *("pending-memory-per-user: 20 KiB", "unsettled-memory-per-user: 30 KiB", "messages-per-second-per-user: 200"),
    *("bytes-per-second-per-user: 100 KiB",),
)


def mixed_config(draw: random.Random) -> str:
    """Return the text of a YAML file beside that of ``hostile_config``: addresses, and often limits of the gateway."""
    entries = [json.dumps({"match": f"{kind}.>", **_mixed(draw)}) for kind in MIXED]
    limits = draw.sample(LIMITS, draw.choice((0, 0, 1, 2)))
    return f"addresses: [{', '.join(entries)}]\n" + f"limits: {{{', '.join(limits)}}}\n" * bool(limits)


def _mixed(draw: random.Random) -> dict[str, Any]:
    chosen = draw.sample(OTHERS, draw.randrange(2, 9))
    if draw.randrange(6):
        chosen.append(draw.choice(FULL))
    settings: dict[str, Any] = {}
    for one in chosen:
        for name, value in yaml.safe_load("{" + one + "}").items():
            if isinstance(value, dict):
                value = {**settings.get(name, {}), **value}
            settings[name] = value
    return settings
