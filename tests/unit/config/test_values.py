"""From text to value, kind by kind."""

from __future__ import annotations

import pytest

from config.model import GIB, KIB, MIB, Endpoint
from config.names import AddressPattern, QueueName, UserName, Verifier
from config.schema import parse_text
from config.scram import hash_password
from config.sources.uri import ListenerUri
from config.values import Boolean, Bytes, Choice, Duration, Integer, Kind, Number, Origins, Text

BYTES = Bytes(1, 10 * GIB)
DURATION = Duration(0, 1_000_000_000)
STOMP_URI = ListenerUri("tcp://127.0.0.1:61613", "tcp")
HTTP_URI = ListenerUri("http://127.0.0.1:8161", "http", "tcp")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Integer(0, 10), "0", 0),
        (Integer(0, 10), "10", 10),
        (Integer(0, 10), "010", 10),  # decimal, not the octal of YAML 1.1
        (Integer(0, 10, unlimited=True), "-1", -1),
        (Number(1, 100), "1.5", 1.5),
        (Number(1, 100), "2", 2.0),
        (BYTES, "4096", 4096),
        (BYTES, "64 KiB", 64 * KIB),
        (BYTES, "10MiB", 10 * MIB),
        (BYTES, "1.5 GiB", 3 * GIB // 2),
        (BYTES, "10 mb", 10_000_000),
        (BYTES, "7B", 7),
        (DURATION, "1500", 1500),
        (DURATION, "500ms", 500),
        (DURATION, "30s", 30_000),
        (DURATION, "0.5 s", 500),
        (DURATION, "5m", 300_000),
        (DURATION, "72h", 259_200_000),
        (DURATION, "7d", 604_800_000),
        (Duration(0, 5, unlimited=True), "-1", -1),
        (Bytes(8, 64, multiple=8), "24", 24),
        (Boolean(), "true", True),
        (Boolean(), "False", False),
        (Choice("sync", "async"), "async", "async"),
        (Text("a name"), "my gateway", "my gateway"),
        (Origins(), "", ()),
        (Origins(), "https://Shop.example,http://[::1]:3000", ("https://shop.example", "http://[::1]:3000")),
        (UserName(), "alice@example.com", "alice@example.com"),
        (QueueName(), "ActiveMQ.DLQ", "ActiveMQ.DLQ"),
        (QueueName(), "/queue/dead", "dead"),
        (QueueName(), "queue://dead", "dead"),
        (QueueName(), "null", None),
        (STOMP_URI, "tcp://127.0.0.1:61613", Endpoint("tcp", "127.0.0.1", 61613)),
        (STOMP_URI, "tcp://[::1]:0", Endpoint("tcp", "::1", 0)),
        (HTTP_URI, "tcp://localhost:80/", Endpoint("http", "localhost", 80)),
    ],
)
def test_accepted(kind: Kind, text: str, value: object) -> None:
    assert parse_text(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Integer(0, 10), ""),
        (Integer(0, 10), "11"),
        (Integer(0, 10), "-1"),
        (Integer(0, 10), "1.0"),
        (Integer(0, 10), "1_0"),
        (Integer(0, 10), "\u0663"),  # a digit, but not one of ours
        (Integer(0, 10**30), "1" * 25),
        (Number(1, 100), "nan"),
        (Number(1, 100), "inf"),
        (Number(1, 100), "0.99"),
        (Number(1, 100), "two"),
        (BYTES, "0"),
        (BYTES, "-5"),
        (BYTES, "10 XiB"),
        (BYTES, "11GiB"),
        (BYTES, "0.5"),
        (BYTES, "1" * 19 + "TiB"),
        (Bytes(8, 64, multiple=8), "25"),
        (DURATION, "1 week"),
        (DURATION, "-1"),
        (DURATION, "0.5ms"),
        (Boolean(), "yes"),
        (Boolean(), "1"),
        (Choice("sync", "async"), "Sync"),
        (Text("a name"), ""),
        (Text("a name"), "a\nb"),
        (Text("a name", 3), "abcd"),
        (Origins(), "https://shop.example/"),
        (Origins(), "shop.example"),
        (Origins(), "https://a.example,"),
        (Origins(), "*"),
        (UserName(), "a:b"),
        (UserName(), ""),
        (QueueName(), ""),
        (QueueName(), "a.*"),
        (QueueName(), "a?b=1"),
        (QueueName(), "a,b"),
        (QueueName(), "a..b"),
        (QueueName(), "\u00e4" * 513),
        (AddressPattern(), "/queue/a"),
        (AddressPattern(), ""),
        (AddressPattern(), "a.>.b"),
        (STOMP_URI, "127.0.0.1:61613"),
        (STOMP_URI, "http://127.0.0.1:61613"),
        (STOMP_URI, "tcp://127.0.0.1"),
        (STOMP_URI, "tcp://:61613"),
        (STOMP_URI, "tcp://127.0.0.1:65536"),
        (STOMP_URI, "tcp://127.0.0.1:x"),
        (STOMP_URI, "tcp://127.0.0.1:1?x=1"),
        (STOMP_URI, "tcp://user@127.0.0.1:1"),
        (STOMP_URI, "tcp://[::1:5"),
    ],
)
def test_refused_with_what_was_seen_and_what_is_allowed(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match="allowed is") as caught:
        parse_text(kind, text)
    assert str(caught.value) == f"{text!r}{str(caught.value)[len(repr(text)) :]}"
    assert str(caught.value).endswith(f"allowed is {kind.allowed}")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (BYTES, 0, "0"),
        (BYTES, 1000, "1000"),
        (BYTES, 64 * MIB, "64MiB"),
        (BYTES, 10 * GIB, "10GiB"),
        (BYTES, MIB + 1, "1048577"),
        (DURATION, 0, "0"),
        (DURATION, 500, "500ms"),
        (DURATION, 30_000, "30s"),
        (DURATION, 90_000, "90s"),
        (DURATION, 72 * 3_600_000, "72h"),
        (Duration(0, 1, unlimited=True), -1, "-1"),
        (Boolean(), True, "true"),
        (QueueName(), None, "null"),
        (QueueName(), "x", "x"),
        (STOMP_URI, Endpoint("tcp", "::1", 5), "tcp://[::1]:5"),
    ],
)
def test_shown_as_it_may_be_written(kind: Kind, value: object, text: str) -> None:
    assert kind.show(value) == text


def test_a_shown_quantity_parses_to_itself() -> None:
    for value in (1, 1000, 1024, 64 * MIB, 3 * GIB, 12_345_678):
        assert BYTES.parse(BYTES.show(value)) == value
    for value in (1, 999, 1000, 60_000, 3_600_000, 86_400_001):
        assert DURATION.parse(DURATION.show(value)) == value


def test_verifiers_that_we_write_are_accepted() -> None:
    for verifier in hash_password("secret", 4096):
        assert Verifier().parse(verifier) == verifier


def test_verifiers_with_something_wrong_are_refused() -> None:
    sha256, sha512 = hash_password("secret", 4096)
    broken = [
        "",
        "secret",
        sha256.replace("SCRAM-SHA-256", "SCRAM-SHA-1"),
        sha256.replace("SCRAM-SHA-256", "SCRAM-SHA-512"),
        sha512.replace("SCRAM-SHA-512", "SCRAM-SHA-256"),
        sha256.replace("$4096:", "$4095:"),
        sha256.replace("$4096:", "$:"),
        sha256 + "=",
        sha256.rpartition(":")[0],
        sha256 + "\n",
    ]
    for text in broken:
        with pytest.raises(ValueError):
            Verifier().parse(text)
