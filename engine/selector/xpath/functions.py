"""The functions of XPath 1.0.  Source: XML Path Language 1.0, section 4."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from engine.selector.xpath.values import BLANKS, Focus, Nodes, Result, boolean_of, number_of, string_of, text_of


def _texts(focus: Focus, values: list[Result]) -> list[str]:
    texts = [string_of(value, focus.budget) for value in values] or [text_of(focus.node, focus.budget)]
    for text in texts:
        focus.budget.spend_text(text)
    return texts


def _count(focus: Focus, values: list[Result]) -> Result:
    return float(len(_nodes(values[0])))


def _sum(focus: Focus, values: list[Result]) -> Result:
    return sum((number_of(text_of(node, focus.budget), focus.budget) for node in _nodes(values[0])), 0.0)


def _nodes(value: Result) -> Nodes:
    assert isinstance(value, list), "the parser passes only node-sets here"
    return value


def _name(focus: Focus, values: list[Result]) -> Result:
    nodes = _nodes(values[0]) if values else [focus.node]
    return nodes[0].name.rpartition("}")[2] if nodes else ""


def _string(focus: Focus, values: list[Result]) -> Result:
    return _texts(focus, values)[0]


def _concat(focus: Focus, values: list[Result]) -> Result:
    return "".join(_texts(focus, values))


def _starts_with(focus: Focus, values: list[Result]) -> Result:
    text, start = _texts(focus, values)
    return text.startswith(start)


def _contains(focus: Focus, values: list[Result]) -> Result:
    text, part = _texts(focus, values)
    return part in text


def _before(focus: Focus, values: list[Result]) -> Result:
    text, part = _texts(focus, values)
    return text.partition(part)[0] if part and part in text else ""


def _after(focus: Focus, values: list[Result]) -> Result:
    text, part = _texts(focus, values)
    return text.partition(part)[2] if part else text


def _substring(focus: Focus, values: list[Result]) -> Result:
    text = _texts(focus, values[:1])[0]
    start = _rounded(number_of(values[1], focus.budget))
    end = start + _rounded(number_of(values[2], focus.budget)) if len(values) > 2 else math.inf
    if start != start or end != end:
        return ""
    first = max(1.0, start)
    last = max(1.0, min(end, len(text) + 1))
    return text[int(min(first, len(text) + 1)) - 1 : int(last) - 1]


def _length(focus: Focus, values: list[Result]) -> Result:
    return float(len(_texts(focus, values)[0]))


def _normalized(focus: Focus, values: list[Result]) -> Result:
    return " ".join(part for part in re.split(f"[{BLANKS}]+", _texts(focus, values)[0]) if part)


def _translated(focus: Focus, values: list[Result]) -> Result:
    text, old, new = _texts(focus, values)
    focus.budget.spend(len(old))
    table: dict[int, str | None] = {}
    for place, character in enumerate(old):
        table.setdefault(ord(character), new[place] if place < len(new) else None)
    return text.translate(table)


def _to_number(focus: Focus, values: list[Result]) -> Result:
    return number_of(values[0] if values else text_of(focus.node, focus.budget), focus.budget)


def _rounded(value: float) -> float:
    return math.floor(value + 0.5) + 0.0 if math.isfinite(value) else value


def _whole(function: Callable[[float], int]) -> Callable[[Focus, list[Result]], Result]:
    def whole(focus: Focus, values: list[Result]) -> Result:
        value = number_of(values[0], focus.budget)
        return float(function(value)) if math.isfinite(value) else value

    return whole


# name -> function, least and most arguments, whether the first argument is a node-set.
FUNCTIONS: Final[dict[str, tuple[Callable[[Focus, list[Result]], Result], int, int, bool]]] = {
    "last": (lambda focus, values: float(focus.size), 0, 0, False),
    "position": (lambda focus, values: float(focus.position), 0, 0, False),
    "count": (_count, 1, 1, True),
    "sum": (_sum, 1, 1, True),
    "name": (_name, 0, 1, True),
    "local-name": (_name, 0, 1, True),
    "string": (_string, 0, 1, False),
    "concat": (_concat, 2, 100, False),
    "starts-with": (_starts_with, 2, 2, False),
    "contains": (_contains, 2, 2, False),
    "substring-before": (_before, 2, 2, False),
    "substring-after": (_after, 2, 2, False),
    "substring": (_substring, 2, 3, False),
    "string-length": (_length, 0, 1, False),
    "normalize-space": (_normalized, 0, 1, False),
    "translate": (_translated, 3, 3, False),
    "boolean": (lambda focus, values: boolean_of(values[0]), 1, 1, False),
    "not": (lambda focus, values: not boolean_of(values[0]), 1, 1, False),
    "true": (lambda focus, values: True, 0, 0, False),
    "false": (lambda focus, values: False, 0, 0, False),
    "number": (_to_number, 0, 1, False),
    "floor": (_whole(math.floor), 1, 1, False),
    "ceiling": (_whole(math.ceil), 1, 1, False),
    "round": (lambda focus, values: _rounded(number_of(values[0], focus.budget)), 1, 1, False),
}
