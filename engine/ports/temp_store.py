"""The port to temporary files, which take messages outside the log once those exceed their memory budget."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from engine.values.message import Message


class SpilledBlock:
    """Consecutive messages of one lane that were only in memory, each with its position in the lane.

    messages, positions: those still in memory; empty once the block is on the disk.
    count: messages in the file.
    first_position, last_position: of all messages that were added.
    place, length: location in the file, used by the space.
    is_dropped: the block is no longer needed; whichever part still has it releases it.
    """

    __slots__ = (
        "positions",
        "messages",
        "first_position",
        "last_position",
        "count",
        "size_bytes",
        "is_writing",
        "is_on_disk",
        "is_dropped",
        "file_number",
        "place",
        "length",
    )

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.messages: list[Message] = []
        self.first_position = 0
        self.last_position = -1
        self.count = 0
        self.size_bytes = 0
        self.is_writing = False
        self.is_on_disk = False
        self.is_dropped = False
        self.file_number = 0
        self.place = 0
        self.length = 0

    def add(self, message: Message, position: int) -> None:
        """Add a message behind the others."""
        if not self.count:
            self.first_position = position
        self.last_position = position
        self.positions.append(position)
        self.messages.append(message)
        self.count += 1
        self.size_bytes += message.size


@mypyc_attr(allow_interpreted_subclasses=True)
class SpillListener:
    """The engine as a spill space calls it, on the engine's thread."""

    @abstractmethod
    def written(self, block: SpilledBlock, reason: str) -> None:
        """The block is in a file, or the disk refused it and the block is unchanged."""

    @abstractmethod
    def loaded(self, block: SpilledBlock, positions: list[int], messages: list[Message]) -> None:
        """Answer one ``read``."""

    @abstractmethod
    def refused(self, block: SpilledBlock, reason: str, is_lost: bool) -> None:
        """Answer one ``read`` that failed.  is_lost: no other attempt could bring the messages back."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SpillSpace:
    """Temporary files for messages that are not logged; they do not survive a restart."""

    @abstractmethod
    def attach(self, listener: SpillListener) -> None:
        """Report to ``listener`` from now on."""

    @abstractmethod
    def write(self, block: SpilledBlock) -> None:
        """Have a worker write the block's messages; ``written`` answers."""

    @abstractmethod
    def read(self, block: SpilledBlock) -> None:
        """Have a worker read the messages; ``loaded`` or ``refused`` answers, and the block stays until ``free``."""

    @abstractmethod
    def free(self, block: SpilledBlock) -> None:
        """Release the block's space in the file."""
