"""The keys of messages, and the ids that senders gave them, for every encoding that the gateway writes."""

from __future__ import annotations

from typing import Final

from engine.values.message import AMQP_1_0, OPENWIRE, STOMP
from engine.values.message_keys import Keys
from engine.values.sender_ids import SenderIds
from protocols.amqp.v1_0.mapping.message_keys import AmqpKeys
from protocols.amqp.v1_0.mapping.sender_ids import AmqpSenderIds
from protocols.openwire.mapping.selector_properties import OpenWireKeys
from protocols.openwire.mapping.sender_ids import OpenWireSenderIds
from protocols.stomp.mapping.sender_ids import StompSenderIds

MESSAGE_KEYS: Final = Keys({AMQP_1_0: AmqpKeys(), OPENWIRE: OpenWireKeys()})
SENDER_IDS: Final[dict[int, SenderIds]] = {
    STOMP: StompSenderIds(),
    AMQP_1_0: AmqpSenderIds(),
    OPENWIRE: OpenWireSenderIds(),
}
