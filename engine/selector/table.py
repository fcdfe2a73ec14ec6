"""Many selectors asked at once about one message.

Most selectors of a destination with many consumers ask for one value of one property (a correlation id, a region):
``name = 'text'`` or ``name IN ('text', ...)``, alone or in an AND.  They are found by that value instead of being asked
one by one, so that what counts is how many match, not how many there are.
"""

from __future__ import annotations

from typing import Final

from engine.selector.evaluate import Selector
from engine.selector.properties import Properties
from engine.selector.syntax import And, BodyTest, Comparison, Identifier, In, Literal, Node, Not, Or

BODY_COST: Final = 16  # of an expression over the body, in comparisons of a property


class SelectorTable:
    """Selectors by number.

    by_value: property name -> its value -> (number, selector, whether the value alone decides).
    others: those that must be asked one by one.  cost: of asking all of them about a message.
    """

    __slots__ = ("by_value", "others", "selectors", "cost")

    def __init__(self) -> None:
        self.by_value: dict[str, dict[str, dict[int, tuple[Selector, bool]]]] = {}
        self.others: dict[int, Selector] = {}
        self.selectors: dict[int, Selector] = {}
        self.cost = 0

    def __len__(self) -> int:
        return len(self.selectors)

    def add(self, number: int, selector: Selector) -> None:
        """Put ``selector`` in; ``number`` names it in the answers."""
        self.selectors[number] = selector
        key = _key(selector.expression)
        if key is None:
            self.others[number] = selector
            self.cost += _cost(selector.expression)
            return
        name, texts, is_whole = key
        values = self.by_value.setdefault(name, {})
        for text in texts:
            values.setdefault(text, {})[number] = (selector, is_whole)

    def remove(self, number: int) -> None:
        selector = self.selectors.pop(number)
        key = _key(selector.expression)
        if key is None:
            del self.others[number]
            self.cost -= _cost(selector.expression)
            return
        name, texts, _ = key
        values = self.by_value[name]
        for text in texts:
            del values[text][number]
            if not values[text]:
                del values[text]
        if not values:
            del self.by_value[name]

    def matching(self, properties: Properties) -> list[int]:
        """Return the numbers of the selectors that match."""
        found: list[int] = []
        for name, values in self.by_value.items():
            value = properties.get(name)
            if type(value) is str:
                candidates = values.get(value)
                if candidates is not None:
                    for number, (selector, is_whole) in candidates.items():
                        if is_whole or selector.matches(properties):
                            found.append(number)
            elif value is not None and properties.converts_strings:
                # The text of the selector is worth what it says beside a number: ``JMSPriority = '4'``.
                numbers = {number for candidates in values.values() for number in candidates}
                found += [number for number in sorted(numbers) if self.selectors[number].matches(properties)]
        for number, selector in self.others.items():
            if selector.matches(properties):
                found.append(number)
        return found


def _key(node: Node) -> tuple[str, tuple[str, ...], bool] | None:
    """Return (property, texts one of which it must have, whether nothing else is asked), None if there is no such."""
    match node:
        case Comparison(Identifier(name), "=", Literal(str(text))) | Comparison(
            Literal(str(text)), "=", Identifier(name)
        ):
            return name, (text,), True
        case In(name, texts, False):
            return name, tuple(dict.fromkeys(texts)), True
        case And(operands):
            for operand in operands:
                key = _key(operand)
                if key is not None:
                    return key[0], key[1], False
    return None


def _cost(node: Node) -> int:
    """Return about how many comparisons of a property it costs to ask for ``node``."""
    match node:
        case And(operands) | Or(operands):
            return sum(_cost(operand) for operand in operands)
        case Not(operand):
            return _cost(operand)
        case BodyTest():
            return BODY_COST
    return 1
