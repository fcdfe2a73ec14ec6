"""Names that only the gateway writes: the one table of names that senders' headers, properties and annotations lose.

Receivers trust these headers: where a message was moved from, how often it was delivered, who sent it.  Those of a SEND
are dropped, and those of a message that is converted between AMQP and STOMP.
"""

from __future__ import annotations

from typing import Final

from engine.values.message import JOB_ID

TRANSFORMATION_ERROR: Final = "transformation-error"

# Headers of a MESSAGE about this delivery.
_OF_DELIVERY: Final = (
    "destination",
    "message-id",
    "subscription",
    "ack",
    "redelivered",
    "JMSXDeliveryCount",
    "browser",
    "content-length",
    "persistent",
    "priority",
    "expires",
    "ingress-timestamp",
    TRANSFORMATION_ERROR,
)
# The cause, origin and history of a moved message (engine.fate.dead_letter_move, engine.features.retry).
_OF_MOVE: Final = (
    "original-destination",
    "originalMessageId",
    "originalDeliveryCount",
    "originalExpiration",
    "originalDeliveryMode",
    "dlqCause",
    "dlqDeliveryFailureCause",
    "dlqFirstFailureTime",
    "dlqLastFailureTime",
    "dlqConsumer",
    "dlqRetryCount",
    "dlqRetriedMessageId",
    "_AMQ_ORIG_ADDRESS",
    "_AMQ_ORIG_QUEUE",
    "_AMQ_ORIG_MESSAGE_ID",
    "_AMQ_ACTUAL_EXPIRY",
)
# Unchecked in STOMP, so dropped; AMQP's user-id is checked (engine.consumers.permissions).
USER: Final = "JMSXUserID"

BROKER_HEADERS: Final = frozenset((*_OF_DELIVERY, *_OF_MOVE, USER))

# Around a name these mean nothing to clients that read it with patience, nor where 1.0 has no escapes for them.
BESIDE_NAMES: Final = " \t\r\n:\0"

# Message annotations of AMQP.
JMS_TYPE: Final = "x-opt-jms-msg-type"
JMS_DESTINATION: Final = "x-opt-jms-dest"
JMS_REPLY_TO: Final = "x-opt-jms-reply-to"
INGRESS_TIME: Final = "x-opt-ingress-time"  # Artemis' name
ANNOTATION_PREFIX: Final = "x-opt-"  # prefix of a broker's header as an annotation

_BROKER_ANNOTATIONS: Final = frozenset(
    (
        JMS_TYPE,
        JMS_DESTINATION,
        JMS_REPLY_TO,
        INGRESS_TIME,
        ANNOTATION_PREFIX + JOB_ID,
        *(ANNOTATION_PREFIX + name for name in BROKER_HEADERS),
    )
)


def is_broker_annotation(name: object) -> bool:
    """Say whether only the gateway may write this annotation into a message that it converts."""
    return name in _BROKER_ANNOTATIONS
