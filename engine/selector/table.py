"""Many selectors evaluated at once for one message.

Most selectors of a destination with many consumers test one value of one property (a correlation id, a region):
``name = 'text'`` or ``name IN ('text', ...)``, alone or in an AND.  They are looked up by that value instead of being
evaluated one by one, so the cost depends on the number of matches, not on the number of selectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.selector.evaluate import Selector
from engine.selector.properties import Properties
from engine.selector.syntax import And, Comparison, Identifier, In, Literal, Node

ASKED_AT_ONCE: Final = 2_000  # conditions per message and turn; the others are evaluated in a later turn


@dataclass(slots=True, eq=False)
class SelectorTable:
    """Selectors by number.

    by_value: property name -> its value -> (number, selector, whether the value alone decides).
    others: those that must be evaluated one by one.
    asked_count: conditions evaluated since ``take_asked``.  unasked: numbers not evaluated for the last message, in
    order.
    """

    by_value: dict[str, dict[str, dict[int, tuple[Selector, bool]]]] = field(default_factory=dict)
    others: dict[int, Selector] = field(default_factory=dict)
    selectors: dict[int, Selector] = field(default_factory=dict)
    asked_count: int = 0
    unasked: list[int] = field(default_factory=list)
    _others_cost: int = 0
    # property -> value -> cost of the selectors that test more than it
    _value_costs: dict[str, dict[str, int]] = field(default_factory=dict)
    _value_cost: int = 0  # the most that the values of one message can cost, -1 if not computed yet

    def __len__(self) -> int:
        return len(self.selectors)

    def add(self, number: int, selector: Selector) -> None:
        """Add ``selector``; ``number`` identifies it in the answers."""
        self.selectors[number] = selector
        key = _key(selector.expression)
        if key is None:
            self.others[number] = selector
            self._others_cost += selector.cost
            return
        name, texts, is_whole = key
        values = self.by_value.setdefault(name, {})
        for text in texts:
            values.setdefault(text, {})[number] = (selector, is_whole)
        if not is_whole:
            self._count(name, texts, selector.cost)

    def remove(self, number: int) -> None:
        selector = self.selectors.pop(number)
        key = _key(selector.expression)
        if key is None:
            del self.others[number]
            self._others_cost -= selector.cost
            return
        name, texts, is_whole = key
        if not is_whole:
            self._count(name, texts, -selector.cost)
        values = self.by_value[name]
        for text in texts:
            del values[text][number]
            if not values[text]:
                del values[text]
        if not values:
            del self.by_value[name]

    def cost(self) -> int:
        """Return how many conditions one message may cost."""
        if self._value_cost < 0:
            self._value_cost = sum([max(costs.values(), default=0) for costs in self._value_costs.values()])
        return self._others_cost + self._value_cost

    def take_asked(self) -> int:
        """Return how many conditions were evaluated since the last call."""
        asked_count = self.asked_count
        self.asked_count = 0
        return asked_count

    def _count(self, name: str, texts: tuple[str, ...], cost: int) -> None:
        costs = self._value_costs.setdefault(name, {})
        for text in texts:
            left = costs.get(text, 0) + cost
            if left:
                costs[text] = left
            else:
                del costs[text]
        if not costs:
            del self._value_costs[name]
        self._value_cost = -1

    def matching(self, properties: Properties, most: int = ASKED_AT_ONCE) -> list[int]:
        """Return the numbers of the selectors that match; beyond ``most`` conditions they are ``unasked``."""
        found: list[int] = []
        asking: list[int] = []
        for name, values in self.by_value.items():
            value = properties.known(name)
            if type(value) is str:
                candidates = values.get(value)
                if candidates is not None:
                    for number, (_, is_whole) in candidates.items():
                        (found if is_whole and len(found) < most else asking).append(number)
            elif value is not None and properties.converts_strings:
                # The selector's text may equal a number: ``JMSPriority = '4'``.
                numbers = {number for candidates in values.values() for number in candidates}
                asking += sorted(numbers)
        if self.others:
            asking += self.others
        self.unasked = []
        return found + self.ask(asking, properties, most) if asking else found

    def ask(self, numbers: list[int], properties: Properties, most: int) -> list[int]:
        """Evaluate some selectors, at least one; the others are ``unasked``, unless they are gone."""
        found: list[int] = []
        selectors = self.selectors
        asked_count = 0
        self.unasked = []
        for place, number in enumerate(numbers):
            selector = selectors.get(number)
            if selector is None:
                continue
            if selector.matches(properties):
                found.append(number)
            asked_count += selector.last_cost()
            if asked_count >= most:
                self.unasked = numbers[place + 1 :]
                break
        self.asked_count += asked_count
        return found


def _key(node: Node) -> tuple[str, tuple[str, ...], bool] | None:
    """Return (property, texts of which it must have one, whether that decides alone), None if there is no such test."""
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
