"""XML as a tree of elements that know their lines, parsed without the dangerous features of XML.

Document types, entity declarations and external references are not accepted (defusedxml).  Depth and size are limited
to what settings need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler, feature_namespaces
from xml.sax.xmlreader import InputSource

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import create_parser

from config.errors import Problem

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
DEPTH_MAX: Final = 100

_ATTRIBUTE: Final = re.compile(r"\s+([^\s=/>]+)\s*=\s*(?:\"[^\"]*\"|'[^']*')", re.DOTALL)
_TAG_NAME: Final = re.compile(r"<[^\s/>]+")


@dataclass(slots=True)
class Element:
    """One element; ``name`` and attributes without their prefixes.  Lines count from 1."""

    name: str
    namespace: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    attribute_lines: dict[str, int] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, name: str) -> Iterator[Element]:
        return (child for child in self.children if child.name == name)

    def first(self, name: str) -> Element | None:
        return next(self.all(name), None)

    def line_of(self, attribute: str) -> int:
        return self.attribute_lines.get(attribute, self.line)


class XmlError(Exception):
    """The file is not XML, or not acceptable."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def parse(source: str, content: bytes) -> Element:
    """Return the root element.  source: the name of the file, for texts.  Raises: XmlError."""
    if len(content) > FILE_BYTES_MAX:
        raise XmlError(Problem(source, 0, "", f"has {len(content)} bytes, allowed are {FILE_BYTES_MAX}"))
    parser = create_parser(forbid_dtd=True, forbid_entities=True, forbid_external=True)
    parser.setFeature(feature_namespaces, True)
    builder = _Builder(content)
    parser.setContentHandler(builder)
    document = InputSource(source)
    document.setByteStream(BytesIO(content))
    try:
        parser.parse(document)
    except DefusedXmlException:
        text = "has a document type or entities of its own, which are refused: they can name files and grow without end"
        raise XmlError(Problem(source, builder.line(), "", text)) from None
    except SAXParseException as error:
        raise XmlError(Problem(source, error.getLineNumber() or 0, "", f"not XML: {error.getMessage()}")) from None
    except SAXException as error:
        raise XmlError(Problem(source, builder.line(), "", f"not XML: {error.getMessage()}")) from None
    assert builder.root is not None, "a parsed document has a root"
    return builder.root


class _Builder(ContentHandler):
    """Builds the tree.  The parser reports where a tag begins; attributes' lines are looked up in the text."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.root: Element | None = None
        self._open: list[Element] = []
        self._lines = content.decode("utf-8", "replace").split("\n")
        self._locator: Any = None

    def setDocumentLocator(self, locator: Any) -> None:
        self._locator = locator

    def line(self) -> int:
        return int(self._locator.getLineNumber() or 0) if self._locator is not None else 0

    def startElementNS(self, name: Any, qname: Any, attrs: Any) -> None:
        if len(self._open) >= DEPTH_MAX:
            raise SAXException(f"more than {DEPTH_MAX} elements within each other")
        namespace, local = name
        element = Element(str(local), namespace or "", self.line())
        for (_, attribute), value in attrs.items():
            element.attributes[str(attribute)] = str(value)
        if element.attributes:
            element.attribute_lines = self._attribute_lines(element.line, int(self._locator.getColumnNumber() or 0))
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElementNS(self, name: Any, qname: Any) -> None:
        self._open.pop()

    def characters(self, content: str) -> None:
        if self._open:
            self._open[-1].text += content

    def _attribute_lines(self, line: int, column: int) -> dict[str, int]:
        found: dict[str, int] = {}
        tag = "\n".join(self._lines[line - 1 : line - 1 + 200])
        start = _TAG_NAME.match(tag, column) or _TAG_NAME.search(tag)
        at = start.end() if start is not None else len(tag)
        while (match := _ATTRIBUTE.match(tag, at)) is not None:
            found[match[1].rpartition(":")[2]] = line + tag.count("\n", 0, match.start(1))
            at = match.end()
        return found
