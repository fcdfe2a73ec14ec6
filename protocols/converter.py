"""Messages that cross protocols: an adapter asks for a form when the native encoding is another one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from mypy_extensions import mypyc_attr

from engine.values.message import PLAIN, STOMP, TEXT, Message
from protocols.map_message import Map, item_count
from protocols.message_lines import BODY_HEADER

_BODY_LINE: Final = f"{BODY_HEADER}:".encode()
_TRANSFORMATION_LINE: Final = b"transformation:"

FORMS_BYTES: Final = 8 * 1024 * 1024  # of kept forms
KEPT_OVERHEAD_BYTES: Final = 1_024  # of a message, its form and their place
KNOWN_STEPS: Final = 1  # of a turn, for a form that was made before


@mypyc_attr(allow_interpreted_subclasses=True)
class Converter:
    """To the form of STOMP: headers as lines with the escapes of 1.2, a body that is text or octets."""

    @abstractmethod
    def map_of(self, message: Message) -> Map | None:
        """Return the map of a MapMessage in another encoding, None for another message.

        Raises: MapError for a map that JMS cannot express, and for a Java object.
        """

    @abstractmethod
    def stomp_form(self, message: Message) -> tuple[Message, int]:
        """Return ``message``, of another encoding, in STOMP's encoding, and how many steps of a turn that took.

        Ids and times stay.
        """

    @abstractmethod
    def raw_form(self, message: Message) -> Message:
        """Return it with its octets as they came for a body: the safe fallback if ``stomp_form`` fails."""


def is_shared(message: Message) -> bool:
    """Say whether several receivers may get a message: several queues hold it, or a topic that is not logged."""
    return message.holders > 1 or (not message.holders and message.log_offset < 0)


class SharedForms(Converter):
    """Makes the form of a message that several receivers get once, and keeps the last such forms, up to FORMS_BYTES.

    A form may be much larger than its message: a compressed body is inflated for it.  All receivers have one body then.
    The newest form is kept even if it is larger: its other receivers follow at once.
    """

    __slots__ = ("_inner", "_forms", "_bytes")

    def __init__(self, inner: Converter) -> None:
        self._inner = inner
        self._forms: dict[Message, Message] = {}  # by message, the oldest first
        self._bytes = 0  # of the messages and their forms

    def map_of(self, message: Message) -> Map | None:
        return self._inner.map_of(message)

    def stomp_form(self, message: Message) -> tuple[Message, int]:
        found = self._forms.get(message)
        if found is not None:
            return found, KNOWN_STEPS
        form, steps = self._inner.stomp_form(message)
        if is_shared(message):
            self._keep(message, form)
        return form, steps

    def raw_form(self, message: Message) -> Message:
        return self._inner.raw_form(message)

    def forget(self) -> None:
        """Forget all forms: whoever is not done with them has them; call it now and then, as bodies may be large."""
        self._forms.clear()
        self._bytes = 0

    def _keep(self, message: Message, form: Message) -> None:
        self._forms[message] = form
        self._bytes += _kept_bytes(message, form)
        while self._bytes > FORMS_BYTES and len(self._forms) > 1:
            oldest = next(iter(self._forms))
            self._bytes -= _kept_bytes(oldest, self._forms.pop(oldest))


def _kept_bytes(message: Message, form: Message) -> int:
    return message.size + form.size + KEPT_OVERHEAD_BYTES


class Converters(Converter):
    """Hands each message to the converter of its encoding."""

    def __init__(self, by_encoding: Mapping[int, Converter]) -> None:
        self.by_encoding = by_encoding

    def map_of(self, message: Message) -> Map | None:
        return self.by_encoding[message.encoding].map_of(message)

    def stomp_form(self, message: Message) -> tuple[Message, int]:
        return self.by_encoding[message.encoding].stomp_form(message)

    def raw_form(self, message: Message) -> Message:
        return self.by_encoding[message.encoding].raw_form(message)


def items_in(message: Message) -> int:
    """Return about how many items the body of a message in STOMP's encoding has, if another protocol may read them."""
    headers = message.headers
    return item_count(message.body) if _BODY_LINE in headers or _TRANSFORMATION_LINE in headers else 0


def stomp_copy(message: Message, headers: bytes, body: bytes, text_flag: int) -> Message:
    """Return a message of another protocol with headers and body of STOMP; it keeps its place in the log."""
    is_plain = b"\\" not in headers and not message.annotations
    copy = Message(
        message.destination_id,
        STOMP,
        (message.flags & ~(PLAIN | TEXT)) | text_flag | (PLAIN if is_plain else 0),
        message.priority,
        message.tag_hash,
        message.group_hash,
        message.expires_ms,
        message.annotations,
        headers,
        body,
    )
    copy.store_time_ms = message.store_time_ms
    copy.log_offset = message.log_offset
    copy.queue_offset = message.queue_offset
    copy.serial = message.serial
    return copy
