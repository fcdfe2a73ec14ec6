"""The description of the API, and the table of routes that it and the router are made from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from gateway.web.api import create_app
from gateway.web.routing.fields import Choice, Destination, Field, Flag, Text, Texts, Whole, object_schema
from gateway.web.routing.openapi import description
from gateway.web.routing.problems import Problem
from gateway.web.routing.routes import ROUTES
from gateway.web.routing.schemas import schema_of
from tests.support.web import GUARDED, OPEN, basic, serving, sources

HIDDEN = {"/", "/console", "/console/", "/console/{name}"}


async def described(login_check: Any = OPEN) -> dict[str, Any]:
    async with serving(login_check=login_check) as client:
        headers = basic("alice", "secret") if login_check is GUARDED else {}
        document: dict[str, Any] = await (await client.get("/api/openapi.json", headers=headers)).json()
        return document


async def test_router_and_description_have_the_same_operations() -> None:
    made = create_app(sources(), OPEN)
    routed = {(route.method, route.resource.canonical) for route in made.router.routes() if route.resource is not None}
    document = description([*made[ROUTES].values()])
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert {one for one in routed if one[0] != "HEAD" and one[1] not in HIDDEN} == told
    # Whatever may be read may be asked for by HEAD, unless reading takes it.
    readable = {route.path for route in made[ROUTES].values() if route.method == "GET" and route.has_head}
    assert readable == {path for method, path in routed if method == "HEAD"}


async def test_names_of_operations_differ() -> None:
    document = await described()
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(names) == len(set(names))


async def test_each_operation_says_what_it_needs_and_how_it_fails() -> None:
    document = await described(GUARDED)
    assert document["paths"]["/healthz"]["get"]["security"] == []
    cancel = document["paths"]["/api/why/message/{id}"]["get"]
    assert cancel["description"] == "Needs the permission read for all destinations."
    assert {"200", "400", "401", "403", "404", "500"} == set(cancel["responses"])
    assert "application/problem+json" in document["components"]["responses"]["404"]["content"]
    for methods in document["paths"].values():
        for operation in methods.values():
            for one in operation["parameters"]:
                assert one["required"] is (one["in"] == "path") or one["in"] == "query"


@pytest.mark.parametrize("name", ["{", "}", "a{b}c", "a/b", "%"])
async def test_any_name_may_be_in_a_path(name: str) -> None:
    async with serving() as client:
        response = await client.get(URL(f"/api/explain/destination/{quote(name, safe='')}", encoded=True))
        assert (await response.json())["what"] == name


async def test_a_parameter_is_given_once() -> None:
    async with serving() as client:
        response = await client.get("/api/schedule?limit=1&limit=2")
        assert (response.status, (await response.json())["detail"]) == (
            400,
            "parameter limit is given twice; allowed is once",
        )


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        (Whole("n", "N.", 1, 9), "9", 9),
        (Whole("n", "N.", 1, 9), "0", None),
        (Whole("n", "N.", 1, 9), "10", None),
        (Whole("n", "N.", 1, 9), "-1", None),
        (Whole("n", "N.", 1, 9), "\u0661", None),
        (Whole("n", "N."), "9" * 5_000, None),
        (Flag("f", "F."), "true", True),
        (Flag("f", "F."), "yes", None),
        (Choice("c", "C.", ("a", "b")), "b", "b"),
        (Choice("c", "C.", ("a", "b")), "ab", None),
        (Text("t", "T.", most=3), "abc", "abc"),
        (Text("t", "T.", most=3), "abcd", None),
        (Texts("l", "L.", 2), "a,b", ["a", "b"]),
        (Texts("l", "L.", 2), "a,b,c", None),
        (Destination("d", "D."), "topic://x", (2, "x")),
        (Destination("d", "D."), "a.>", None),
    ],
)
def test_parameters(field: Field[Any], text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(ValueError):
            field.take_text(text)
        assert field.name in field.wrong(text).detail
    else:
        assert field.take_text(text) == value


@pytest.mark.parametrize(
    ("field", "right", "wrong"),
    [
        (Whole("n", "N.", 0, 9), [0, 9, 1.0], [True, 10, -1, 1.5, "1", None, []]),
        (Flag("f", "F."), [True, False], [1, "true", None]),
        (Text("t", "T."), ["", "x"], [1, None, ["x"]]),
        (Choice("c", "C.", ("a",)), ["a"], ["b", 1]),
        (Texts("l", "L.", 1), [[], ["a"]], [["a", "b"], [1], "a", {}]),
        (Destination("d", "D."), ["x", "queue://x"], [1, "", "a*"]),
    ],
)
def test_members_are_what_their_schema_says(field: Field[Any], right: list[Any], wrong: list[Any]) -> None:
    import jsonschema

    validator = jsonschema.Draft202012Validator(object_schema((field,)))
    for value in right:
        field.take(value)
        validator.validate({field.name: value})
    for value in wrong:
        with pytest.raises(ValueError):
            field.take(value)
        if not isinstance(field, Destination):  # its text has a form that the schema only describes in words
            assert list(validator.iter_errors({field.name: value})), value


@dataclass
class Inner:
    count: int


@dataclass
class Outer:
    inner: Inner | None
    names: dict[int, str]
    rows: list[Inner]
    words: tuple[str, ...]
    share: float


def test_the_schema_of_a_dataclass() -> None:
    inner = {
        "type": "object",
        "properties": {"count": {"type": "integer"}},
        "required": ["count"],
        "additionalProperties": False,
    }
    properties = schema_of(Outer)["properties"]
    assert properties == {
        "inner": {"anyOf": [inner, {"type": "null"}]},
        "names": {"type": "object", "additionalProperties": {"type": "string"}},
        "rows": {"type": "array", "items": inner},
        "words": {"type": "array", "items": {"type": "string"}},
        "share": {"type": "number"},
    }


def test_a_problem_names_a_wrong_value_without_control_characters() -> None:
    problem = Text("t", "T.", most=1).wrong("\x1b[31m\n")
    assert isinstance(problem, Problem)
    assert problem.detail == r"t is '\x1b[31m\n'; allowed is a text of at most 1 characters"
    assert json.dumps(problem.detail)
