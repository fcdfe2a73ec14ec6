"""Values of an expression: a boolean, a number, a string or nodes; and the limit of steps to compute them.

Source: XML Path Language 1.0, sections 3.4, 4.2 to 4.4 and 5.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from engine.selector.xpath.document import ATTRIBUTE, TEXT, Node

XPATH_STEPS_MAX: Final = 20_000  # steps per message and selector
TEXT_STEP: Final = 64  # characters that cost a step

Nodes = list[Node]
Result = bool | float | str | Nodes

BLANKS: Final = " \t\r\n"
_NUMBER: Final = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")


class StepsUsedUp(Exception):
    """The evaluation exceeds the limit of steps for this message."""


@dataclass(slots=True)
class Focus:
    """The node for which an expression is evaluated, its place among the nodes of its step, and the budget."""

    node: Node
    position: int
    size: int
    budget: Budget


@dataclass(slots=True, eq=False)
class Budget:
    """The steps that one selector may still spend on one message, over all its expressions."""

    left: int = XPATH_STEPS_MAX

    def taken(self) -> int:
        """Return the steps that the message has cost."""
        return XPATH_STEPS_MAX - self.left

    def spend(self, steps: int) -> None:
        """Raises: StepsUsedUp."""
        self.left -= steps
        if self.left < 0:
            raise StepsUsedUp

    def spend_text(self, text: str) -> str:
        self.spend(1 + len(text) // TEXT_STEP)
        return text


def text_of(node: Node, budget: Budget) -> str:
    if node.kind in (ATTRIBUTE, TEXT):
        return budget.spend_text(node.value)
    parts: list[str] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        budget.spend(1)
        if one.kind == TEXT:
            parts.append(budget.spend_text(one.value))
        waiting.extend(reversed(one.children))
    return "".join(parts)


def string_of(value: Result, budget: Budget) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return str(int(value)) if value == int(value) else format(Decimal(repr(value)), "f")
    return text_of(value[0], budget) if value else ""


def number_of(value: Result, budget: Budget) -> float:
    if isinstance(value, (bool, float)):
        return float(value)
    text = budget.spend_text(string_of(value, budget)).strip(BLANKS)
    return float(text) if len(text) <= 400 and _NUMBER.fullmatch(text) else math.nan


def boolean_of(value: Result) -> bool:
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


def compared(operator: str, left: Result, right: Result, budget: Budget) -> bool:
    """XPath 1.0, section 3.4: for node-sets, whether it is true for any of their nodes."""
    if isinstance(left, list) and isinstance(right, list):
        texts = [text_of(node, budget) for node in right]
        for node in left:
            text = text_of(node, budget)
            budget.spend(len(texts))
            if any(compared(operator, text, other, budget) for other in texts):
                return True
        return False
    if isinstance(left, list) or isinstance(right, list):
        nodes, other, is_left = (left, right, True) if isinstance(left, list) else (right, left, False)
        assert isinstance(nodes, list), "one of them is a node-set"
        if isinstance(other, bool):
            return (
                compared(operator, bool(nodes), other, budget)
                if is_left
                else compared(operator, other, bool(nodes), budget)
            )
        for node in nodes:
            text = text_of(node, budget)
            if compared(operator, text, other, budget) if is_left else compared(operator, other, text, budget):
                return True
        return False
    if operator in ("=", "!="):
        if isinstance(left, bool) or isinstance(right, bool):
            is_equal = boolean_of(left) == boolean_of(right)
        elif isinstance(left, float) or isinstance(right, float):
            first, second = number_of(left, budget), number_of(right, budget)
            return first == second if operator == "=" else first != second
        else:
            budget.spend_text(left)
            is_equal = left == right
        return is_equal if operator == "=" else not is_equal
    first, second = number_of(left, budget), number_of(right, budget)
    return {"<": first < second, "<=": first <= second, ">": first > second, ">=": first >= second}[operator]


def in_order(nodes: Nodes) -> Nodes:
    """Return nodes in document order, each once."""
    return [one for _, one in sorted({node.order: node for node in nodes}.items())]
