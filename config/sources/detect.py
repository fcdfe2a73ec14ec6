"""Detects the format of a file by its content: YAML, or the XML of one of the brokers."""

from __future__ import annotations

import dataclasses
from typing import Final

from config.model import Listeners
from config.sources import activemq, artemis, hornetq, yaml
from config.sources.document import Document
from config.sources.xml import Element, XmlError, parse

LISTENERS: Final = tuple(field.name for field in dataclasses.fields(Listeners))

_BYTE_ORDER_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def read(source: str, content: bytes) -> Document:
    """Return the settings in ``content``.  source: the name of the file, for texts."""
    if not is_xml(content):
        return yaml.read(source, content)
    try:
        root = parse(source, content)
    except XmlError as error:
        return Document(source, problems=[error.problem])
    return _read_xml(source, root)


def is_xml(content: bytes) -> bool:
    for mark in _BYTE_ORDER_MARKS:
        content = content.removeprefix(mark)
    return content[:1_000].replace(b"\x00", b"").lstrip().startswith(b"<")


def _read_xml(source: str, root: Element) -> Document:
    if root.name in ("beans", "broker"):
        return activemq.read(source, root, LISTENERS)
    if root.name == "configuration":
        is_hornetq = hornetq.is_hornetq(root)
        return hornetq.read(source, root, LISTENERS) if is_hornetq else artemis.read(source, root, LISTENERS)
    document = Document(source)
    document.report(
        root.line,
        root.name,
        "is no configuration that is read here; allowed are <beans> or <broker> of activemq.xml, <configuration> of "
        "HornetQ or Artemis, and YAML",
    )
    return document
