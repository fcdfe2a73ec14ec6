"""The published schema: current, valid, and of one mind with the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from config.reports.json_schema import build
from config.scram import hash_password
from config.sources.yaml import read

ROOT = Path(__file__).parents[3]

WHOLE = f"""
server-name: here
listeners: {{stomp: "tcp://127.0.0.1:0?jms.prefetchPolicy.all=5"}}
store: {{flush: async, segment-bytes: 1 MiB, retention: {{time: 7D, bytes: 4096}}}}
limits: {{global-max-size: -1}}
users:
  alice: {{verifiers: ["{hash_password("x", 4096)[0]}"], groups: a}}
  bob: {{verifiers: ["{hash_password("x", 4096)[0]}"], groups: [a, b]}}
permissions:
  - {{match: a.>, kind: queue, read: a, write: [a, b], admin: []}}
virtual-topics: [{{match: V.>, prefix: C.*., selective: true}}]
destinations: [a, "topic://b"]
addresses:
  - match: ">"
    redelivery: {{maximum-redeliveries: -1, collision-avoidance-factor: 0.5, back-off-multiplier: 1.5}}
    dead-letter-address: null
    max-size-bytes: 10MiB
    address-full-policy: BLOCK
stomp:
"""


def validate(text: str) -> None:
    jsonschema.validate(yaml.safe_load(text), build())


def test_the_published_schema_is_current() -> None:
    """To renew it: ``penstock check-config --json-schema > docs/reference/penstock.schema.json``."""
    assert json.loads((ROOT / "docs" / "reference" / "penstock.schema.json").read_text()) == build()


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(build())


@pytest.mark.parametrize("text", [WHOLE, (ROOT / "examples" / "penstock.yaml").read_text()])
def test_what_the_reader_takes_the_schema_takes(text: str) -> None:
    assert read("p.yaml", text.encode()).problems == []
    validate(text)


@pytest.mark.parametrize(
    "text",
    [
        "dta: x",
        "store: {flush: never}",
        "store: {segment-bytes: 12 parsecs}",
        "stomp: {strict-headers: maybe}",
        "addresses: [{nack: redeliver}]",
        "addresses: [{match: a, nack: never}]",
        "permissions: [{match: a, reed: b}]",
        "permissions: [{match: a, create: b, admin: b}]",
        "permissions: [{match: a, admin: b, delete: b}]",
        "users: {alice: {groups: a}}",
        "destinations: queue://a",
        "virtual-topics: [{pattern: a}]",
        "addresses: [{match: a, max-consumers: -2}]",
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(text: str) -> None:
    assert read("p.yaml", text.encode()).problems
    with pytest.raises(jsonschema.ValidationError):
        validate(text)


def test_defaults_are_in_it() -> None:
    addresses: Any = build()["properties"]
    assert addresses["addresses"]["items"]["properties"]["prefetch"]["properties"]["queue-prefetch"]["default"] == 1000
