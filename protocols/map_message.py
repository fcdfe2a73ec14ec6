"""JMS MapMessages as texts: ActiveMQ's XML and JSON of them to typed values, and back.

    <map>                                        {"map": {"entry": [
      <entry>                                      {"string": ["name", "Ann"]},
        <string>name</string>                      {"string": "age", "int": 30}
        <string>Ann</string>                     ]}}
      </entry>
      <entry>
        <string>age</string>
        <int>30</int>
      </entry>
    </map>

Source: XStream's map converter and Jettison's mapped notation, as ActiveMQ's ``JmsFrameTranslator`` uses them.  In JSON
the children of an element are grouped by name, so the order among different names is lost; an only child is no list.
No Java object is made: other elements, references and classes are refused.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from struct import pack, unpack
from typing import Any, Final
from xml.etree.ElementTree import Element, ParseError
from xml.sax.saxutils import escape

BYTES_MAX: Final = 64 * 1024  # octets of a text that is read or written
VALUES_MAX: Final = 5_000  # entries of maps and items of lists in one message, in total
DEPTH_MAX: Final = 16  # maps and lists inside each other
SIGNS_AN_ITEM: Final = 4  # the least "<" of an entry in XML

XML: Final = "jms-map-xml"
JSON: Final = "jms-map-json"
FORMS: Final = frozenset((XML, JSON))

# Words of the text -> types of JMS.
BOOLEAN: Final = "boolean"
BYTE: Final = "byte"
SHORT: Final = "short"
INT: Final = "int"
LONG: Final = "long"
FLOAT: Final = "float"
DOUBLE: Final = "double"
CHAR: Final = "char"
STRING: Final = "string"
BYTES: Final = "byte-array"
NULL: Final = "null"
MAP: Final = "map"
LIST: Final = "list"

WHOLE_BITS: Final = {BYTE: 8, SHORT: 16, INT: 32, LONG: 64}
_MAPS: Final = frozenset((MAP, "linked-hash-map", "hashtable"))
_LISTS: Final = frozenset((LIST, "linked-list"))
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_REAL: Final = re.compile(r"[+-]?(NaN|Infinity|[0-9]{1,400}\.?[0-9]{0,400}([eE][+-]?[0-9]{1,5})?)")
_FLOAT_MAX: Final = float(2**128 - 2**104)
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_QUOTES: Final = {'"': "&quot;", "'": "&apos;", "\r": "&#xd;"}


class MapError(Exception):
    """A text that is no map, or a map that the form cannot express."""


@dataclass(frozen=True, slots=True)
class Typed:
    """One value.  kind: a word above.  value: bool, int, float, str, bytes, None, dict of ``Typed`` or list of them."""

    kind: str
    value: Any


Map = dict[str, Typed]


def number_kind(value: int | float) -> str:
    """Return the smallest type that holds a number exactly: JMS reads it as any larger one (3.1, section 3.11.3)."""
    if isinstance(value, float):
        is_float = abs(value) <= _FLOAT_MAX and unpack(">f", pack(">f", value))[0] == value
        return FLOAT if is_float else DOUBLE
    held = (kind for kind, bits in WHOLE_BITS.items() if -(1 << (bits - 1)) <= value < 1 << (bits - 1))
    return next(held, LONG)


@dataclass(slots=True, eq=False)
class Budget:
    """Counts the values of one message while it is read or written."""

    left: int = VALUES_MAX

    def spend(self, count: int) -> None:
        """Raises: MapError."""
        self.left -= count
        if self.left < 0:
            raise MapError(f"more than {VALUES_MAX} entries and items in one message, which is the limit")


def read_map(text: bytes, form: str) -> Map:
    """Return the map of ``text``.  form: XML or JSON.  Raises: MapError."""
    if len(text) > BYTES_MAX:
        raise MapError(f"a map of {len(text)} octets; the limit is {BYTES_MAX}")
    root = _read_xml(text) if form == XML else _read_json(text)
    if root.tag not in _MAPS:
        raise MapError(f"the text begins with {root.tag[:80]!r}; allowed is map")
    found = _value(root, 1, Budget()).value
    assert isinstance(found, dict), "a map is a map"
    return found


def write_map(values: Map, form: str) -> bytes:
    """Return the text of a map.  form: XML or JSON.  Raises: MapError."""
    root = _element(Typed(MAP, values), 1, form, Budget())
    if form == XML:
        lines: list[str] = []
        _write_lines(root, "", lines)
        text = "\n".join(lines).encode()
    else:
        text = json.dumps(_mapped([root]), separators=(",", ":"), ensure_ascii=False).encode()
    if len(text) > BYTES_MAX:
        raise MapError(f"a map of {len(text)} octets; the limit is {BYTES_MAX}")
    return text


# -- elements to values


def item_count(text: bytes) -> int:
    """Return about how many items a map or a list in JSON or XML has, without reading it."""
    return text.count(b",") + text.count(b"<") // SIGNS_AN_ITEM


def _value(element: Element, depth: int, budget: Budget) -> Typed:
    kind = element.tag
    if "reference" in element.attrib:
        raise MapError("the text refers to another part of itself, which is not read")
    if kind in _MAPS or kind in _LISTS:
        if depth > DEPTH_MAX:
            raise MapError(f"{depth} maps and lists inside each other; the limit is {DEPTH_MAX}")
        budget.spend(len(element))
        if kind in _LISTS:
            return Typed(LIST, [_value(child, depth + 1, budget) for child in element])
        return Typed(MAP, dict([_entry(child, depth + 1, budget) for child in element]))
    if len(element):
        raise MapError(f"{kind[:80]!r} has elements inside; allowed is that in maps and lists")
    return Typed(kind, _scalar(kind, element.text or ""))


def _entry(element: Element, depth: int, budget: Budget) -> tuple[str, Typed]:
    if element.tag != "entry" or len(element) != 2:
        raise MapError(f"a map holds {element.tag[:80]!r} with {len(element)} elements; allowed is entry with two")
    name, value = element
    if name.tag != STRING and value.tag == STRING:  # the members of an object in JSON have no order
        name, value = value, name
    if name.tag != STRING or not name.text:
        raise MapError(f"the name of an entry is {name.tag[:80]!r} {name.text or ''!r:.80}; allowed is a string")
    return name.text, _value(value, depth, budget)


def _scalar(kind: str, text: str) -> bool | int | float | str | bytes | None:
    if kind == STRING:
        return text
    word = text.strip()
    if kind == NULL:
        return None
    if kind == BOOLEAN and word.lower() in ("true", "false"):
        return word.lower() == "true"
    if kind in WHOLE_BITS and _WHOLE.fullmatch(word):
        most = 2 ** (WHOLE_BITS[kind] - 1)
        if -most <= int(word) < most:
            return int(word)
    if kind in (FLOAT, DOUBLE) and _REAL.fullmatch(word):
        value = float(word)
        return math.copysign(math.inf, value) if kind == FLOAT and abs(value) > _FLOAT_MAX else value
    if kind == CHAR and len(text) <= 1:
        return text or "\0"
    if kind == BYTES:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            pass
    if kind in (BOOLEAN, *WHOLE_BITS, FLOAT, DOUBLE, CHAR, BYTES):
        raise MapError(f"{text[:80]!r} is no {kind}")
    raise MapError(f"{kind[:80]!r} cannot be in a map")


# -- values to elements


def _element(typed: Typed, depth: int, form: str, budget: Budget) -> Element:
    kind = typed.kind
    value = typed.value
    element = Element(kind)
    if kind in (MAP, LIST):
        if depth > DEPTH_MAX:
            raise MapError(f"{depth} maps and lists inside each other; the limit is {DEPTH_MAX}")
        budget.spend(len(value))
    if kind == MAP:
        for name, one in value.items():
            entry = Element("entry")
            key = Element(STRING)
            key.text = name
            entry.extend((key, _element(one, depth + 1, form, budget)))
            element.append(entry)
    elif kind == LIST:
        element.extend([_element(one, depth + 1, form, budget) for one in value])
    elif kind != NULL:
        element.text = _text(kind, value)
        if form == XML and _NO_XML.search(element.text):
            raise MapError("a text holds characters that XML cannot hold")
    return element


def _text(kind: str, value: Any) -> str:
    if kind == BYTES:
        return base64.b64encode(value).decode()
    if kind == BOOLEAN:
        return "true" if value else "false"
    if kind in (FLOAT, DOUBLE):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return str(value)


# -- XML


def _read_xml(text: bytes) -> Element:
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root = fromstring(text, forbid_dtd=True)
    except DefusedXmlException as error:
        raise MapError(f"the text has a {type(error).__name__}, which is not read") from None
    except (ParseError, ValueError) as error:
        error.__traceback__ = None  # the parser's frames know it, and they know all callers: a cycle with the session
        raise MapError(f"the text is no XML: {error}") from None
    assert isinstance(root, Element)
    return root


def _write_lines(element: Element, indent: str, lines: list[str]) -> None:
    if len(element):
        lines.append(f"{indent}<{element.tag}>")
        for child in element:
            _write_lines(child, indent + "  ", lines)
        lines.append(f"{indent}</{element.tag}>")
    elif element.text is None:
        lines.append(f"{indent}<{element.tag}/>")
    else:
        lines.append(f"{indent}<{element.tag}>{escape(element.text, _QUOTES)}</{element.tag}>")


# -- JSON


def _read_json(text: bytes) -> Element:
    try:
        found = json.loads(text, parse_constant=_refuse)
        if b"\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no character
    except (ValueError, RecursionError):
        raise MapError("the text is no JSON") from None
    if not isinstance(found, dict) or len(found) != 1:
        raise MapError('the text is not one object with one member; allowed is {"map":{"entry":[...]}}')
    (tag,) = found
    budget = Budget()
    budget.left *= 3  # an entry of a map is three elements
    return _named(tag, found[tag], 0, budget)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _named(tag: str, content: Any, depth: int, budget: Budget) -> Element:
    """Return the element of a member of an object: its members are children, or it is a text."""
    element = Element(tag)
    if isinstance(content, dict):
        if depth > 4 * DEPTH_MAX:
            raise MapError(f"objects inside each other beyond what {DEPTH_MAX} maps and lists have")
        for name, one in content.items():
            if not name.startswith("@"):  # an attribute
                items = one if isinstance(one, list) else [one]
                budget.spend(len(items))
                element.extend([_named(name, item, depth + 1, budget) for item in items])
    elif isinstance(content, bool):
        element.text = "true" if content else "false"
    elif isinstance(content, list):
        raise MapError("an array in an array, which has no meaning here")
    elif content is not None:
        element.text = str(content)
    return element


def _mapped(elements: list[Element]) -> dict[str, Any]:
    """Return the object of these elements, grouped by name."""
    members: dict[str, Any] = {}
    last = ""
    for element in elements:
        tag = element.tag
        content = _mapped(list(element)) if len(element) else _plain(element)
        if tag not in members:
            members[tag] = [content]
        elif tag == last:
            members[tag].append(content)
        else:
            raise MapError("a list of several types, whose order this form of JSON cannot hold")
        last = tag
    return {tag: found[0] if len(found) == 1 else found for tag, found in members.items()}


def _plain(element: Element) -> bool | int | float | str:
    text = element.text or ""
    if element.tag == BOOLEAN:
        return text == "true"
    if element.tag in (FLOAT, DOUBLE) and text[-1:].isdigit():
        return float(text)
    return int(text) if element.tag in WHOLE_BITS else text
