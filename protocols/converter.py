"""A message that crosses protocols: what an adapter asks for when the native encoding is not its own."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.values.message import Message
from protocols.map_message import Map


@mypyc_attr(allow_interpreted_subclasses=True)
class Converter:
    """To the form of STOMP: headers as lines with the escapes of 1.2, a body that is text or octets."""

    @abstractmethod
    def map_of(self, message: Message) -> Map | None:
        """Return what a MapMessage in another encoding holds, None for another message.

        Raises: MapError where it holds what a map of JMS does not, and for an object of Java's.
        """

    @abstractmethod
    def stomp_form(self, message: Message) -> Message:
        """Return ``message``, whose encoding is not STOMP, as a message that is; ids and times stay."""

    @abstractmethod
    def raw_form(self, message: Message) -> Message:
        """Return it with its octets as they came for a body: where ``stomp_form`` fails, this does not."""
