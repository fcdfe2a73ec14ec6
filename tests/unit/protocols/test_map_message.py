"""MapMessages as the XML and the JSON of ActiveMQ."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.map_message import BYTES_MAX, DEPTH_MAX, JSON, XML, Map, MapError, Typed, read_map, write_map

# As ActiveMQ's own tests have them (StompTest).
ACTIVEMQ_XML = b"""<map>
  <entry>
    <string>name</string>
    <string>Dejan</string>
  </entry>
  <entry>
    <string>city</string>
    <string>Belgrade</string>
  </entry>
</map>
"""
ACTIVEMQ_JSON = b'{"map":{"entry":[{"string":["name","Dejan"]},{"string":["city","Belgrade"]}]}}'
DEJAN: Map = {"name": Typed("string", "Dejan"), "city": Typed("string", "Belgrade")}

EVERYTHING: Map = {
    "boolean": Typed("boolean", True),
    "byte": Typed("byte", -128),
    "short": Typed("short", 32_767),
    "int": Typed("int", -(2**31)),
    "long": Typed("long", 2**63 - 1),
    "float": Typed("float", 1.5),
    "double": Typed("double", -math.inf),
    "char": Typed("char", "\u00e4"),
    "string": Typed("string", " <a & 'b'>\r\n"),
    "octets": Typed("byte-array", b"\0\xff"),
    "nothing": Typed("null", None),
    "map": Typed("map", {"inner": Typed("list", [Typed("int", 1), Typed("int", 2)]), "empty": Typed("map", {})}),
    "list": Typed("list", [Typed("string", ""), Typed("string", "x")]),
}


@pytest.mark.parametrize(("text", "form"), [(ACTIVEMQ_XML, XML), (ACTIVEMQ_JSON, JSON)])
def test_what_activemq_writes(text: bytes, form: str) -> None:
    assert read_map(text, form) == DEJAN
    assert write_map(DEJAN, form) == text.strip()


@pytest.mark.parametrize("form", [XML, JSON])
@pytest.mark.parametrize("values", [EVERYTHING, {}, {"one": Typed("string", "1")}])
def test_everything_that_a_map_holds_comes_back(values: Map, form: str) -> None:
    assert read_map(write_map(values, form), form) == values


def test_one_entry_stands_alone_in_json_and_types_are_told() -> None:
    assert json.loads(write_map({"age": Typed("int", 30)}, JSON)) == {"map": {"entry": {"string": "age", "int": 30}}}
    assert write_map({}, JSON) == b'{"map":""}'
    assert read_map(b'{"map":{"entry":{"int":30,"string":"age"}}}', JSON) == {"age": Typed("int", 30)}
    assert read_map(b'{"map":{"@class":"x","entry":[{"string":"a","boolean":"true"}]}}', JSON) == {
        "a": Typed("boolean", True)
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"Hello", "no XML"),
        (b"", "no XML"),
        (b"\xff<map/>", "no XML"),
        (b'<!DOCTYPE map [<!ENTITY a "b">]><map/>', "DTDForbidden"),
        (b'<!DOCTYPE map SYSTEM "http://127.0.0.1/x"><map/>', "DTDForbidden"),
        (b"<pojo><name>x</name></pojo>", "allowed is map"),
        (b"<map><string>x</string></map>", "allowed is entry"),
        (b"<map><entry><string>x</string></entry></map>", "with 1 elements"),
        (b"<map><entry><int>1</int><int>2</int></entry></map>", "the name of an entry"),
        (b"<map><entry><string/><int>2</int></entry></map>", "the name of an entry"),
        (b"<map><entry><string>x</string><java.lang.ProcessBuilder/></entry></map>", "cannot be in a map"),
        (b'<map><entry><string>x</string><map reference="../../.."/></entry></map>', "refers to another part"),
        (b"<map><entry><string>x</string><string><b/></string></entry></map>", "has elements inside"),
        (b"<map><entry><string>x</string><byte>128</byte></entry></map>", "'128' is no byte"),
        (b"<map><entry><string>x</string><int>1_0</int></entry></map>", "is no int"),
        (b"<map><entry><string>x</string><double>1_0</double></entry></map>", "is no double"),
        (b"<map><entry><string>x</string><boolean>yes</boolean></entry></map>", "is no boolean"),
        (b"<map><entry><string>x</string><char>ab</char></entry></map>", "is no char"),
        (b"<map><entry><string>x</string><byte-array>*</byte-array></entry></map>", "is no byte-array"),
        (b" " * BYTES_MAX + b"<map/>", "the limit is 65536"),
        (b"<list>" + b"<int>1</int>" * 5_001 + b"</list>", "allowed is map"),
        (
            b"<map><entry><string>x</string><list>" + b"<null/>" * 5_000 + b"</list></entry></map>",
            "more than 5000 entries and items",
        ),
        (
            b"<map><entry><string>x</string>" * DEPTH_MAX + b"<map/>" + b"</entry></map>" * DEPTH_MAX,
            "17 maps and lists inside each other",
        ),
    ],
)
def test_xml_that_is_no_map(text: bytes, reason: str) -> None:
    with pytest.raises(MapError, match=reason):
        read_map(text, XML)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"Hello", "no JSON"),
        (b"[" * 60_000, "no JSON"),
        (b'{"map":NaN}', "no JSON"),
        (b'{"map":1' + b"0" * 5_000 + b"}", "no JSON"),
        (b'{"map":{"entry":{"string":["a","\\ud800"]}}}', "no JSON"),
        (b'{"map":{"entry":{"string":"a","list":{"int":[' + b"1," * 20_000 + b"1]}}}}", "more than 5000 entries"),
        (b"[]", "not one object"),
        (b'{"map":"","map2":""}', "not one object"),
        (b'{"pojo":{"name":"x"}}', "allowed is map"),
        (b'{"map":{"entry":[[1]]}}', "array in an array"),
        (b'{"map":{"entry":{"string":["a","b","c"]}}}', "with 3 elements"),
        (b'{"map":{"entry":{"string":["a"],"list":' + b'{"list":' * 200 + b'""' + b"}" * 200 + b"}}}", "inside each"),
    ],
)
def test_json_that_is_no_map(text: bytes, reason: str) -> None:
    with pytest.raises(MapError, match=reason):
        read_map(text, JSON)


def test_maps_that_a_text_cannot_hold() -> None:
    mixed = Typed("list", [Typed("int", 1), Typed("string", "a"), Typed("int", 2)])
    with pytest.raises(MapError, match="whose order"):
        write_map({"x": mixed}, JSON)
    with pytest.raises(MapError, match="XML cannot hold"):
        write_map({"x": Typed("string", "\x01")}, XML)
    with pytest.raises(MapError, match="the limit is"):
        write_map({"x": Typed("string", "x" * BYTES_MAX)}, JSON)
    with pytest.raises(MapError, match="more than 5000 entries and items"):
        write_map({"x": Typed("list", [Typed("null", None)] * 5_000)}, XML)
    deep: Map = {}
    for _ in range(DEPTH_MAX):
        deep = {"x": Typed("map", deep)}
    with pytest.raises(MapError, match="inside each other"):
        write_map(deep, XML)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_nothing_else_leaves(text: bytes) -> None:
    for form in (XML, JSON):
        try:
            read_map(text, form)
        except MapError:
            pass


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["map", "entry", "string", "int", "list", "@x", "byte-array"]), inner, max_size=3
        )
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_nothing_else_leaves_json(value: object) -> None:
    text = json.dumps({"map": value}).encode()
    try:
        found = read_map(text, JSON)
    except MapError:
        return
    assert read_map(write_map(found, JSON), JSON) == found
