"""The port to a tracer: what happens to messages, for those whose way somebody wants to see."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.values.message import Message


class Traced:
    """A message on its way.

    identity: its JMSMessageID.  parent, state: W3C trace context that the sender gave it, "" for none.
    destination: its name.  is_topic: whether it is a topic, else a queue.
    """

    __slots__ = ("message", "identity", "parent", "state", "destination", "is_topic")

    def __init__(
        self, message: Message, identity: str, parent: str, state: str, destination: str, is_topic: bool
    ) -> None:
        self.message = message
        self.identity = identity
        self.parent = parent
        self.state = state
        self.destination = destination
        self.is_topic = is_topic


@mypyc_attr(allow_interpreted_subclasses=True)
class Tracing:
    """A tracer, called on the engine's thread; it never blocks and never raises."""

    @abstractmethod
    def wants(self, parent: str, identity: str) -> bool:
        """Say whether the way of a message is traced: the other methods are called for no other."""

    @abstractmethod
    def accepted(self, traced: Traced) -> None:
        """A destination has taken a message."""

    @abstractmethod
    def handed_over(self, traced: Traced, tag: int, delivery_count: int, consumer: dict[str, str]) -> None:
        """A message goes to a consumer.  tag: of this hand-over.  consumer: its description."""

    @abstractmethod
    def settled(self, tag: int, outcome: str, cause: str) -> None:
        """A hand-over has ended; those of messages that are not traced are reported, too.

        outcome: acknowledged, failed (it counted as an attempt) or released.  cause: of a failure, else "".
        """

    @abstractmethod
    def ended(self, traced: Traced, outcome: str) -> None:
        """A message leaves its destination without having been acknowledged.  outcome: given-up or expired."""
