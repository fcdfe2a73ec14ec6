"""Settings from YAML: what is read, and every kind of error with its file, line and element."""

from __future__ import annotations

import pytest

from config.matching import BOTH, QUEUE, TOPIC
from config.model import NamedDestination, VirtualTopic
from config.scram import hash_password
from config.sources.document import Document
from config.sources.yaml import read

VERIFIERS = hash_password("secret", 4096)


def read_text(text: str) -> Document:
    return read("p.yaml", text.encode())


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read_text(text).problems]


def test_values_with_their_places() -> None:
    document = read_text("server-name: here\nstore:\n  flush: async\n  retention: {time: 1h, bytes: 2 GiB}\n")
    assert document.problems == []
    assert document.values == {
        "server_name": "here",
        "store.flush": "async",
        "store.retention.time_ms": 3_600_000,
        "store.retention.bytes": 2 * 1024**3,
    }
    assert document.sources == {
        "server-name": "p.yaml:1",
        "store.flush": "p.yaml:3",
        "store.retention.time": "p.yaml:4",
        "store.retention.bytes": "p.yaml:4",
    }


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "---\n", "store:\n", "stomp:\n  limits:\n", "\ufeffdata: x\n"]
)
def test_what_sets_little_is_no_error(text: str) -> None:
    assert read_text(text).problems == []


def test_addresses() -> None:
    document = read_text(
        """\
addresses:
  - match: orders.>
    kind: queue
    redelivery:
      maximum-redeliveries: 3
      blame: none
    prefetch-top-up: each-ack
    dead-letter-address: null
  - match: '#'
    expiry-address: old
"""
    )
    assert document.problems == []
    first, second = document.addresses
    assert (first.pattern.text, first.kinds) == ("orders.>", QUEUE)
    assert first.values == {
        "redelivery.maximum_redeliveries": 3,
        "blame": "none",
        "prefetch.top_up": "each-ack",
        "dead_letter_address": None,
    }
    assert first.sources["redelivery.maximum_redeliveries"] == "p.yaml:5"
    assert first.sources["blame"] == "p.yaml:6"
    assert (second.pattern.elements, second.kinds, second.values) == ((">",), BOTH, {"expiry_address": "old"})


def test_users() -> None:
    document = read_text(f"users:\n  alice:\n    verifiers:\n      - {VERIFIERS[0]}\n      - {VERIFIERS[1]}\n")
    assert document.problems == []
    assert document.users == {"alice": tuple(VERIFIERS)}
    assert document.sources["users.alice"] == "p.yaml:3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dta: x\n", "p.yaml:1: dta: unknown key (did you mean 'data'?); accepted are server-name, data, "),
        ("store:\n  flsh: sync\n", "p.yaml:2: store.flsh: unknown key (did you mean 'flush'?); accepted are flush, "),
        ("zzz: 1\n", "p.yaml:1: zzz: unknown key; accepted are "),
        ("store: 5\n", "p.yaml:1: store: '5', allowed is a mapping with the keys flush, "),
        ("store: [a]\n", "p.yaml:1: store: a list, allowed is a mapping with the keys flush, "),
        ("- a\n", "p.yaml:1: a list, allowed is a mapping with the keys server-name, "),
        ("just text\n", "p.yaml:1: 'just text', allowed is a mapping with the keys "),
        ("data: {a: b}\n", "p.yaml:1: data: a mapping, allowed is a directory, "),
        ("data:\n", "p.yaml:1: data: nothing, allowed is a directory, "),
        ("data: null\n", "p.yaml:1: data: 'null', allowed is a directory, "),
        ("data: x\n\ndata: y\n", "p.yaml:3: data: repeated key, first on line 1"),
        ("[a]: x\n", "p.yaml:1: a list as a key, allowed is a name"),
        ("memory-limit-bytes: 5\n", "p.yaml:1: memory-limit-bytes: '5', allowed is a number of bytes, "),
        ("listeners:\n  stomp: 61613\n", "p.yaml:2: listeners.stomp: '61613', allowed is tcp://, stomp://, "),
        ("stomp: {strict-headers: 1}\n", "p.yaml:1: stomp.strict-headers: '1', allowed is true or false"),
        ("addresses: {match: a}\n", "p.yaml:1: addresses: a mapping, allowed is a list of entries"),
        ("addresses:\n  - text\n", "p.yaml:2: addresses[0]: 'text', allowed is a mapping with the keys match, "),
        ("addresses:\n  - kind: queue\n", "p.yaml:2: addresses[0]: lacks 'match'"),
        (
            "addresses:\n  - match: a\n    kind: tpic\n",
            "p.yaml:3: addresses[0].kind: 'tpic', allowed is queue, topic or both",
        ),
        ("addresses:\n  - match: a..b\n", "p.yaml:2: addresses[0].match: 'a..b' has an empty element"),
        (
            "addresses:\n  - match: /queue/a\n",
            "p.yaml:2: addresses[0].match: '/queue/a' looks like a STOMP destination",
        ),
        (
            "addresses:\n  - match: a\n    redelivery: {maximum-redeliveries: -2}\n",
            "p.yaml:3: addresses[0].redelivery.maximum-redeliveries: '-2', allowed is an integer from 0 to 1000000",
        ),
        ("users:\n", "p.yaml:1: users: nothing, allowed is a mapping"),
        ("users:\n  bob:\n", "p.yaml:2: users.bob: has no verifiers"),
        ("users:\n  bob: {}\n", "p.yaml:2: users.bob: has no verifiers"),
        (
            "users:\n  bob: {verifiers: []}\n",
            "p.yaml:2: users.bob.verifiers: is not valid, allowed is a list of at least one",
        ),
        ("users:\n  bob: secret\n", "p.yaml:2: users.bob: "),
        (f"users:\n  'a:b': {{verifiers: [{VERIFIERS[0]}]}}\n", "p.yaml:2: users.a:b: 'a:b', allowed is a user name"),
        (
            f"users:\n  bob: {{verifiers: [{VERIFIERS[0]}, {VERIFIERS[0]}]}}\n",
            "p.yaml:2: users.bob.verifiers[1]: a second verifier for SCRAM-SHA-256",
        ),
        ("a: [\n", "p.yaml:2: not YAML: "),
        ("a: b: c\n", "p.yaml:1: not YAML: "),
        ("a: 1\n---\nb: 2\n", "p.yaml:2: not YAML: "),
        ("data: x\n\nserver-name: *nobody\n", "p.yaml:3: not YAML: "),
        ("data: x\nserver-name: a\x01b\n", "p.yaml:2: not YAML: "),
    ],
)
def test_an_error_names_file_line_and_element(text: str, expected: str) -> None:
    found = problems(text)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_several_errors_are_reported_together_in_the_order_of_the_file() -> None:
    found = problems("dta: x\nstore:\n  flush: maybe\naddresses:\n  - match: a\n    nack: never\n  - {}\n")
    assert [line.partition(": ")[0] for line in found] == ["p.yaml:1", "p.yaml:3", "p.yaml:6", "p.yaml:7"]


@pytest.mark.parametrize(
    "user", ["hunter2", "{verifiers: hunter2}", "{verifiers: [hunter2]}", "{verifiers: [[hunter2]]}"]
)
def test_a_password_in_the_wrong_place_is_not_repeated(user: str) -> None:
    found = problems(f"users:\n  bob: {user}\n")
    assert len(found) == 1
    assert "hunter2" not in found[0]


def test_octets_that_are_no_utf8() -> None:
    document = read("p.yaml", b"data: x\nserver-name: \xff\n")
    assert [str(problem) for problem in document.problems] == ["p.yaml:2: not UTF-8, the only encoding that is read"]


def test_yaml_means_what_our_kinds_say_not_what_yaml_1_1_makes_of_it() -> None:
    document = read_text("stomp:\n  limits: {header-count: 0100}\nserver-name: on\n")
    assert document.values == {"stomp.limits.header_count": 100, "server_name": "on"}


def test_anchors_are_followed() -> None:
    document = read_text(
        "addresses:\n  - match: a\n    redelivery: &r {maximum-redeliveries: 1}\n  - match: b\n    redelivery: *r\n"
    )
    assert [entry.values for entry in document.addresses] == [{"redelivery.maximum_redeliveries": 1}] * 2


def test_groups_of_users() -> None:
    document = read_text(
        f"users:\n  a: {{verifiers: [{VERIFIERS[0]}], groups: [x, y]}}\n"
        f"  b: {{verifiers: [{VERIFIERS[0]}], groups: z}}\n"
    )
    assert document.problems == []
    assert document.groups == {"a": frozenset({"x", "y"}), "b": frozenset({"z"})}


def test_permissions() -> None:
    document = read_text(
        "permissions:\n  - match: a.>\n    kind: queue\n    read: [x, y]\n    admin: z\n    write: []\n"
    )
    assert document.problems == []
    (entry,) = document.permissions
    assert (entry.pattern.text, entry.kinds, entry.unites) == ("a.>", QUEUE, False)
    assert entry.grants == {
        "read": frozenset({"x", "y"}),
        "create": frozenset({"z"}),
        "delete": frozenset({"z"}),
        "write": frozenset(),
    }
    assert entry.sources["create"] == "p.yaml:5"


def test_virtual_topics() -> None:
    document = read_text("virtual-topics:\n  - {match: V.>, prefix: C.*., selective: true}\n  - {}\n")
    assert document.problems == []
    assert document.virtual_topics == [VirtualTopic("V.>", "C.*.", True), VirtualTopic()]


@pytest.mark.parametrize(("text", "expected"), [("", None), ("virtual-topics: []\n", []), ("virtual-topics:\n", [])])
def test_virtual_topics_can_be_switched_off(text: str, expected: list[VirtualTopic] | None) -> None:
    assert read_text(text).virtual_topics == expected


def test_destinations() -> None:
    document = read_text("destinations: [a.b, 'topic://c', /queue/d, a.b]\n")
    assert document.problems == []
    assert document.destinations == [
        NamedDestination(QUEUE, "a.b"),
        NamedDestination(TOPIC, "c"),
        NamedDestination(QUEUE, "d"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("permissions: x", "p.yaml:1: permissions: 'x', allowed is a list of entries as in '- match: orders.>'"),
        ("permissions: [{read: a}]", "p.yaml:1: permissions[0]: lacks 'match', the name or pattern"),
        ("permissions: [{match: a, reads: b}]", "permissions[0].reads: unknown key (did you mean 'read'?)"),
        ("permissions: [{match: a, read: [[]]}]", "permissions[0].read[0]: a list, allowed is the name of a group"),
        ("permissions: [{match: a, read: 'x,y'}]", "permissions[0].read: 'x,y', allowed is the name of a group"),
        (
            "permissions: [{match: a, create: ops, admin: low}]",
            "p.yaml:1: permissions[0]: 'admin' and 'create' both grant create; allowed is 'admin' alone, or 'create' "
            "and 'delete' without it",
        ),
        (
            "permissions: [{match: a, admin: low, delete: ops}]",
            "p.yaml:1: permissions[0]: 'admin' and 'delete' both grant delete; allowed is 'admin' alone, or 'create' "
            "and 'delete' without it",
        ),
        ("destinations: ['a.>']", "p.yaml:1: destinations[0]: 'a.>', allowed is queue://NAME or topic://NAME"),
        ("virtual-topics: [{prefix: Consumer.}]", "virtual-topics[0].prefix: 'Consumer.', allowed is elements"),
        ("virtual-topics: [{match: a.>.b}]", "virtual-topics[0].match: 'a.>.b' has '>' or '#' before its end"),
        (
            "addresses: [{match: a, redelivery: {collision-avoidance-percent: 5, collision-avoidance-factor: 0.1}}]",
            "addresses[0].redelivery.collision-avoidance-factor: sets again what another spelling of this key has set",
        ),
    ],
)
def test_what_is_wrong_in_lists(text: str, said: str) -> None:
    (problem,) = problems(text)
    assert said in problem


def test_the_other_spelling_of_the_jitter() -> None:
    (entry,) = read_text("addresses: [{match: a, redelivery: {collision-avoidance-factor: 0.15}}]").addresses
    assert entry.values == {"redelivery.collision_avoidance_percent": 15.0}
    assert entry.sources == {"redelivery.collision_avoidance_percent": "p.yaml:1"}


def test_groups_of_entries_and_united_permissions() -> None:
    document = read_text("addresses: [{match: a, group: g}]\npermissions: [{match: a, unites: true, read: x}]")
    assert document.problems == []
    assert document.addresses[0].group == "g"
    assert document.permissions[0].unites is True


def test_bad_groups_and_unions() -> None:
    assert problems("addresses: [{match: a, group: ''}]") != []
    assert problems("permissions: [{match: a, unites: maybe}]") != []


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_what_is_nested_too_deep_is_not_composed(opening: str) -> None:
    assert problems(opening * 100_000) == ["p.yaml:1: nested deeper than 50, as no setting is"]


def test_a_mapping_within_itself() -> None:
    assert problems("users: &x {a: *x}") != []
