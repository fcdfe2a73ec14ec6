"""XPath 1.0 on the body of a message, with a limit of steps per message.

    or      and or and ...              sum      product [+ -] product ...
    and     equal and equal ...         product  sign [* div mod] sign ...
    equal   less [= !=] less ...        sign     - sign | union
    less    sum [< <= > >=] sum ...     union    path | path ...
    path    [/ //] step [/ //] step ... | primary predicates [/ //] step ...
    step    [axis::] test predicates | @test predicates | . | ..
    primary literal, number, ( or ), function

It supports all of XPath 1.0 except namespaces (a name without a prefix has no namespace; prefixes are refused),
variables, comments, ``id``, ``lang`` and ``namespace-uri``.  No library that was considered limits its steps, and a
short expression may take days on a few kilobytes.  Here each node visited and each piece of text assembled costs a
step, and an expression that has used up its steps does not match.
Source: XML Path Language 1.0 (W3C, 1999); ActiveMQ's ``XPATH``, which is false for what cannot be evaluated.
"""

from __future__ import annotations

import re
from typing import Final

from engine.selector.xpath.document import Node
from engine.selector.xpath.expressions import AXES, Call, Chain, Constant, Expression, Negative, Path, Step
from engine.selector.xpath.functions import FUNCTIONS
from engine.selector.xpath.values import Budget, Focus, StepsUsedUp, boolean_of
from engine.values.errors import InvalidSelector

XPATH_LENGTH_MAX: Final = 1_024  # characters of an expression
XPATH_NESTING_MAX: Final = 20  # parentheses, predicates and functions inside each other

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<literal>\"[^\"]*\"|'[^']*')|(?P<number>\d+(?:\.\d*)?|\.\d+)"
    r"|(?P<symbol>//|::|\.\.|!=|<=|>=|[()\[\]@,./|+\-=<>*$])|(?P<name>[^\W\d][\w.\-]*(?::[^\W\d][\w.\-]*)?))"
)
_LEVELS: Final = (("or",), ("and",), ("=", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "div", "mod"))
_END: Final = ""


class XPath:
    __slots__ = ("expression",)

    def __init__(self, text: str) -> None:
        """text: as in the selector.  Raises: InvalidSelector."""
        self.expression: Expression = _Parser(text).expression()

    def matches(self, document: Node | None, budget: Budget) -> bool:
        """Say whether the expression is true of a document; not without one, or past the limit of steps."""
        if document is None:
            return False
        try:
            return boolean_of(self.expression.value(Focus(document, 1, 1, budget)))
        except StepsUsedUp:
            return False


class _Parser:
    __slots__ = ("_tokens", "_at", "_nesting")

    def __init__(self, text: str) -> None:
        if len(text) > XPATH_LENGTH_MAX:
            raise InvalidSelector(f"an XPath of {len(text)} characters; the limit is {XPATH_LENGTH_MAX}")
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        self._nesting = 0
        at = 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at, end)
            if match is None:
                raise InvalidSelector(f"XPath, character {at + 1}: found {text[at : at + 20].strip()[:1]!r}")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind]))
            at = match.end()
        self._tokens.append((_END, _END))

    def expression(self) -> Expression:
        found = self._level(0)
        if self._token() != _END:
            raise self._unexpected("an operator or the end")
        return found

    def _token(self) -> str:
        kind, text = self._tokens[self._at]
        return "literal" if kind == "literal" else text

    def _next_token(self) -> str:
        return self._tokens[self._at + 1][1] if self._at + 1 < len(self._tokens) else _END

    def _take(self, text: str) -> bool:
        if self._token() != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(repr(text))

    def _unexpected(self, allowed: str) -> InvalidSelector:
        _, text = self._tokens[self._at]
        seen = repr(text[:80]) if text else "the end"
        return InvalidSelector(f"XPath: found {seen}; allowed here: {allowed}")

    def _level(self, number: int) -> Expression:
        if number == len(_LEVELS):
            return self._sign()
        first = self._level(number + 1)
        rest: list[tuple[str, Expression]] = []
        while self._token() in _LEVELS[number]:
            operator = self._token()
            self._at += 1
            rest.append((operator, self._level(number + 1)))
        return Chain(first, rest) if rest else first

    def _sign(self) -> Expression:
        is_negative = False
        has_sign = False
        while self._take("-"):
            is_negative = not is_negative
            has_sign = True
        found = self._union()
        if not has_sign:
            return found
        return Negative(found) if is_negative else Negative(Negative(found))

    def _union(self) -> Expression:
        first = self._path()
        rest: list[tuple[str, Expression]] = []
        while self._token() == "|":
            if not isinstance(first, Path):
                raise self._unexpected("paths on both sides of |")
            self._at += 1
            other = self._path()
            if not isinstance(other, Path):
                raise InvalidSelector("XPath: an operand of | is something else than a path")
            rest.append(("|", other))
        # As a path, so that it can be counted and have further steps.
        return Path(Chain(first, rest), False, [], []) if rest else first

    def _path(self) -> Expression:
        kind, text = self._tokens[self._at]
        is_call = kind == "name" and self._next_token() == "(" and text not in ("text", "node")
        if kind in ("literal", "number") or text == "(" or is_call:
            primary = self._primary()
            predicates = self._predicates()
            if not predicates and self._token() not in ("/", "//"):
                return primary
            if not isinstance(primary, Path):
                raise self._unexpected("a path before [, / and //")
            return Path(primary, False, predicates, self._steps_after())
        if self._take("/"):
            steps = [self._step(), *self._steps_after()] if self._begins_step() else []
            return Path(None, True, [], steps)
        if text == "//":
            return Path(None, True, [], self._steps_after())
        return Path(None, False, [], [self._step(), *self._steps_after()])

    def _steps_after(self) -> list[Step]:
        steps: list[Step] = []
        while self._token() in ("/", "//"):
            if self._token() == "//":
                steps.append(Step("descendant-or-self", "node()", []))
            self._at += 1
            steps.append(self._step())
        return steps

    def _begins_step(self) -> bool:
        kind, text = self._tokens[self._at]
        return kind == "name" or text in ("*", "@", ".", "..")

    def _step(self) -> Step:
        if self._take("."):
            return Step("self", "node()", [])
        if self._take(".."):
            return Step("parent", "node()", [])
        axis = "child"
        if self._take("@"):
            axis = "attribute"
        elif self._next_token() == "::":
            axis = self._token()
            if axis not in AXES:
                raise self._unexpected(f"one of the axes {', '.join(sorted(AXES))}")
            self._at += 2
        kind, test = self._tokens[self._at]
        if test != "*" and kind != "name":
            raise self._unexpected("a name, *, @, . or ..")
        if ":" in test:
            raise self._unexpected("a name without a prefix; *[local-name()='x'] is of any namespace")
        self._at += 1
        if test in ("text", "node") and self._take("("):
            self._expect(")")
            test += "()"
        return Step(axis, test, self._predicates())

    def _predicates(self) -> list[Expression]:
        found: list[Expression] = []
        while self._take("["):
            found.append(self._nested("]"))
        return found

    def _nested(self, end: str) -> Expression:
        self._nesting += 1
        if self._nesting > XPATH_NESTING_MAX:
            raise InvalidSelector(
                f"XPath: {self._nesting} parentheses, predicates and functions inside each other; the limit is "
                f"{XPATH_NESTING_MAX}"
            )
        found = self._level(0)
        self._nesting -= 1
        if end:
            self._expect(end)
        return found

    def _primary(self) -> Expression:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "literal":
            return Constant(text[1:-1])
        if kind == "number":
            return Constant(float(text))
        if text == "(":
            return self._nested(")")
        return self._call(text)

    def _call(self, name: str) -> Expression:
        known = FUNCTIONS.get(name)
        if known is None:
            self._at -= 1
            raise self._unexpected(f"one of the functions {', '.join(sorted(FUNCTIONS))}")
        function, least, most, is_of_nodes = known
        self._expect("(")
        arguments: list[Expression] = []
        while not self._take(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._nested(""))
        if not least <= len(arguments) <= most:
            raise InvalidSelector(f"XPath: {name}() has {len(arguments)} arguments; allowed are {least} to {most}")
        if is_of_nodes and arguments and not isinstance(arguments[0], Path):
            raise InvalidSelector(f"XPath: {name}() is of a path")
        return Call(function, arguments)
