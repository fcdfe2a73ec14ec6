"""Options of a write."""

from __future__ import annotations

import re

import pytest

from spark_bridge.write.options import WRITE_ID_MOST_CHARACTERS, write_options


def test_defaults() -> None:
    options = write_options({})
    assert (options.host, options.port, options.is_tls) == ("127.0.0.1", 61613, False)
    assert (options.user, options.password, options.destination) == ("", "", "")
    assert (options.timeout_s, options.is_dry_run) == (600.0, False)
    assert options.write_id != write_options({}).write_id


def test_names_are_written_in_several_ways() -> None:
    for name in ("writeId", "write-id", "write_id", "writeid"):
        assert write_options({name: "a"}).write_id == "a"
    assert write_options({"checkpointlocation": "/tmp", "dryRun": "TRUE", "timeoutMs": "1500"}).is_dry_run


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("stomp://a", ("a", 61613, False)),
        ("tcp://a:1", ("a", 1, False)),
        ("stomp+ssl://a:2/", ("a", 2, True)),
        ("stomp://[::1]:3", ("::1", 3, False)),
    ],
)
def test_addresses(url: str, address: tuple[str, int, bool]) -> None:
    options = write_options({"url": url})
    assert (options.host, options.port, options.is_tls) == address


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("url", "a:1", "option 'url' is 'a:1'; it takes stomp://HOST:PORT"),
        ("url", "stomp://", "option 'url' is 'stomp://'; it takes"),
        ("url", "stomp://a:b", "option 'url' is 'stomp://a:b': Port could not be cast"),
        ("url", "stomp://a?x=1", "it takes stomp://HOST:PORT"),
        ("url", "https://me:secret@a", "option 'url' has a login; it belongs into the options user and password"),
        ("url", "stomp://me:secret@a:b", "option 'url' has a login; it belongs into the options user and password"),
        ("url", "stomp://me:secret@a", "option 'url' has a login; it belongs into the options user and password"),
        ("write-id", "x" * (WRITE_ID_MOST_CHARACTERS + 1), "option 'write-id' has 201 characters; allowed are 200"),
        ("timeout-ms", "0", "option 'timeout-ms' is '0'; it takes a whole number, at least 1"),
        ("timeout-ms", "1.5", "option 'timeout-ms' is '1.5'"),
        ("dry-run", "yes", "option 'dry-run' is 'yes'; it takes true or false"),
        ("path", "x", "unknown option 'path'; a write takes url"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)) as raised:
        write_options({name: value})
    assert "secret" not in str(raised.value)


def test_an_option_is_given_once() -> None:
    with pytest.raises(ValueError, match="option 'write-id' is given twice, also as 'write-id'"):
        write_options({"writeId": "a", "write-id": "b"})
