"""The converters of messages that cross protocols, by encoding."""

from typing import Final

from engine.values.message import AMQP_1_0, OPENWIRE
from protocols.amqp.v1_0.mapping.stomp_form import StompForm as AmqpStompForm
from protocols.converter import Converters, SharedForms
from protocols.openwire.mapping.stomp_form import StompForm as OpenWireStompForm

CONVERTERS: Final = Converters({AMQP_1_0: AmqpStompForm(), OPENWIRE: OpenWireStompForm()})
SESSION_CONVERTER: Final = SharedForms(CONVERTERS)  # of the engine's thread, as sessions are
