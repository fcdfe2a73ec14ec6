"""A message that crosses protocols: what an adapter asks for when the native encoding is not its own."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from engine.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Converter(ABC):
    """To the form of STOMP: headers as lines with the escapes of 1.2, a body that is text or octets."""

    @abstractmethod
    def stomp_form(self, message: Message) -> Message:
        """Return ``message``, whose encoding is not STOMP, as a message that is; ids and times stay."""
