"""ActiveMQ's policies as options: the same names in URIs, in activemq.xml and in headers of SUBSCRIBE."""

from __future__ import annotations

from typing import Final

from config.model import SECOND_MS
from config.options import Values, all_listed, computed, honoured, listed, table
from config.policies import MAXIMUM_PREFETCH
from config.values import Boolean, Integer, Number

JAVA_INT_MAX: Final = 2**31 - 1
YEAR_MS: Final = 365 * 86_400 * SECOND_MS

REDELIVERIES: Final = Integer(0, 1_000_000, unlimited=True)
DELAY: Final = Integer(0, YEAR_MS)
COUNT: Final = Integer(0, JAVA_INT_MAX)

# Why what a client or a listener says of its producers has no effect.
PRODUCER_WINDOW: Final = "a producer's window follows the address: producer-window-size"
PRODUCER_RATE: Final = "a producer's rate follows the address: producer-max-rate"


def _clamped(*paths: str) -> tuple[str, ...]:
    return tuple(f"prefetch.{path}" for path in paths)


def _prefetch(value: int, *names: str) -> Values:
    # Larger requests are clamped, as ActiveMQ's client does.
    return dict.fromkeys(_clamped(*names), min(value, MAXIMUM_PREFETCH))


def _jitter(percent: float) -> Values:
    return {"redelivery.collision_avoidance_percent": percent}


REDELIVERY: Final = table(
    honoured("maximumRedeliveries", REDELIVERIES, "3", "redelivery.maximum_redeliveries"),
    honoured("initialRedeliveryDelay", DELAY, "500", "redelivery.initial_redelivery_delay_ms"),
    honoured("redeliveryDelay", DELAY, "2000", "redelivery.redelivery_delay_ms"),
    honoured(
        "maximumRedeliveryDelay", Integer(0, YEAR_MS, unlimited=True), "60000", "redelivery.maximum_redelivery_delay_ms"
    ),
    honoured("useExponentialBackOff", Boolean(), "true", "redelivery.use_exponential_back_off"),
    honoured("backOffMultiplier", Number(0, 1_000), "2.5", "redelivery.back_off_multiplier"),
    honoured("useCollisionAvoidance", Boolean(), "true", "redelivery.use_collision_avoidance"),
    honoured("collisionAvoidancePercent", Number(0, 100), "20", "redelivery.collision_avoidance_percent"),
    computed(
        "collisionAvoidanceFactor",
        Number(0, 1),
        "0.2",
        "`redelivery.collision_avoidance_percent`, times 100; ActiveMQ documents it and has no setter for it",
        lambda factor: _jitter(round(factor * 100, 6)),
    ),
    listed("preDispatchCheck", "the gateway counts for every client, before each delivery"),
)

PREFETCH: Final = table(
    computed(
        "all",
        COUNT,
        "50",
        "every `prefetch` below, at most 32766",
        lambda value: _prefetch(
            value,
            "queue_prefetch",
            "non_persistent_queue_prefetch",
            "queue_browser_prefetch",
            "durable_topic_prefetch",
            "topic_prefetch",
        ),
    ),
    computed(
        "queuePrefetch",
        COUNT,
        "1",
        "`prefetch.queue_prefetch` and `prefetch.non_persistent_queue_prefetch`, at most 32766",
        lambda value: _prefetch(value, "queue_prefetch", "non_persistent_queue_prefetch"),
    ),
    computed(
        "queueBrowserPrefetch",
        COUNT,
        "20",
        "`prefetch.queue_browser_prefetch`, at most 32766",
        lambda value: _prefetch(value, "queue_browser_prefetch"),
    ),
    computed(
        "topicPrefetch",
        COUNT,
        "200",
        "`prefetch.topic_prefetch`, at most 32766",
        lambda value: _prefetch(value, "topic_prefetch"),
    ),
    computed(
        "durableTopicPrefetch",
        COUNT,
        "10",
        "`prefetch.durable_topic_prefetch`, at most 32766",
        lambda value: _prefetch(value, "durable_topic_prefetch"),
    ),
    *all_listed("it makes no difference here; durableTopicPrefetch applies to all", "optimizeDurableTopicPrefetch"),
    honoured("maximumPendingMessageLimit", COUNT, "100", "maximum_pending_message_limit"),
)
