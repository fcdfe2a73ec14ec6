"""Well-formed STOMP frames with any value in every known header, drawn from a seed."""

from __future__ import annotations

import random
from typing import Final

from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import COMMANDS
from tests.support.typed.typed_values import BODIES, HEADER_TEXTS, JSON_MAPS, PROPERTY_TYPES, XML_MAPS

SEND_NAMES: Final = (
    *("expires", "expiration", "priority", "persistent", "timestamp", "type", "correlation-id", "reply-to", "keys"),
    *("content-type", "content-encoding", "amq-msg-type", "transformation", "receipt", "JMSXGroupID", "JMSXGroupSeq"),
    *("JMSXUserID", "JMS_AMQP_REPLY_TO_GROUP_ID", "JMS_AMQP_MA_x", "JMS_AMQP_MA_", "JMS_AMQP_MA_x-opt-jms-reply-to"),
    *(
        "AMQ_SCHEDULED_DELAY",
        "AMQ_SCHEDULED_PERIOD",
        "AMQ_SCHEDULED_REPEAT",
        "AMQ_SCHEDULED_CRON",
        "AMQ_SCHEDULED_TIME",
    ),
    *(
        "_AMQ_SCHED_DELIVERY",
        "AMQ_SCHEDULER_ACTION",
        "AMQ_SCHEDULER_ACTION_START_TIME",
        "AMQ_SCHEDULER_ACTION_END_TIME",
    ),
    *(
        "scheduledJobId",
        "amqp-message-id",
        "amqp-body",
        "amqp-property-types",
        "destination-type",
        "a",
        "b",
        "message-id",
    ),
    *("redelivered", "JMSXDeliveryCount", "original-destination", "breadcrumbId", "ingress-timestamp", "browser"),
)
SEND_TO: Final = (
    *("/topic/t", "/topic/t", "/topic/t", "/queue/kept", "/queue/kept", "/queue/q,/topic/t", "/queue/full"),
    *(
        "/topic/VirtualTopic.v",
        "/temp-queue/answers",
        "/queue/ActiveMQ.Statistics.Broker",
        "/queue/ActiveMQ.Statistics.q",
    ),
    *("/topic/ActiveMQ.Scheduler.Management", "/queue/ActiveMQ.DLQ", "/queue/>", "/queue/a.*", "/queue/", "nowhere"),
)
SUBSCRIBE_NAMES: Final = (
    *("ack", "selector", "id", "receipt", "durable", "auto-delete", "exclusive", "no-local", "browser", "persistent"),
    *("activemq.prefetchSize", "activemq.priority", "activemq.subscriptionName", "activemq.maximumPendingMessageLimit"),
    *("activemq.exclusive", "activemq.noLocal", "activemq.retroactive", "activemq.dispatchAsync", "prefetch-count"),
    *("consumer-window-size", "x-priority", "x-message-ttl", "durable-subscription-name", "from-offset", "from-time"),
    *("from-id", "from", "x-stream-offset", "subscription-type", "destination-type", "client-id"),
)
CONNECT_NAMES: Final = (
    *("heart-beat", "login", "passcode", "client-id", "host", "accept-version", "request-id", "session"),
    *("activemq.prefetchSize", "activemq.prefetchPolicy.all", "wireFormat.maxInactivityDuration"),
)
ACK_NAMES: Final = ("id", "message-id", "subscription", "transaction", "requeue", "delay", "reason", "receipt")

Headers = dict[str, str]


def text(draw: random.Random) -> str:
    if draw.randrange(4):
        return draw.choice(HEADER_TEXTS)
    return str(draw.choice((-1, 1)) * draw.getrandbits(draw.choice((8, 32, 53, 63, 64, 70))))


def some(draw: random.Random, names: tuple[str, ...], most: int) -> Headers:
    return {draw.choice(names): text(draw) for _ in range(draw.randrange(most + 1))}


def send(draw: random.Random) -> tuple[Headers, bytes]:
    headers = {"destination": draw.choice(SEND_TO) if draw.randrange(20) else text(draw), **some(draw, SEND_NAMES, 5)}
    if draw.randrange(2):
        headers["persistent"] = "true"
    if not draw.randrange(4):  # soon enough to fire during the run
        headers["AMQ_SCHEDULED_DELAY"] = draw.choice(("1", "120", "1000"))
        headers["expires"] = draw.choice(("0", "1700000010000", str(2**53), str(2**63 - 1)))
    body = draw.choice(BODIES)()
    kind = draw.randrange(5)
    if kind == 4:
        form = headers["transformation"] = draw.choice(("jms-map-xml", "jms-map-json", "jms-xml", "jms-object-json"))
        body = draw.choice(XML_MAPS if form == "jms-map-xml" else JSON_MAPS)
        return headers, body
    if kind == 0:
        headers["amqp-body"] = draw.choice(("value", "sequence", "null", "binary", "data"))
    elif kind == 1:
        names = draw.sample(PROPERTY_TYPES, 4)
        headers["amqp-property-types"] = ",".join(f"p{number}={name}" for number, name in enumerate(names))
        headers.update({f"p{number}": text(draw) for number in range(4)})
    elif kind == 2:
        headers["content-type"] = draw.choice(("application/vnd.amqp-1.0", "text/plain", "application/json", "\u00e4"))
    if draw.randrange(3):
        headers["content-length"] = str(len(body))
    return headers, body


def octets(command: str, headers: Headers, body: bytes, version: int) -> bytes:
    return encode(COMMANDS[command.encode()], list(headers.items()), body, version)
