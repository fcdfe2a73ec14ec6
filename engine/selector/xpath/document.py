"""The body of a message for XPath: elements, attributes and texts, in document order.

Document types, entity declarations and external references are not accepted (defusedxml).
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

DOCUMENT_BYTES_MAX: Final = 64 * 1024  # largest body that XPATH reads
NODES_MAX: Final = 2_000  # elements, attributes and texts in it

ROOT: Final = 0
ELEMENT: Final = 1
ATTRIBUTE: Final = 2
TEXT: Final = 3


class Node:
    """name: of an element or attribute, ``{namespace}local`` if it has a namespace.  value: of an attribute or text.

    order: its place in the document; attributes follow their element.  children: elements and texts.
    """

    __slots__ = ("kind", "name", "value", "parent", "order", "children", "attributes")

    def __init__(self, kind: int, name: str, value: str, parent: Node | None, order: int) -> None:
        self.kind = kind
        self.name = name
        self.value = value
        self.parent = parent
        self.order = order
        self.children: list[Node] = []
        self.attributes: list[Node] = []


class Builder(TreeBuilder):
    """Stops the parser once there are too many nodes.  Raises: ValueError."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self.count += 1 + len(attrs)
        if self.count > NODES_MAX:
            raise ValueError(f"more than {NODES_MAX} elements and attributes")
        return super().start(tag, attrs)


def read_document(body: bytes) -> Node | None:
    """Return the root of an XML body within the limits, None for any other body."""
    if not body or len(body) > DOCUMENT_BYTES_MAX:
        return None
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    try:
        parser = DefusedXMLParser(target=Builder(), forbid_dtd=True)
        parser.feed(body)
        element = parser.close()
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:  # also an unknown encoding
        error.__traceback__ = None  # the parser's frames know it, and they know all callers: a cycle with the sessions
        return None
    return _tree(element)


def _tree(first: Element) -> Node | None:
    root = Node(ROOT, "", "", None, 0)
    count = 1
    waiting: list[tuple[Element, Node, int]] = [(first, root, 0)]
    # A stack instead of recursion: the sender decides how deep a body is.
    while waiting:
        element, parent, step = waiting.pop()
        if step == 0:
            node = Node(ELEMENT, str(element.tag), "", parent, count)
            parent.children.append(node)
            count += 1
            for name, value in element.items():
                node.attributes.append(Node(ATTRIBUTE, name, value, node, count))
                count += 1
            if element.text:
                node.children.append(Node(TEXT, "", element.text, node, count))
                count += 1
            if count > NODES_MAX:
                return None
            if len(element):
                waiting.append((element, node, 1))
            continue
        # parent is the element's own node here; ``step`` is one past the next child.
        if step > 1:
            tail = element[step - 2].tail
            if tail:
                parent.children.append(Node(TEXT, "", tail, parent, count))
                count += 1
        if step <= len(element):
            waiting.append((element, parent, step + 1))
            waiting.append((element[step - 1], parent, 0))
    return None if count > NODES_MAX else root
