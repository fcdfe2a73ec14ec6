"""Checks of an attach's fields and of the termini in it.  Sources: AMQP 1.0 part 2, 2.7.3; part 3, 3.5."""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.wire.composites.composite_codec import is_delivery_state
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Declared, Modified, Rejected, Released
from protocols.amqp.v1_0.wire.composites.performatives import (
    DELIVERY_TAG_MOST,
    RCV_SETTLE_MODE_MOST,
    SND_SETTLE_MODE_MOST,
    Attach,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.errors import InvalidField, NotImplementedHere
from protocols.amqp.v1_0.wire.types.values import Array, Described, Symbol, Value

# The outcomes that a source may name (messaging 3.4, transactions 4.5.5).
OUTCOMES: Final = frozenset(one.NAME for one in (Accepted, Rejected, Released, Modified, Declared))
DURABILITY_MOST: Final = 2  # none, configuration, unsettled-state
EXPIRY_POLICIES: Final = ("link-detach", "session-end", "connection-close", "never")
LIFETIME_POLICY: Final = Symbol("lifetime-policy")
LIFETIME_POLICIES: Final[frozenset[Value]] = frozenset(
    (
        *(0x2B, 0x2C, 0x2D, 0x2E),
        "amqp:delete-on-close:list",
        "amqp:delete-on-no-links:list",
        "amqp:delete-on-no-messages:list",
        "amqp:delete-on-no-links-or-messages:list",
    )
)
SUPPORTED_DIST_MODES: Final = Symbol("supported-dist-modes")


def check_attach(frame: Attach) -> None:
    """Raises: InvalidField, NotImplementedHere, which refuse the link."""
    if (frame.snd_settle_mode or 0) > SND_SETTLE_MODE_MOST:
        raise InvalidField(f"snd-settle-mode is {frame.snd_settle_mode}; allowed is 0 to {SND_SETTLE_MODE_MOST}")
    if (frame.rcv_settle_mode or 0) > RCV_SETTLE_MODE_MOST:
        raise InvalidField(f"rcv-settle-mode is {frame.rcv_settle_mode}; allowed is 0 to {RCV_SETTLE_MODE_MOST}")
    if not frame.role and frame.initial_delivery_count is None:
        raise InvalidField("the attach of a sender has no initial-delivery-count")
    for tag, state in (frame.unsettled or {}).items():
        if type(tag) is not bytes or len(tag) > DELIVERY_TAG_MOST or not (state is None or is_delivery_state(state)):
            raise InvalidField(
                f"unsettled maps {str(tag)[:80]!r} to a {type(state).__name__}; allowed are delivery-tags of up to "
                f"{DELIVERY_TAG_MOST} octets and delivery states"
            )
    if frame.role and frame.incomplete_unsettled:  # nothing new may be sent on it, and nothing is resumed here
        raise NotImplementedHere("the unsettled map of a receiver is incomplete; deliveries cannot be resumed")
    source = frame.source
    if source is not None:
        _check_terminus("source", source, is_asked_for=frame.role)
        default = source.default_outcome
        if default is not None and not isinstance(default, Accepted | Rejected | Released | Modified):
            raise InvalidField(f"default-outcome is {default.NAME}; allowed are the four outcomes")
        for outcome in source.outcomes or ():
            if outcome not in OUTCOMES:
                raise InvalidField(f"outcomes has {outcome[:80]!r}; allowed are {', '.join(sorted(OUTCOMES))}")
    if frame.target is not None and not isinstance(frame.target, Coordinator):
        _check_terminus("target", frame.target, is_asked_for=not frame.role)


def _check_terminus(name: str, terminus: Source | Target, is_asked_for: bool) -> None:
    """is_asked_for: this terminus is the one that the peer requests here."""
    if (terminus.durable or 0) > DURABILITY_MOST:
        raise InvalidField(f"durable of the {name} is {terminus.durable}; allowed is 0 to {DURABILITY_MOST}")
    policy = terminus.expiry_policy
    if policy is not None and policy not in EXPIRY_POLICIES:
        raise InvalidField(f"expiry-policy of the {name} is {policy[:80]!r}; allowed are {', '.join(EXPIRY_POLICIES)}")
    if not terminus.dynamic:
        if terminus.dynamic_node_properties is not None:
            raise InvalidField(f"the {name} has dynamic-node-properties, and is not dynamic")
        return
    if is_asked_for and terminus.address is not None:
        raise InvalidField(f"the {name} is dynamic, and has the address {terminus.address[:80]!r}; allowed is none")
    for key, value in (terminus.dynamic_node_properties or {}).items():
        if key == LIFETIME_POLICY and not _is_lifetime_policy(value):
            raise InvalidField(f"lifetime-policy is {str(value)[:80]!r}; allowed are the described lists of 3.5.10 on")
        if key == SUPPORTED_DIST_MODES and not _are_symbols(value):
            raise InvalidField(f"supported-dist-modes is {str(value)[:80]!r}; allowed are symbols")


def _is_lifetime_policy(value: Value) -> bool:
    return (
        isinstance(value, Described)
        and value.descriptor.__hash__ is not None
        and value.descriptor in LIFETIME_POLICIES
        and isinstance(value.value, list)
    )


def _are_symbols(value: Value) -> bool:
    if isinstance(value, Array):
        return all(isinstance(one, Symbol) for one in value.items)
    return value is None or isinstance(value, Symbol)
