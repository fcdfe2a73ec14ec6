"""The settings of one file, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field

from config.errors import Problem
from config.matching import AddressEntry
from config.model import NamedDestination, VirtualTopic
from config.permissions import Permission


@dataclass(slots=True)
class Document:
    """The settings of a file.

    values: dotted attribute path of ServerConfig -> value.
    users: login -> verifiers; passwords: login -> password in plain text, which the loader turns into verifiers.
    access_tokens: login -> their texts.
    virtual_topics: None if the file does not mention them; an empty list disables them.
    sources: dotted key as YAML writes it -> ``file:line``.
    problems: errors that prevent its use; notes: settings without an effect, or with a different one here.
    """

    source: str
    values: dict[str, object] = field(default_factory=dict)
    users: dict[str, tuple[str, ...]] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict, repr=False)
    access_tokens: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    permissions: list[Permission] = field(default_factory=list)
    addresses: list[AddressEntry] = field(default_factory=list)
    virtual_topics: list[VirtualTopic] | None = None
    destinations: list[NamedDestination] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def report(self, line: int, element: str, text: str) -> None:
        self.problems.append(Problem(self.source, line, element, text))

    def note(self, line: int, element: str, text: str) -> None:
        self.notes.append(Problem(self.source, line, element, text))

    def place(self, line: int) -> str:
        return f"{self.source}:{line}"

    def add_destination(self, kind: int, name: str) -> None:
        destination = NamedDestination(kind, name)
        if destination not in self.destinations:
            self.destinations.append(destination)
