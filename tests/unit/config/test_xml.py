"""XML with lines, and without what is dangerous in it."""

from __future__ import annotations

import pytest

from config.sources.xml import DEPTH_MAX, FILE_BYTES_MAX, Element, XmlError, parse

LINES = b"""<?xml version="1.0"?>
<!-- a comment <a b="c"> -->
<root xmlns="urn:x" xmlns:y="urn:y">
  <first one="1"
         two = '2 > 1'
         y:three="3"/><second>text &amp; more</second>
</root>
"""


def test_elements_and_attributes_know_their_lines() -> None:
    root = parse("p.xml", LINES)
    assert (root.name, root.namespace, root.line) == ("root", "urn:x", 3)
    first, second = root.children
    assert first.attributes == {"one": "1", "two": "2 > 1", "three": "3"}
    assert first.attribute_lines == {"one": 4, "two": 5, "three": 6}
    assert (second.name, second.text, second.line) == ("second", "text & more", 6)
    assert second.line_of("nothing") == 6


def test_children_by_name() -> None:
    root = Element("a", "", 1, children=[Element("b", "", 2), Element("c", "", 3), Element("b", "", 4)])
    assert [child.line for child in root.all("b")] == [2, 4]
    first = root.first("b")
    assert first is not None
    assert first.line == 2
    assert root.first("x") is None


def test_a_byte_order_mark_and_other_encodings() -> None:
    assert parse("p.xml", b"\xef\xbb\xbf<a/>").name == "a"
    assert parse(
        "p.xml", '<?xml version="1.0" encoding="ISO-8859-1"?>\n<a b="\xe4"/>'.encode("latin-1")
    ).attributes == {"b": "\xe4"}


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE a [<!ENTITY x "y">]>\n<a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "http://example.com/a.dtd">\n<a/>',
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<a>&x;</a>',
        b"<!DOCTYPE a>\n<a/>",
    ],
)
def test_document_types_and_entities_are_refused(content: bytes) -> None:
    with pytest.raises(XmlError, match=r"p\.xml:1: has a document type or entities of its own"):
        parse("p.xml", content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<a>\n<b></a>", "p.xml:2: not XML: mismatched tag"),
        (b"", "p.xml:1: not XML: no element found"),
        (b"<a>&undefined;</a>", "p.xml:1: not XML: undefined entity"),
        (b"<a>" * (DEPTH_MAX + 1), f"not XML: more than {DEPTH_MAX} elements within each other"),
        (b" " * (FILE_BYTES_MAX + 1), f"p.xml: has {FILE_BYTES_MAX + 1} bytes, allowed are {FILE_BYTES_MAX}"),
    ],
)
def test_what_is_no_xml_is_told_with_its_line(content: bytes, said: str) -> None:
    with pytest.raises(XmlError) as caught:
        parse("p.xml", content)
    assert said in str(caught.value.problem)
