"""Reads one XML option by its table: sets its value, notes it, or reports it, with its line."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from config.options import Option, OptionError, Table, unknown_option
from config.sources.document import Document
from config.sources.xml import Element

PLACEHOLDER = "${"


@dataclass(slots=True)
class Taken:
    """The settings of one element: dotted attribute path -> value, and -> ``file:line``."""

    values: dict[str, object] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def set(self, path: str, value: object, source: str) -> None:
        self.values[path] = value
        self.sources[path] = source

    def update(self, other: Taken) -> None:
        self.values.update(other.values)
        self.sources.update(other.sources)


def take(document: Document, known: Table, element: str, name: str, text: str, line: int) -> Taken:
    """Return the settings of one option; problems and notes are added to the document."""
    taken = Taken()
    option = known.get(name)
    if option is None:
        document.report(line, element, str(unknown_option(name, known)))
        return taken
    if option.status == "honoured" and PLACEHOLDER in text:
        document.report(
            line, element, f"{name}: {text!r} is a placeholder, which is not resolved here; write the value"
        )
        return taken
    try:
        values = option.values(text)
    except OptionError as error:
        document.report(line, element, str(error))
        return taken
    note(document, option, element, line)
    for path, value in values.items():
        taken.set(path, value, document.place(line))
    return taken


def take_attributes(document: Document, known: Table, element: Element, passed_over: Collection[str] = ()) -> Taken:
    """Return the settings of all attributes of ``element``, except those in ``passed_over``."""
    taken = Taken()
    for name, text in element.attributes.items():
        if name not in passed_over:
            taken.update(take(document, known, element.name, name, text, element.line_of(name)))
    return taken


def take_children(document: Document, known: Table, element: Element, passed_over: Collection[str] = ()) -> Taken:
    """Return the settings of all children of ``element`` with text, except those in ``passed_over``."""
    taken = Taken()
    for child in element.children:
        if child.name not in passed_over:
            taken.update(take(document, known, element.name, child.name, child.text.strip(), child.line))
    return taken


def note(document: Document, option: Option, element: str, line: int) -> None:
    if option.status == "listed":
        document.note(line, element, f"{option.name} has no effect: {option.text}")


def report_unknown(document: Document, element: Element, parent: str, known: Iterable[str]) -> None:
    document.report(element.line, parent, str(unknown_option(element.name, known)))


def names_in(text: str) -> frozenset[str]:
    """Return the names of a list separated by commas."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())
