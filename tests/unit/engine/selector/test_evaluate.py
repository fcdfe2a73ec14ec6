"""What closures do that shows in no table of truths: order, economy, compilation at the bounds."""

from __future__ import annotations

import pytest

from engine.selector.evaluate import compile_selector
from engine.selector.parser import NESTING_MAX
from engine.selector.syntax import write
from engine.values.errors import InvalidSelector
from tests.support.engine.selector_properties import ConvertedProperties, TypedProperties


def test_a_selector_keeps_its_text_and_its_canonical_form() -> None:
    selector = compile_selector("(a=1)and b")
    assert selector.text == "(a=1)and b"
    assert write(selector.expression) == "a = 1 AND b"


def test_a_text_is_compiled_once_as_long_as_somebody_has_it() -> None:
    first = compile_selector("a = 1 OR b = 2")
    assert compile_selector("a = 1 OR b = 2") is first
    assert compile_selector("a = 1 or b = 2") is not first


@pytest.mark.parametrize(
    ("text", "asked_count"), [("a = 1 AND b = 2", 1), ("a = 0 OR b = 2", 1), ("a = 0 AND b = 2", 2)]
)
def test_what_is_decided_is_not_asked_again(text: str, asked_count: int) -> None:
    properties = TypedProperties({"a": 0})
    compile_selector(text).matches(properties)
    assert properties.asked_count == asked_count


def test_the_unknown_does_not_match_and_neither_does_its_negation() -> None:
    properties = TypedProperties({})
    assert not compile_selector("a = 1").matches(properties)
    assert not compile_selector("NOT a = 1").matches(properties)


def test_the_same_selector_serves_typed_and_converted_properties() -> None:
    selector = compile_selector("size > 3")
    assert not selector.matches(TypedProperties({"size": "4"}))
    assert selector.matches(ConvertedProperties({"size": "4"}))
    assert selector.matches(TypedProperties({"size": 4}))


@pytest.mark.parametrize("text", ["(" * NESTING_MAX + "a" + ")" * NESTING_MAX, "NOT " * NESTING_MAX + "a"])
def test_the_deepest_nesting_can_be_evaluated(text: str) -> None:
    assert compile_selector(text).matches(TypedProperties({"a": True}))


def test_long_chains_can_be_evaluated() -> None:
    properties = TypedProperties({"a": 1})
    assert compile_selector(" OR ".join(["a = 2"] * 5_000 + ["a = 1"])).matches(properties)
    assert compile_selector(" + ".join(["a"] * 5_000) + " = 5000").matches(properties)


def test_errors_come_when_it_is_compiled() -> None:
    with pytest.raises(InvalidSelector):
        compile_selector("a >")
