"""XPath on a body.  24,000 random expressions were worth what libxml2 makes of them; here are some of each kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.selector.xpath.document import DOCUMENT_BYTES_MAX, NODES_MAX, Builder, read_document
from engine.selector.xpath.parser import XPATH_LENGTH_MAX, XPATH_NESTING_MAX, XPath
from engine.selector.xpath.values import XPATH_STEPS_MAX, Budget, Focus, StepsUsedUp
from engine.values.errors import InvalidSelector

ORDER = (
    b'<order id="7" state="open"><item n="1">a<b>x</b>y</item><item n="2"> 12.5 </item><!-- no node --><item n="3"/>'
    b'<c:ns xmlns:c="urn:u">q</c:ns><item n="10"><b>z</b><b>x</b></item>tail</order>'
)


def is_true(expression: str, body: bytes = ORDER) -> bool:
    return XPath(expression).matches(read_document(body), Budget())


@pytest.mark.parametrize(
    "expression",
    [
        "/order",
        "//item",
        "order/item[@n=2] > 12",
        "//item[@n='10']/b = 'x'",
        "/order/@state = 'open' and not(//missing)",
        "//missing or count(//b) = 3",
        "count(//item[b]) = 2",
        "//item[last()]/@n = 10",
        "//item[position() > 1][1]/@n = 2",
        "(//b)[2] = 'z'",
        "//b[1] = 'z'",
        "count(//b | //b | //item) = 7",
        "string(//item[1]) = 'axy'",
        "//item[1]/text()[2] = 'y'",
        "count(/order/node()) = 6",
        "//b/../@n = 1",
        "//b/ancestor::order/@id = 7",
        "//item[3]/following-sibling::*[1][local-name() = 'ns']",
        "//item[@n=10]/preceding-sibling::*[1] = 'q'",
        "/order/child::item[self::item]",
        "/descendant::item[2]/@n = 2",
        "//@n/ancestor-or-self::order",
        "starts-with(/order/@state, 'op') and contains(//item[1], 'xy')",
        "concat('a', 1, true()) = 'a1true'",
        "substring('12345', 2, 3) = '234' and substring('12345', 1.5, 2.6) = '234'",
        "substring('12345', 0, 3) = '12' and substring('12345', -42, 1 div 0) = '12345'",
        "substring('12345', 0 div 0) = '' and substring('12345', -1 div 0) = '12345'",
        "substring('12345', 1, -1 div 0) = '' and substring('12345', 9) = ''",
        "substring-before('a-b-c', '-') = 'a' and substring-after('a-b-c', '-') = 'b-c'",
        "substring-before('a', 'x') = '' and substring-after('a', '') = 'a'",
        "normalize-space('  a \t b ') = 'a b' and string-length('abc') = 3",
        "translate('bar', 'abc', 'AB') = 'BAr' and translate('-a-', 'a-', 'A') = 'A'",
        "boolean('x') and not(boolean('')) and not(boolean(0)) and not(boolean(0 div 0)) and not(false())",
        "number(' 12.5 ') = 12.5 and string(number('x')) = 'NaN' and number(true()) = 1",
        "sum(//item/@n) = 16 and floor(-1.5) = -2 and ceiling(-1.5) = -1 and round(2.5) = 3 and round(-2.5) = -2",
        "1 + 2 * 3 - 4 div 2 = 5 and 5 mod -3 = 2 and -5 mod 3 = -2 and - -1 = 1",
        "string(1 div 0) = 'Infinity' and string(-1 div 0) = '-Infinity' and string(0 div 0) = 'NaN'",
        "string(0.00001) = '0.00001' and string(12.50) = '12.5' and string(-0) = '0'",
        "string(floor(0 div 0)) = 'NaN' and string(round(1 div 0)) = 'Infinity' and string(1 mod 0) = 'NaN'",
        "//item != //b",
        "//item = true() and true() != //missing",
        "'1' < '2' and 1 <= '1' and 3 >= 2 and true() > false()",
        "2 > //item/@n",
        "div/mod or //*[local-name()='order']",
        "local-name(//@n) = 'n' and name(/) = '' and local-name(//missing) = ''",
        "/",
        "//item[.='axy']",
        "string() = string(/order)",
        "//item['x' = b]",
    ],
)
def test_what_is_true(expression: str) -> None:
    assert is_true(expression)
    assert not is_true(f"not({expression})")


@pytest.mark.parametrize(
    "expression",
    [
        "/item",
        "//ns",
        "//item[5]",
        "//text()/@n",
        "//@n//@n",
        "//@n/following-sibling::item",
        "//missing = ''",
        "0 div 0",
    ],
)
def test_what_is_not(expression: str) -> None:
    assert not is_true(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "found the end"),
        ("//", "found the end"),
        ("//item[", "found the end"),
        ("//item]", "found ']'"),
        ("'open", "found"),
        ("'a' 'b'", "an operator or the end"),
        ("c:ns", "without a prefix"),
        ("$x", "found '\\$'"),
        ("comment()", "one of the functions"),
        ("id('x')", "one of the functions"),
        ("namespace::x", "one of the axes"),
        ("count('x')", "of a path"),
        ("count()", "0 arguments"),
        ("contains('a')", "1 arguments"),
        ("position(1)", "1 arguments"),
        ("concat('a' 'b')", "found"),
        ("'a' | //b", "paths on both sides"),
        ("//b | 'a'", "something else than a path"),
        ("'a'[1]", "a path before"),
        ("1/b", "a path before"),
        ("a b", "an operator or the end"),
        ("\x00", "character 1"),
        ("x" * (XPATH_LENGTH_MAX + 1), "the limit is 1024"),
        ("(" * (XPATH_NESTING_MAX + 1) + "1" + ")" * (XPATH_NESTING_MAX + 1), "the limit is 20"),
        ("a[" * (XPATH_NESTING_MAX + 1) + "1" + "]" * (XPATH_NESTING_MAX + 1), "the limit is 20"),
        ("not(" * (XPATH_NESTING_MAX + 1) + "1" + ")" * (XPATH_NESTING_MAX + 1), "the limit is 20"),
    ],
)
def test_what_is_no_xpath(expression: str, reason: str) -> None:
    with pytest.raises(InvalidSelector, match=reason):
        XPath(expression)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"text",
        b"\xff<a/>",
        b"<a>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1/"><a/>',
        b'<?xml version="1.0" encoding="unheard-of"?><a/>',
        b"<a>" + b" " * DOCUMENT_BYTES_MAX + b"</a>",
        b"<a>" + b"<b/>" * NODES_MAX + b"</a>",
        b"<a>" + b"<b/>x" * (NODES_MAX // 2) + b"</a>",
    ],
)
def test_what_is_no_document_never_matches(body: bytes) -> None:
    assert read_document(body) is None
    assert not is_true("true()", body)


def test_a_document_of_the_greatest_depth() -> None:
    depth = NODES_MAX - 2
    body = b"<a>" * depth + b"</a>" * depth
    assert is_true(f"count(//a) = {depth}", body)


@pytest.mark.parametrize(
    "expression",
    [
        "//*//*//*//*",
        "//*[//*[//*]]",
        "//*[//* = 'x']",
        "//* = //@n",
        "//*[contains(string(/), 'never')]",
        "//*/ancestor::*/descendant::*[. = 'never']",
        "//*/following-sibling::*/preceding-sibling::*[. = 'never']",
        "count(//* | //* | //* | //* | //* | //*) = -1",
        "//*[translate(/, 'abcdefghijklmnopqrstuvwxyz', '') = 'never']",
    ],
)
def test_an_expression_that_costs_too_much_does_not_match(expression: str) -> None:
    body = b"<a>" + b"<b><c>never mind</c></b>" * 600 + b"</a>"
    document = read_document(body)
    assert document is not None
    budget = Budget()
    xpath = XPath(f"not({expression})")
    with pytest.raises(StepsUsedUp):
        xpath.expression.value(Focus(document, 1, 1, budget))
    assert -XPATH_STEPS_MAX <= budget.left < 0, "what was beyond is no more than one node's own"
    assert not xpath.matches(document, Budget())


WORDS = (
    "/ // . .. @ * [ ] ( ) | + - = != < >= and or div mod item b n text() node() count string not position() last() "
    "'x' 1 .5 :: child ancestor-or-self , concat substring $ c:ns"
)
EXPRESSIONS = st.lists(st.sampled_from(WORDS.split(" ")), max_size=14).map(" ".join)


@given(EXPRESSIONS)
def test_nothing_but_a_refusal_leaves(expression: str) -> None:
    try:
        xpath = XPath(expression)
    except InvalidSelector:
        return
    assert xpath.matches(read_document(ORDER), Budget()) in (True, False)


def test_a_body_with_too_many_nodes_is_read_no_further() -> None:
    builder = Builder()
    for number in range(NODES_MAX // 2):
        builder.start("a", {"n": str(number)})
    with pytest.raises(ValueError, match=f"more than {NODES_MAX} elements and attributes"):
        builder.start("a", {})
    assert read_document(b"<r>" + b"<a/>" * (NODES_MAX - 2) + b"</r>") is not None
    assert read_document(b"<r>" + b"<a/>" * NODES_MAX + b"</r>") is None
