"""Whatever a file or a URI holds, it is taken or told what is wrong with it; nothing raises anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.destination_options import CONSUMER, parse_destination
from config.errors import ConfigError
from config.loader import merged
from config.matching import QUEUE, TOPIC, AddressEntry, AddressMatcher, Pattern
from config.options import OptionError
from config.reports.lint import lint
from config.reports.migrate import migrate
from config.sources.detect import read
from config.sources.uri import parse_client_uri
from config.sources.uri_options import OPTIONS
from tests.support.config.broker_files import ACTIVEMQ, ARTEMIS

pytestmark = pytest.mark.interpreted  # no module of the configuration is compiled

YAML = """
server-name: x
listeners: {stomp: "tcp://127.0.0.1:0?jms.prefetchPolicy.all=5"}
users: {a: {groups: [x]}}
permissions: [{match: a.>, read: x, unites: true}]
virtual-topics: [{match: V.>, prefix: C.*.}]
destinations: [a, "topic://b"]
addresses: [{match: ">", kind: queue, group: g, redelivery: {maximum-redeliveries: -1}, max-size-bytes: 10MiB}]
"""
WORDS = [
    "",
    "0",
    "-1",
    "true",
    "x",
    "a.>",
    "#",
    "${x}",
    "&lt;",
    "1 gb",
    "jms.queue.a",
    "tcp://h:1?x=1",
    "\u00e4",
    "9" * 30,
]

pieces = st.sampled_from(
    [
        piece
        for text in (ACTIVEMQ, ARTEMIS, YAML)
        for piece in text.replace(">", ">\n").replace('"', '"\n').replace(": ", ":\n ").split("\n")
    ]
    + WORDS
)


@given(st.lists(pieces, max_size=60).map("".join))
def test_any_mixture_of_sound_pieces(text: str) -> None:
    document = read("f", text.encode())
    assert all(problem.source == "f" for problem in document.problems)


@pytest.mark.parametrize("text", [ACTIVEMQ, ARTEMIS, YAML])
@given(data=st.data())
def test_a_sound_file_with_something_else_in_one_place(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    changed = text[:start] + data.draw(st.sampled_from(WORDS) | st.text(max_size=8)) + text[end:]
    content = changed.encode("utf-8", "surrogatepass")
    lint([("f", content)])
    document = read("f", content)
    document.passwords.clear()  # they cost time, and are not what this is about
    try:
        merged([document])
        migrate([document], lambda _: [])
    except ConfigError:
        pass


@given(st.binary(max_size=200))
def test_any_octets(content: bytes) -> None:
    read("f", content)
    read("f", b"<a>" + content)


@given(
    st.text(max_size=60) | st.lists(st.sampled_from(["a?", "consumer.", "&", "=", "%", *CONSUMER, *WORDS])).map("".join)
)
def test_any_destination(text: str) -> None:
    try:
        parse_destination(text)
    except OptionError:
        pass


@given(
    st.lists(st.sampled_from(["tcp://h:1", "failover:(", ")", "?", "&", "=", ",", "nested.", *OPTIONS, *WORDS])).map(
        "".join
    )
)
def test_any_uri(text: str) -> None:
    try:
        parse_client_uri(text, ("tcp",))
    except ValueError:
        pass


elements = st.sampled_from(["a", "b", "*"])
patterns = st.tuples(st.lists(elements, min_size=1, max_size=3), st.booleans()).map(
    lambda drawn: ".".join([*drawn[0], ">"] if drawn[1] else drawn[0])
)
entries = st.builds(
    AddressEntry,
    patterns.map(Pattern.parse),
    st.sampled_from([QUEUE, TOPIC, QUEUE | TOPIC]),
    st.dictionaries(st.sampled_from(["nack", "blame", "prefetch.queue_prefetch"]), st.integers(), max_size=3),
    st.just({}),
    st.sampled_from(["", "g", "h"]),
)


@given(st.lists(entries, max_size=6), st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4))
def test_of_a_group_one_entry_applies_and_each_value_is_one_that_matches(
    listed: list[AddressEntry], name: list[str]
) -> None:
    matcher = AddressMatcher(listed)
    applied = matcher.matching(QUEUE, ".".join(name))
    assert all(entry.pattern.matches(tuple(name)) and entry.kinds & QUEUE for entry in applied)
    grouped = [entry.group for entry in applied if entry.group]
    assert len(grouped) == len(set(grouped))
    explained = matcher.explain(QUEUE, ".".join(name))
    for path, setting in explained.items():
        assert setting.value == [entry.values[path] for entry in applied if path in entry.values][-1]
