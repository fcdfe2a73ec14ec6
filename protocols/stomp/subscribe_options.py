"""What a SUBSCRIBE asks for beside its destination: headers and destination options of every dialect."""

from __future__ import annotations

from typing import Final

from engine.destination import TOPIC
from engine.errors import InvalidOption
from protocols.stomp.destinations import PREFETCH_MOST, PREFETCH_OPTION
from protocols.stomp.header_values import boolean, number

PREFETCH_HEADER: Final = "activemq.prefetchSize"
RABBITMQ_PREFETCH_HEADER: Final = "prefetch-count"
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


def _is_in_vain(name: str) -> bool:
    """Say whether a header of SUBSCRIBE looks like an instruction, and is not one that is known here."""
    if name.startswith("activemq."):
        return name not in IGNORED_SUBSCRIBE_HEADERS
    return name in OTHER_PREFETCH_HEADERS
