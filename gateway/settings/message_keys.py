"""The keys of messages, for every encoding that the gateway writes."""

from __future__ import annotations

from typing import Final

from engine.values.message import AMQP_1_0, OPENWIRE
from engine.values.message_keys import Keys
from protocols.amqp.v1_0.mapping.message_keys import AmqpKeys
from protocols.openwire.mapping.selector_properties import OpenWireKeys

MESSAGE_KEYS: Final = Keys({AMQP_1_0: AmqpKeys(), OPENWIRE: OpenWireKeys()})
