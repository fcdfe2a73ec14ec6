"""Frame <-> Message, header <-> JMS property.  Sources: ActiveMQ's StompTranslator headers (wire/stomp.md 11)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from crc32c import crc32c

from engine.annotations import annotation
from engine.broker import Broker
from engine.destination import QUEUE, TOPIC
from engine.errors import InvalidDestination, InvalidOption
from engine.message import DEFAULT_PRIORITY, PERSISTENT, PLAIN, TEXT, Message
from engine.queue import Queue
from engine.topic import Topic
from protocols.stomp.codec import VERSION_1_0, VERSION_1_1, block_for
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.frames import Head

PREFETCH_OPTION: Final = "consumer.prefetchSize"
PREFETCH_HEADER: Final = "activemq.prefetchSize"
RABBITMQ_PREFETCH_HEADER: Final = "prefetch-count"
PREFETCH_MOST: Final = 2**31 - 1  # that may be written; the broker takes it down to its own most
SUBSCRIBE_WARNINGS: Final = 3  # of headers of one SUBSCRIBE; how many more there are is said in one

# Headers of SUBSCRIBE that change what is delivered and that this version does not do: delivering as if they were
# not there would be wrong in silence.
REFUSED_SUBSCRIBE_HEADERS: Final = (
    "selector",
    "activemq.selector",
    "activemq.subscriptionName",
    "durable-subscription-name",
    "durable-subscriber-name",
)
REFUSED_SUBSCRIBE_SWITCHES: Final = ("browser", "activemq.exclusive", "activemq.noLocal", "activemq.retroactive")
# Hints without an effect here; .NET clients misspell one of them beside the right one.
IGNORED_SUBSCRIBE_HEADERS: Final = frozenset(
    (
        PREFETCH_HEADER,
        "activemq.dispatchAsync",
        "activemq.subcriptionName",
        "activemq.priority",
        "activemq.maximumPendingMessageLimit",
        *REFUSED_SUBSCRIBE_HEADERS,
        *REFUSED_SUBSCRIBE_SWITCHES,
    )
)

# Prefetch as other brokers call it, or in the wrong place: who wrote one of these expects an effect.
OTHER_PREFETCH_HEADERS: Final = frozenset((PREFETCH_OPTION, "consumer-window-size"))

_TRUE: Final = frozenset(("true", "1", "yes"))
_FALSE: Final = frozenset(("false", "0", "no", ""))
_PREFIXES: Final = (
    ("/queue/", QUEUE),
    ("/topic/", TOPIC),
    ("queue://", QUEUE),
    ("topic://", TOPIC),
)


class SendTarget:
    """What all SENDs with the same head have in common; made once a head, see ``Head.mapped``."""

    __slots__ = (
        "destination",
        "destination_id",
        "flags",
        "priority",
        "expires_ms",
        "tag_hash",
        "group_hash",
        "block",
        "transaction",
        "is_persistent",
    )

    def __init__(
        self, destination: Queue | Topic, flags: int, priority: int, expires_ms: int, block: bytes, head: Head
    ) -> None:
        self.destination = destination
        self.destination_id = destination.destination_id
        self.flags = flags
        self.priority = priority
        self.expires_ms = expires_ms
        headers = head.headers
        self.tag_hash = text_hash(headers.get("type"))
        self.group_hash = text_hash(headers.get("JMSXGroupID"))
        self.block = block
        self.transaction = headers.get("transaction")
        self.is_persistent = bool(flags & PERSISTENT)


def send_target(head: Head, broker: Broker, default_persistent: bool) -> SendTarget:
    """Return what a SEND's head asks for.  Raises: InvalidHeader, EngineError."""
    headers = head.headers
    name = headers.get("destination")
    if name is None:
        raise InvalidHeader("SEND needs a header destination")
    kind, rest, _ = split_destination(name)
    block = head.block
    timestamp = headers.get("timestamp")
    is_plain = head.is_plain
    if timestamp is not None:
        # JMSTimestamp as the sender says it; ours is only for those who say nothing.
        line = annotation("timestamp", timestamp)
        is_plain = is_plain and b"\\" not in line
        block += line
    persistent = headers.get("persistent")
    flags = PLAIN if is_plain else 0
    if default_persistent if persistent is None else boolean("persistent", persistent):
        flags |= PERSISTENT
    if _is_text(head):
        flags |= TEXT
    priority = number("priority", headers.get("priority", str(DEFAULT_PRIORITY)), 0, 9)
    expires_ms = number("expires", headers.get("expires", "0"), 0, 2**63 - 1)
    destination = (
        broker.destinations.queue(rest) if kind == QUEUE else broker.destinations.topic(rest)
    )  # made last: nothing else can be wrong
    return SendTarget(destination, flags, priority, expires_ms, block, head)


def split_destination(text: str) -> tuple[int, str, dict[str, str]]:
    """Return kind and name of a destination, and the options behind its ``?``.

    Raises: InvalidDestination, InvalidOption.
    """
    name, _, query = text.partition("?")
    options = _parse_options(query) if query else {}
    for prefix, kind in _PREFIXES:
        if name.startswith(prefix):
            rest = name[len(prefix) :]
            return kind, rest, options
    if name.startswith("/"):
        raise InvalidDestination(
            f"destination {name[:200]!r} does not begin with /queue/ or /topic/; "
            "a plain name without a slash is a queue"
        )
    return QUEUE, name, options


def message_octets(message: Message, version: int, id_prefix: str, serial_prefix: str, is_shared: bool) -> bytes:
    """Return what a MESSAGE has from its message-id on, the NUL included.

    is_shared: several receivers get this message; then it is kept in ``message.wire`` where it is the same for all of
    the version.  Of a queue's message nobody else gets it: kept until the answer, it would be the body a second time.
    """
    is_plain = message.flags & PLAIN
    headers = message.headers
    annotations = message.annotations
    if version < 12 and not is_plain:
        headers = block_for(headers, version)
        annotations = block_for(annotations, version)
    if message.log_offset >= 0:
        identity = f"{id_prefix}{message.log_offset}"
    else:
        identity = f"{serial_prefix}{message.serial}"
    if version != VERSION_1_0:
        identity = identity.replace(":", "\\c", 1)
    body = message.body
    octets = b"message-id:%b\npriority:%d\nexpires:%d\n%b%b%b%b%b\n%b\0\n" % (
        identity.encode(),
        message.priority,
        message.expires_ms,
        b"persistent:true\n" if message.flags & PERSISTENT else b"",
        # A text ends at its NUL, unless it holds one (amq-msg-type:text with a content-length).
        b"" if message.flags & TEXT and b"\0" not in body else b"content-length:%d\n" % len(body),
        b""
        if b"\ntimestamp:" in headers or headers.startswith(b"timestamp:")
        else b"timestamp:%d\n" % message.store_time_ms,
        annotations,
        headers,
        body,
    )
    if is_shared and (version == 12 or (version == VERSION_1_1 and is_plain)):
        message.wire = octets
    return octets


def subscription_options(
    headers: dict[str, str], options: dict[str, str], kind: int, is_strict: bool
) -> tuple[int | None, list[str]]:
    """Return the prefetch that a SUBSCRIBE asks for, None for the address's own, and warnings.

    The header stands above the destination's option (design: lowest to highest), ActiveMQ's above RabbitMQ's.
    kind: of the destination; on a queue RabbitMQ's ``durable`` and ``auto-delete`` ask for nothing that is missing.
    Raises: InvalidOption.
    """
    for name in REFUSED_SUBSCRIBE_HEADERS:
        if name in headers:
            raise InvalidOption(f"header {name} is not supported by this version of Penstock")
    for name in REFUSED_SUBSCRIBE_SWITCHES:
        if name in headers and boolean(name, headers[name]):
            raise InvalidOption(f"header {name}:true is not supported by this version of Penstock")
    if kind == TOPIC:
        if "durable" in headers and boolean("durable", headers["durable"]):
            raise InvalidOption("header durable:true is not supported by this version of Penstock")
        if "auto-delete" in headers and not boolean("auto-delete", headers["auto-delete"]):
            raise InvalidOption("header auto-delete:false is not supported by this version of Penstock")
    unknown = [name for name in headers if _is_in_vain(name)]
    warnings = [
        f"SUBSCRIBE has an unknown header {name[:80]!r}; known is {PREFETCH_HEADER}"
        for name in unknown[:SUBSCRIBE_WARNINGS]
    ]
    if len(unknown) > SUBSCRIBE_WARNINGS:
        warnings.append(f"SUBSCRIBE has {len(unknown) - SUBSCRIBE_WARNINGS} more unknown headers")
    if warnings and is_strict:
        raise InvalidOption(warnings[0])
    prefetch: int | None = None
    if PREFETCH_OPTION in options:
        prefetch = number(PREFETCH_OPTION, options[PREFETCH_OPTION], 0, PREFETCH_MOST)
    if RABBITMQ_PREFETCH_HEADER in headers:
        # 0 is no limit there; the broker takes it down to its own.
        prefetch = number(RABBITMQ_PREFETCH_HEADER, headers[RABBITMQ_PREFETCH_HEADER], 0, PREFETCH_MOST)
        prefetch = prefetch or PREFETCH_MOST
    if PREFETCH_HEADER in headers:
        prefetch = number(PREFETCH_HEADER, headers[PREFETCH_HEADER], 0, PREFETCH_MOST)
    return prefetch, warnings


def boolean(name: str, text: str) -> bool:
    """Read a switch as clients write it: true, True, 1, yes.  Raises: InvalidOption."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise InvalidOption(f"{name} is {text[:80]!r}; allowed are true and false")


def number(name: str, text: str, least: int, most: int) -> int:
    """Read a whole number.  Raises: InvalidOption."""
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= 19 and least <= int(digits) <= most:
        return int(digits)
    raise InvalidOption(f"{name} is {text[:80]!r}; allowed is a whole number from {least} to {most}")


def text_hash(text: str | None) -> int:
    """Return what consume-queue entries hold of a JMSType or a JMSXGroupID; 0 for none."""
    return crc32c(text.encode()) if text else 0


def _is_text(head: Head) -> bool:
    """ActiveMQ's rule: without a content-length it is text, unless amq-msg-type says otherwise."""
    kind = head.headers.get("amq-msg-type")
    if kind is None:
        return head.content_length < 0
    word = kind.strip().lower()
    if word not in ("text", "bytes"):
        raise InvalidOption(f"amq-msg-type is {kind[:80]!r}; allowed are text and bytes")
    return word == "text"


def _is_in_vain(name: str) -> bool:
    """Say whether a header of SUBSCRIBE looks like an instruction, and is not one that is known here."""
    if name.startswith("activemq."):
        return name not in IGNORED_SUBSCRIBE_HEADERS
    return name in OTHER_PREFETCH_HEADERS


def _parse_options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name != PREFETCH_OPTION:
            raise InvalidOption(f"unknown destination option {name[:80]!r}; allowed is {PREFETCH_OPTION}")
        if name in options:
            raise InvalidOption(f"destination option {name} is there twice")
        number(name, value, 0, PREFETCH_MOST)
        options[name] = value
    return options
