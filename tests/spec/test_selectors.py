"""What Jakarta Messaging 3.1, section 3.8.1, and ActiveMQ for strings, say that a selector means.

The first word of each test id is the section, or ``ActiveMQ``.
"""

from __future__ import annotations

import pytest

from engine.selector.evaluate import compile_selector
from engine.selector.properties import Value
from engine.values.errors import InvalidSelector
from engine.values.message import PERSISTENT
from tests.support.engine.selector_properties import TypedProperties, stomp_message, stomp_properties

TRUE, FALSE, UNKNOWN = True, False, None

PROPERTIES: dict[str, Value] = {
    "age": 17,
    "price": 2.5,
    "one": 1,
    "big": 2**53 + 1,
    "max": 2**63 - 1,
    "colour": "red",
    "Country": "Peru",
    "phone": "12993",
    "word": "lose",
    "under": "_foo",
    "number": "31",
    "flag": True,
    "off": False,
    "$total_€": 5,
    "größe": 6,
    "not_": 7,
    "lines": "a\nb",
}


def truth(text: str, values: dict[str, Value]) -> bool | None:
    """Return what a condition is: it, its negation or neither matches."""
    properties = TypedProperties(values)
    if compile_selector(text).matches(properties):
        return True
    return False if compile_selector(f"NOT ({text})").matches(properties) else None


def example(section: str, text: str, expected: bool | None) -> object:
    return pytest.param(text, expected, id=f"{section}: {text}")


EXAMPLES = [
    # Literals.
    example("3.8.1.1-strings", "colour = 'red'", TRUE),
    example("3.8.1.1-strings", "'it''s' = 'it''s'", TRUE),
    example("3.8.1.1-strings", "'it''s' = 'its'", FALSE),
    example("3.8.1.1-strings", "colour = 'Red'", FALSE),
    example("3.8.1.1-strings", "'' = ''", TRUE),
    example("3.8.1.1-strings", "lines = 'a\nb'", TRUE),
    example("3.8.1.1-exact", "57 = +57", TRUE),
    example("3.8.1.1-exact", "57L = 57l", TRUE),
    example("3.8.1.1-exact", "0x1F = 31", TRUE),
    example("3.8.1.1-exact", "0XFFL = 255", TRUE),
    example("3.8.1.1-exact", "017 = 15", TRUE),
    example("3.8.1.1-exact", "0b101 = 5", TRUE),
    example("3.8.1.1-exact", "1_000_000 = 1000000", TRUE),
    example("3.8.1.1-exact", "0 = 00", TRUE),
    example("3.8.1.1-exact", "0xFFFFFFFFFFFFFFFF = -1", TRUE),
    example("3.8.1.1-exact", "0xFFFFFFFF = 4294967295", TRUE),
    example("3.8.1.1-exact", "-9223372036854775808 < -9223372036854775807", TRUE),
    example("3.8.1.1-approximate", "7E3 = 7000", TRUE),
    example("3.8.1.1-approximate", "-57.9E2 = -5790", TRUE),
    example("3.8.1.1-approximate", "7. = 7", TRUE),
    example("3.8.1.1-approximate", "-95.7 < +6.2", TRUE),
    example("3.8.1.1-approximate", ".5 = 0.5", TRUE),
    example("3.8.1.1-approximate", "1.5f = 1.5d", TRUE),
    example("3.8.1.1-approximate", "0.1f = 0.1", FALSE),
    example("3.8.1.1-approximate", "2d = 2", TRUE),
    example("3.8.1.1-approximate", "0x1.8p1 = 3", TRUE),
    example("3.8.1.1-boolean", "flag = TRUE", TRUE),
    example("3.8.1.1-boolean", "flag <> true", FALSE),
    example("3.8.1.1-boolean", "TRUE", TRUE),
    example("3.8.1.1-boolean", "fAlSe", FALSE),
    # Identifiers.
    example("3.8.1.1-identifiers", "Age = 17", UNKNOWN),
    example("3.8.1.1-identifiers", "$total_€ = 5", TRUE),
    example("3.8.1.1-identifiers", "größe = 6", TRUE),
    example("3.8.1.1-identifiers", "not_ = 7", TRUE),
    example("3.8.1.1-identifiers", "missing = 7", UNKNOWN),
    # White space: blank, tab, form feed, line ends.
    example("3.8.1.1-white-space", "\tage\f=\r\n17 ", TRUE),
    example("3.8.1.1-white-space", "age=17 AND(colour='red')", TRUE),
    # Logical operators: NOT, AND, OR in this order.
    example("3.8.1.1-precedence", "TRUE OR TRUE AND FALSE", TRUE),
    example("3.8.1.1-precedence", "(TRUE OR TRUE) AND FALSE", FALSE),
    example("3.8.1.1-precedence", "NOT FALSE AND FALSE", FALSE),
    example("3.8.1.1-precedence", "NOT age = 17", FALSE),
    example("3.8.1.1-precedence", "not colour = 'x' or FALSE and FALSE", TRUE),
    # Comparison.
    example("3.8.1.1-comparison", "age > 16.5", TRUE),
    example("3.8.1.1-comparison", "price < 3", TRUE),
    example("3.8.1.1-comparison", "16.5 < age", TRUE),
    example("3.8.1.1-comparison", "17 >= age", TRUE),
    example("3.8.1.1-comparison", "18 <= age", FALSE),
    example("3.8.1.1-comparison", "age = 17.0", TRUE),
    example("3.8.1.1-comparison", "age <> price", TRUE),
    example("3.8.1.1-comparison", "big = 9007199254740992.0", TRUE),  # promoted to double
    example("3.8.1.1-comparison", "big = 9007199254740992", FALSE),
    example("3.8.1.1-comparison", "(age > 3) = TRUE", TRUE),
    example("3.8.1.1-comparison", "flag <> off", TRUE),
    # Only like values are compared, else the operation is false.
    example("3.8.1.1-unlike", "colour = 3", FALSE),
    example("3.8.1.1-unlike", "colour <> 3", FALSE),
    example("3.8.1.1-unlike", "number = 31", FALSE),
    example("3.8.1.1-unlike", "number > 30", FALSE),
    example("3.8.1.1-unlike", "age = '17'", FALSE),
    example("3.8.1.1-unlike", "flag = 1", FALSE),
    example("3.8.1.1-unlike", "flag = 'TRUE'", FALSE),
    example("3.8.1.1-unlike", "one = TRUE", FALSE),
    example("3.8.1.1-unlike", "colour > word", FALSE),
    example("3.8.1.1-unlike", "flag >= off", FALSE),
    example("3.8.1.1-unlike", "colour", FALSE),
    # Arithmetic, by Java's rules.
    example("3.8.1.1-arithmetic", "1 + 2 * 3 = 7", TRUE),
    example("3.8.1.1-arithmetic", "(1 + 2) * 3 = 9", TRUE),
    example("3.8.1.1-arithmetic", "10 - 2 - 3 = 5", TRUE),
    example("3.8.1.1-arithmetic", "-age = -17", TRUE),
    example("3.8.1.1-arithmetic", "- -age = +age", TRUE),
    example("3.8.1.1-arithmetic", "2 * -age = -34", TRUE),
    example("3.8.1.1-arithmetic", "age / 2 = 8", TRUE),
    example("3.8.1.1-arithmetic", "-age / 2 = -8", TRUE),
    example("3.8.1.1-arithmetic", "age / 2.0 = 8.5", TRUE),
    example("3.8.1.1-arithmetic", "max + 1 < 0", TRUE),
    example("3.8.1.1-arithmetic", "age / 0 = 1", UNKNOWN),
    example("3.8.1.1-arithmetic", "age / 0.0 > max", TRUE),
    example("3.8.1.1-arithmetic", "colour + 1 = 1", UNKNOWN),
    example("3.8.1.1-arithmetic", "flag + 1 = 2", UNKNOWN),
    example("3.8.1.1-arithmetic", "missing + 1 > 0", UNKNOWN),
    example("ActiveMQ-modulus", "age % 4 = 1", TRUE),
    example("ActiveMQ-modulus", "-age % 4 = -1", TRUE),
    # BETWEEN, IN, LIKE, IS NULL.
    example("3.8.1.1-between", "age BETWEEN 15 AND 19", TRUE),
    example("3.8.1.1-between", "age BETWEEN 17 AND 17 AND flag", TRUE),
    example("3.8.1.1-between", "age BETWEEN 19 AND 15", FALSE),
    example("3.8.1.1-between", "age NOT BETWEEN 15 AND 19", FALSE),
    example("3.8.1.1-between", "age NOT BETWEEN 18 AND 19", TRUE),
    example("3.8.1.1-between", "age + 1 BETWEEN price AND 9 * 2", TRUE),
    example("3.8.1.1-between", "missing BETWEEN 1 AND 2", UNKNOWN),
    example("3.8.1.1-between", "age BETWEEN 18 AND missing", FALSE),
    example("3.8.1.1-between", "age NOT BETWEEN 18 AND missing", TRUE),
    example("3.8.1.1-in", "Country IN ('UK', 'US', 'France')", FALSE),
    example("3.8.1.1-in", "Country NOT IN ('UK', 'US', 'France')", TRUE),
    example("3.8.1.1-in", "Country IN ('Peru')", TRUE),
    example("3.8.1.1-in", "missing IN ('UK')", UNKNOWN),
    example("3.8.1.1-in", "missing NOT IN ('UK')", UNKNOWN),
    example("3.8.1.1-in", "age IN ('17')", FALSE),
    example("3.8.1.1-in", "age NOT IN ('17')", TRUE),  # NOT ((age = '17'))
    example("3.8.1.1-like", "phone LIKE '12%3'", TRUE),
    example("3.8.1.1-like", "phone NOT LIKE '12%3'", FALSE),
    example("3.8.1.1-like", "word LIKE 'l_se'", TRUE),
    example("3.8.1.1-like", "word LIKE 'l_e'", FALSE),
    example("3.8.1.1-like", "word LIKE 'os'", FALSE),
    example("3.8.1.1-like", "word LIKE '%os%'", TRUE),
    example("3.8.1.1-like", r"under LIKE '\_%' ESCAPE '\'", TRUE),
    example("3.8.1.1-like", r"word LIKE '\_%' ESCAPE '\'", FALSE),
    example("3.8.1.1-like", "lines LIKE 'a_b'", TRUE),
    example("3.8.1.1-like", "word LIKE 'L%'", FALSE),
    example("3.8.1.1-like", "missing LIKE '%'", UNKNOWN),
    example("3.8.1.1-like", "missing NOT LIKE '%'", UNKNOWN),
    example("3.8.1.1-like", "age LIKE '17'", FALSE),
    example("3.8.1.1-null", "missing IS NULL", TRUE),
    example("3.8.1.1-null", "missing IS NOT NULL", FALSE),
    example("3.8.1.1-null", "age IS NULL", FALSE),
    example("3.8.1.1-null", "age is not null", TRUE),
    # Three values.
    *(
        example("3.8.1.2-and", f"{left} AND {right}", value)
        for left, right, value in (
            ("flag", "flag", TRUE),
            ("flag", "off", FALSE),
            ("flag", "missing", UNKNOWN),
            ("off", "flag", FALSE),
            ("off", "off", FALSE),
            ("off", "missing", FALSE),
            ("missing", "flag", UNKNOWN),
            ("missing", "off", FALSE),
            ("missing", "missing", UNKNOWN),
        )
    ),
    *(
        example("3.8.1.2-or", f"{left} OR {right}", value)
        for left, right, value in (
            ("flag", "flag", TRUE),
            ("flag", "off", TRUE),
            ("flag", "missing", TRUE),
            ("off", "flag", TRUE),
            ("off", "off", FALSE),
            ("off", "missing", UNKNOWN),
            ("missing", "flag", TRUE),
            ("missing", "off", UNKNOWN),
            ("missing", "missing", UNKNOWN),
        )
    ),
    example("3.8.1.2-not", "NOT flag", FALSE),
    example("3.8.1.2-not", "NOT off", TRUE),
    example("3.8.1.2-not", "NOT missing", UNKNOWN),
]


@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_a_condition_is(text: str, expected: bool | None) -> None:
    assert truth(text, PROPERTIES) is expected


@pytest.mark.parametrize("text", ["", " \t\n"])
def test_an_empty_selector_is_none(text: str) -> None:
    assert compile_selector(text).matches(TypedProperties({}))


RESERVED = "NULL TRUE FALSE NOT AND OR BETWEEN LIKE IN IS ESCAPE null Is"

INVALID = [
    # Reserved words are no identifiers, in any case.
    *(f"{word} > 0" for word in RESERVED.split()),
    "NULL = ZERO",
    "1uncorrect IS NULL",
    "%uncorrect IS NULL",
    "a.b = 1",
    "content-type LIKE 'text/%'",  # arithmetic, which LIKE does not take
    # A selector is a condition.
    "5",
    "'red'",
    "age + 1",
    "-age",
    "age AND 5",
    "NOT 5",
    "'a' OR TRUE",
    "(age + 1) AND TRUE",
    # Strings and booleans have = and <> only.
    "colour > 'red'",
    "'red' <= colour",
    "flag >= TRUE",
    "(age > 1) > 2",
    "colour BETWEEN 'a' AND 'b'",
    "TRUE + 1 = 2",
    "-'1' = 1",
    "'a' + 'b' = 'ab'",
    "(a = 1) * 2 = 2",
    # Form.
    "age = ",
    "age = 17 colour = 'red'",
    "age == 17",
    "age != 17",
    "age => 17",
    "a = b = c",
    "age = NULL",
    "age IS TRUE",
    "age IS NOT 5",
    "(age = 17",
    "age = 17)",
    "()",
    "age NOT = 17",
    "age BETWEEN 1",
    "age BETWEEN 1 OR 2",
    "age NOT NULL",
    "Country IN ()",
    "Country IN 'UK'",
    "Country IN ('UK',)",
    "Country IN ('UK' 'US')",
    "Country IN (5)",
    "'UK' IN ('UK')",
    "age + 1 IS NULL",
    "word LIKE 5",
    "word LIKE other",
    "word LIKE 'a' ESCAPE",
    "word LIKE 'a' ESCAPE ''",
    "word LIKE 'a' ESCAPE 'ab'",
    "word LIKE 'a!' ESCAPE '!'",
    "word LIKE '!a' ESCAPE '!'",
    "word LIKE '!!!a' ESCAPE '!'",
    "'word' LIKE 'w%'",
    # Literals.
    "colour = 'red",
    "colour = 'red''",
    'colour = "red"',
    "age = 089",
    "age = 0x",
    "age = 0b12",
    "age = 1_",
    "age = 9223372036854775808",
    "age = -(9223372036854775808)",
    "age = 0x1FFFFFFFFFFFFFFFF",
    "age = 1e999",
    "age = 1e-999",
    "age = 1e39f",
    "age = 1.2.3",
    "age = 5x",
    "age = 1 -- a comment",
    "age = 1 /* a comment */",
    # Header fields that are none, or none to select by.
    "JMSPrority = 9",
    "JMSDestination = 'a'",
    "jms.priority = 9",
]


@pytest.mark.parametrize("text", INVALID)
def test_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector, match=r"^selector, character \d+: found .+; allowed here: .+"):
        compile_selector(text)


HEADERS = (
    b"type:order\ncorrelation-id:c\\c1\nreply-to:/queue/answers\nage:31\nprice:12.50\nflag:True\nzero:0\nword:abc\n"
    b"empty:\nbig:99999999999999999999\nJMSXGroupID:g\nJMSXGroupSeq:7\nage:99\nnine:9\nten:10\nneg:-4\n"
)

STOMP_EXAMPLES = [
    example("ActiveMQ", "age > 30", TRUE),
    example("ActiveMQ", "age = 31", TRUE),
    example("ActiveMQ", "31 = age", TRUE),
    example("ActiveMQ", "age = '31'", TRUE),
    example("ActiveMQ", "age <> 31", FALSE),
    example("ActiveMQ", "age BETWEEN 31 AND 32", TRUE),
    example("ActiveMQ", "age IN ('31')", TRUE),
    example("ActiveMQ", "age LIKE '3_'", TRUE),
    example("ActiveMQ", "price > 12", TRUE),
    example("ActiveMQ", "price = 12.5", TRUE),
    example("ActiveMQ", "price = '12.5'", FALSE),
    example("ActiveMQ", "neg < 0", TRUE),
    example("ActiveMQ", "word > 30", FALSE),
    example("ActiveMQ", "word = 30", FALSE),
    example("ActiveMQ", "word <> 30", FALSE),
    example("ActiveMQ", "empty = 0", FALSE),
    example("ActiveMQ", "empty = ''", TRUE),
    example("ActiveMQ", "missing > 30", UNKNOWN),
    example("ActiveMQ", "big > 9e18", TRUE),
    example("ActiveMQ", "flag = TRUE", TRUE),
    example("ActiveMQ", "TRUE = flag", TRUE),
    example("ActiveMQ", "flag = FALSE", FALSE),
    example("ActiveMQ", "word = FALSE", TRUE),  # Boolean.valueOf
    example("ActiveMQ", "flag", TRUE),
    example("ActiveMQ", "word", FALSE),
    example("ActiveMQ", "JMSPriority = '8'", TRUE),
    # Beyond ActiveMQ, where two strings are never numbers and arithmetic ends the evaluation.
    example("ours", "nine < ten", TRUE),
    example("ours", "nine = ten", FALSE),
    example("ours", "age * 2 = 62", TRUE),
    example("ours", "age + price > 43", TRUE),
    example("ours", "-age < -30", TRUE),
    example("ours", "word + 1 = 1", UNKNOWN),
    # Header fields.
    example("3.8.1.1-headers", "JMSDeliveryMode = 'PERSISTENT'", TRUE),
    example("3.8.1.1-headers", "JMSPriority > 7", TRUE),
    example("3.8.1.1-headers", "JMSMessageID = 'ID:store-4096'", TRUE),
    example("3.8.1.1-headers", "JMSTimestamp BETWEEN 999 AND 1001", TRUE),
    example("3.8.1.1-headers", "JMSCorrelationID = 'c:1'", TRUE),
    example("3.8.1.1-headers", "JMSType = 'order'", TRUE),
    example("3.8.1.1-headers", "JMSXDeliveryCount > 1", TRUE),
    example("3.8.1.1-headers", "JMSXGroupID = 'g' AND JMSXGroupSeq = 7", TRUE),
    example("ActiveMQ", "JMSReplyTo = '/queue/answers'", TRUE),
    example("ActiveMQ", "JMSExpiration = 0", TRUE),
    example("ActiveMQ", "JMSRedelivered", TRUE),
    example("3.8.1.1-headers", "JMSXUserID IS NULL", TRUE),
    example("3.8.1.1-headers", "JMS_vendor IS NULL", TRUE),
]


@pytest.mark.parametrize(("text", "expected"), STOMP_EXAMPLES)
def test_of_a_stomp_message_a_condition_is(text: str, expected: bool | None) -> None:
    message = stomp_message(HEADERS, flags=PERSISTENT, priority=8)
    message.log_offset = 4096
    message.store_time_ms = 1000
    properties = stomp_properties(message, delivery_count=2)
    matches = (compile_selector(text).matches(properties), compile_selector(f"NOT ({text})").matches(properties))
    assert matches == (expected is True, expected is False)
