"""HornetQ's files: hornetq-configuration.xml, hornetq-jms.xml (queues, topics, connection factories) and -users.xml.

A gateway cannot know from which connection factory a client took its settings, so the settings of the file's factories
apply to every destination, below all other settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from config.matching import BOTH, AddressEntry, Pattern
from config.names import DestinationName, UserName
from config.sources import artemis_options as options
from config.sources.artemis import CoreReader
from config.sources.artemis_address_options import QUEUE
from config.sources.document import Document
from config.sources.xml import Element
from config.sources.xml_option import PLACEHOLDER, Taken, take_attributes, take_children

_USERS: Final = ("user", "defaultuser")


def is_hornetq(root: Element) -> bool:
    """Say whether a ``configuration`` is one of HornetQ's; Artemis puts everything into a ``core``."""
    return "hornetq" in root.namespace or root.first("core") is None


def read(source: str, root: Element, listeners: Iterable[str]) -> Document:
    """Return the settings of one of the files, recognised by its content."""
    reader = CoreReader(source, True, listeners)
    document = reader.document
    factories = Taken()
    core: list[Element] = []
    for child in root.children:
        if child.name == "connection-factory":
            _read_factory(document, child, factories)
        elif child.name in ("queue", "topic"):
            _read_destination(document, child)
        elif child.name in _USERS:
            _read_user(document, child)
        elif child.name == "mask-password" and any(other.name in _USERS for other in root.children):
            document.report(child.line, child.name, "masked passwords cannot be read; write verifiers into YAML")
        else:
            core.append(child)
    if factories.values:
        document.addresses.insert(0, AddressEntry(Pattern.parse(">"), BOTH, factories.values, factories.sources))
    root.children = core
    reader.read_core(root)
    return document


def _read_factory(document: Document, element: Element, factories: Taken) -> None:
    taken = take_children(document, options.CONNECTION_FACTORY, element)
    for path, value in taken.values.items():
        if path not in factories.values:
            factories.set(path, value, taken.sources[path])
        elif factories.values[path] != value:
            text = f"{path} is {value} here and {factories.values[path]} at {factories.sources[path]}, which counts"
            document.note(element.line, element.name, text)


def _read_destination(document: Document, element: Element) -> None:
    name = element.attributes.get("name", "")
    try:
        document.add_destination(*DestinationName().parse(f"{element.name}://{name}"))
    except ValueError:
        document.report(element.line, element.name, f"{name!r}, allowed is {DestinationName().allowed}")
        return
    taken = take_attributes(document, QUEUE, element, ("name",))
    taken.update(take_children(document, QUEUE, element))
    assert not taken.values, "HornetQ's queues have no settings of their own"


def _read_user(document: Document, element: Element) -> None:
    if element.name == "defaultuser":
        document.note(element.line, element.name, "has no effect: if users are configured, everybody must log in")
        return
    name = element.attributes.get("name", "")
    password = element.attributes.get("password", "")
    try:
        login = UserName().parse(name)
    except ValueError:
        document.report(element.line, element.name, f"name: allowed is {UserName().allowed}")
        return
    # The password is not repeated.
    if not password or PLACEHOLDER in password or password.startswith("ENC("):
        document.report(element.line, element.name, "password: is empty, a placeholder or masked")
        return
    document.passwords[login] = password
    document.groups[login] = frozenset(role.attributes.get("name", "") for role in element.all("role"))
    document.sources[f"users.{login}"] = document.place(element.line)
