"""The parts of an expression: constants, operators, paths with their steps and predicates, calls of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engine.selector.arithmetic import approximate
from engine.selector.xpath.document import ATTRIBUTE, ELEMENT, TEXT, Node
from engine.selector.xpath.values import Budget, Focus, Nodes, Result, boolean_of, compared, in_order, number_of

AXES: Final = frozenset(
    (
        "child",
        "attribute",
        "self",
        "parent",
        "descendant",
        "descendant-or-self",
        "ancestor",
        "ancestor-or-self",
        "following-sibling",
        "preceding-sibling",
    )
)
_OPERATORS: Final = {"div": "/", "mod": "%"}
_BACKWARDS: Final = frozenset(("parent", "ancestor", "ancestor-or-self", "preceding-sibling"))


class Expression(ABC):
    __slots__ = ()

    @abstractmethod
    def value(self, focus: Focus) -> Result:
        """Raises: StepsUsedUp."""


@dataclass(slots=True, eq=False)
class Constant(Expression):
    _value: Result

    def value(self, focus: Focus) -> Result:
        return self._value


@dataclass(slots=True, eq=False)
class Chain(Expression):
    """Operators of one precedence, from left to right; ``and`` and ``or`` stop as soon as the result is known."""

    _first: Expression
    _rest: list[tuple[str, Expression]]

    def value(self, focus: Focus) -> Result:
        budget = focus.budget
        result = self._first.value(focus)
        for operator, operand in self._rest:
            budget.spend(1)
            if operator in ("and", "or"):
                result = boolean_of(result)
                if result is (operator == "or"):
                    return result
                result = boolean_of(operand.value(focus))
            elif operator in ("=", "!=", "<", "<=", ">", ">="):
                result = compared(operator, result, operand.value(focus), budget)
            elif operator == "|":
                other = operand.value(focus)
                assert isinstance(result, list) and isinstance(other, list), "the parser joins only paths"
                budget.spend(len(result) + len(other))
                result = in_order(result + other)
            else:
                left, right = number_of(result, budget), number_of(operand.value(focus), budget)
                result = approximate(_OPERATORS.get(operator, operator), left, right)
        return result


@dataclass(slots=True, eq=False)
class Negative(Expression):
    _operand: Expression

    def value(self, focus: Focus) -> Result:
        return -number_of(self._operand.value(focus), focus.budget)


@dataclass(slots=True)
class Step:
    """axis, and a test: a name, ``*``, ``text()`` or ``node()``."""

    axis: str
    test: str
    predicates: list[Expression]

    def taken(self, node: Node, budget: Budget) -> Nodes:
        found: Nodes = []
        for one in _along(self.axis, node, budget):
            if self._is_meant(one):
                found.append(one)
        for predicate in self.predicates:
            found = filtered(found, predicate, budget)
        return found

    def _is_meant(self, node: Node) -> bool:
        test = self.test
        if test == "node()":
            return True
        if test == "text()":
            return node.kind == TEXT
        if node.kind != (ATTRIBUTE if self.axis == "attribute" else ELEMENT):
            return False
        return test in ("*", node.name)


def _along(axis: str, node: Node, budget: Budget) -> Nodes:
    """Return the nodes of an axis, nearest first."""
    found: Nodes = []
    if axis == "child":
        found = node.children
    elif axis == "attribute":
        found = node.attributes
    elif axis == "self":
        found = [node]
    elif axis in ("descendant", "descendant-or-self"):
        waiting = [node]
        while waiting:
            one = waiting.pop()
            budget.spend(1)
            if one is not node or axis == "descendant-or-self":
                found.append(one)
            waiting.extend(reversed(one.children))
        return found
    elif axis in ("following-sibling", "preceding-sibling"):
        siblings = [] if node.parent is None or node.kind == ATTRIBUTE else node.parent.children
        budget.spend(len(siblings))
        if axis == "following-sibling":
            return [one for one in siblings if one.order > node.order]
        return [one for one in reversed(siblings) if one.order < node.order]
    else:
        one_up = node if axis == "ancestor-or-self" else node.parent
        while one_up is not None:
            found.append(one_up)
            one_up = None if axis == "parent" else one_up.parent
    budget.spend(len(found) + 1)
    return found


def filtered(nodes: Nodes, predicate: Expression, budget: Budget) -> Nodes:
    """Return the nodes for which a predicate is true; a number is a position."""
    found: Nodes = []
    for position, node in enumerate(nodes, 1):
        budget.spend(1)
        value = predicate.value(Focus(node, position, len(nodes), budget))
        if value == position if isinstance(value, float) else boolean_of(value):
            found.append(node)
    return found


@dataclass(slots=True, eq=False)
class Path(Expression):
    """start: where the steps begin, None for the focus; is_absolute: they begin at the root."""

    _start: Expression | None
    _is_absolute: bool
    _predicates: list[Expression]
    _steps: list[Step]

    def value(self, focus: Focus) -> Result:
        budget = focus.budget
        nodes = [focus.node]
        if self._start is not None:
            value = self._start.value(focus)
            assert isinstance(value, list), "the parser applies steps only to node-sets"
            nodes = value
        elif self._is_absolute:
            while nodes[0].parent is not None:
                nodes = [nodes[0].parent]
                budget.spend(1)
        for predicate in self._predicates:
            nodes = filtered(nodes, predicate, budget)
        for step in self._steps:
            found: Nodes = []
            for node in nodes:
                found += step.taken(node, budget)
            budget.spend(len(found))
            nodes = in_order(found) if len(nodes) > 1 or step.axis in _BACKWARDS else found
        return nodes


@dataclass(slots=True, eq=False)
class Call(Expression):
    _function: Callable[[Focus, list[Result]], Result]
    _arguments: list[Expression]

    def value(self, focus: Focus) -> Result:
        focus.budget.spend(1)
        return self._function(focus, [argument.value(focus) for argument in self._arguments])
