"""The gateway answers as ``/api/openapi.json`` says: requests made from the description by schemathesis."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, Config, GenerationMode, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.support.process.gateway_process import HTTP_LIMIT_S, GatewayProcess
from tests.support.process.stomp_py import Client

CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    allow_header_conformance,
]
LEFT_OUT: Final = ("backUpStore",)  # it would make directories of any name
# Operations that wait for a message or a sample, and the parameter that says how long, in ms.
WAITS: Final = {
    "take": "wait_ms",
    "servletReceiveGet": "readTimeout",
    "servletReceiveDelete": "readTimeout",
    "events": "for_ms",
}
WAITS_MOST_MS: Final = {"wait_ms": 60_000, "readTimeout": 60_000, "for_ms": 600_000}
MODES: Final = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


def operations(url: str) -> list[APIOperation]:
    # A body beyond the limit is refused with 413 before anybody looks at what is wrong in it.
    refusals = {"checks": {"negative_data_rejection": {"expected-statuses": [400, 404, 413]}}}
    found = list(openapi.from_url(f"{url}/api/openapi.json", config=Config.from_dict(refusals)).get_all_operations())
    assert all(isinstance(one, Ok) for one in found), found
    return [one.ok() for one in found]


def put_something_there(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    client = Client(gateway, "1.2").connect()
    client.send(f"/queue/{unique('orders')}", "body", persistent="true", type="x", n="1")
    client.subscribe(f"/queue/{unique('orders')}", "client-individual")
    client.message()
    client.close()


def shorten(case: Case) -> None:
    """Let a valid request not wait for a message; what is wrong in it stays wrong."""
    name = WAITS.get(case.operation.definition.raw["operationId"])
    if name is not None:
        query = dict(case.query or {})
        if type(query.get(name, 0)) is int and 0 <= query.get(name, 0) <= WAITS_MOST_MS[name]:
            case.query = {**query, name: 0}


def try_all(gateway: GatewayProcess, examples: int, is_random: bool) -> int:
    """Make requests of every operation, valid and invalid; return the number of requests."""
    count = 0
    for operation in operations(gateway.http_url):
        if operation.definition.raw["operationId"] in LEFT_OUT:
            continue
        for mode in MODES:

            @settings(
                max_examples=examples,
                derandomize=not is_random,
                database=None,
                phases=[Phase.generate],
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: Case) -> None:
                nonlocal count
                count += 1
                shorten(case)
                case.call_and_validate(base_url=gateway.http_url, checks=CHECKS, timeout=HTTP_LIMIT_S)

            try:
                ask()
            except Unsatisfiable:  # a text can be anything: nothing in it can be wrong
                assert mode == GenerationMode.NEGATIVE, operation.label
    return count


def test_answers_are_as_described(gateway: GatewayProcess, unique: Callable[[str], str]) -> None:
    put_something_there(gateway, unique)
    assert try_all(gateway, examples=3, is_random=False) > 100
    assert gateway.is_running


@pytest.mark.slow
def test_answers_are_as_described_for_long(
    gateway: GatewayProcess, unique: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--long"):
        pytest.skip("the long form: many more requests")
    put_something_there(gateway, unique)
    try_all(gateway, examples=150, is_random=True)
    assert gateway.is_running


def test_the_description_is_there_with_its_version(gateway: GatewayProcess) -> None:
    document: dict[str, Any] = gateway.get_json("/api/openapi.json")
    assert document["openapi"] == "3.1.0"
    assert json.dumps(document["paths"]["/api/purge/{number}"]["delete"]).count("Needs the permission delete") == 1
