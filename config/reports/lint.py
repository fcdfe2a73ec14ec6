"""Traps in a configuration, which its author may not expect; works on files alone, without a gateway.

error: the file is not taken.  warning: a trap, there or here.  info: it has no effect here, or does something else than
where it comes from.  Traps of other brokers are told even where Penstock has none: the same file may still serve both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from config.errors import Problem
from config.exposure import plain_listeners
from config.loader import place_of
from config.matching import ONE, REST, AddressEntry, InvalidPattern, Pattern
from config.model import Endpoint
from config.permissions import Permission
from config.schema import ADDRESS, leaves
from config.sources import detect, hornetq
from config.sources.artemis_options import QUEUE_PREFIX, TOPIC_PREFIX, translate
from config.sources.document import Document
from config.sources.xml import Element, XmlError, parse

Level = Literal["error", "warning", "info"]

_KEYS: Final = {leaf.path: key for key, leaf in leaves(ADDRESS).items()}

_FAR_BELOW_A_MESSAGE: Final = 1024  # bytes: windows below this are most likely meant in messages
_PLUGIN_LEAST_DELAY_MS: Final = 1_000

# Dialect -> path -> what the broker does where nobody sets it, unlike Penstock.
_ACTIVEMQ_UNSET: Final[Mapping[str, str]] = {
    "dead_letters.process_non_persistent": "processNonPersistent is not set: ActiveMQ drops non-persistent messages "
    "that are given up, here they are dead letters, too",
    "redelivery.maximum_redeliveries": "no redelivery policy is set: in ActiveMQ a STOMP NACK is a dead letter at once "
    "('nack: dead-letter'), here it is redelivered up to 6 times, a second apart",
    "queue.prioritized_messages": "prioritizedMessages is not set: ActiveMQ ignores priorities then, here they count",
    "full.max_size_bytes": "memoryLimit is not set: in ActiveMQ the system's memoryUsage blocks producers, here the "
    "backlog of queues is on disk and nothing blocks",
    "prefetch.top_up": "prefetch: ActiveMQ refills a window at each acknowledgement, here a full one waits until half "
    "of it is settled ('prefetch-top-up: each-ack' is ActiveMQ's way)",
    "blame": "redelivery.blame: ActiveMQ counts a lost connection against every message it held, here against those up "
    "to one past the furthest acknowledged",
}
_ARTEMIS_UNSET: Final[Mapping[str, str]] = {
    "dead_letter_address": "dead-letter-address is not set: HornetQ and Artemis drop a message that is given up, here "
    "it goes to ActiveMQ.DLQ",
    "redelivery.maximum_redeliveries": "max-delivery-attempts is not set: 10 deliveries there, 7 here",
    "redelivery.redelivery_delay_ms": "redelivery-delay is not set: at once there, after 1 second here",
    "full.max_size_bytes": "max-size-bytes is not set: the manual's 'BLOCK at 10 MiB' stands in old sample files and "
    "in no code; the default there and here is PAGE without a limit",
    "queue.auto_delete": "auto-delete-queues is not set: Artemis deletes queues that clients made, here they stay",
    "blame": "redelivery.blame: their STOMP counts a lost connection against the first unsettled message only, here "
    "against those up to one past the furthest acknowledged",
}


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    problem: Problem

    def __str__(self) -> str:
        return f"{self.level}: {self.problem}"


def lint(files: Sequence[tuple[str, bytes]]) -> list[Finding]:
    """Return what is to be said of the files, given as (name, content); together they make one configuration."""
    findings: list[Finding] = []
    documents: list[Document] = []
    for source, content in files:
        document = detect.read(source, content)
        documents.append(document)
        found = [Finding("error", problem) for problem in document.problems]
        found += [Finding("info", note) for note in document.notes]
        found += _groups(document)
        if detect.is_xml(content):
            try:
                found += _of_xml(document, parse(source, content))
            except XmlError:
                pass  # stands among the problems already
        found += _back_off(document)
        findings += sorted(found, key=lambda finding: finding.problem.line)
    findings += _permissions(documents)
    findings += _exposed(documents)
    return findings


def _warning(source: str, line: int, element: str, text: str) -> Finding:
    return Finding("warning", Problem(source, line, element, text))


def _info(source: str, line: int, element: str, text: str) -> Finding:
    return Finding("info", Problem(source, line, element, text))


# -- rules for every format


def _exposed(documents: Sequence[Document]) -> Iterator[Finding]:
    """Passwords that go over the network as they are."""
    if not any(document.users or document.passwords for document in documents):
        return
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for document in documents:
        values |= document.values
        sources |= document.sources
    endpoints: dict[str, Endpoint | None] = {}
    for name in ("stomp", "amqp", "http"):
        value = values.get(f"listeners.{name}")
        endpoints[name] = value if isinstance(value, Endpoint) else None
    for problem in plain_listeners(endpoints, bool(values.get("tls.certificate")), sources):
        yield Finding("warning", problem)


def _groups(document: Document) -> Iterator[Finding]:
    """ActiveMQ: an entry is switched off altogether by a narrower one."""
    for narrow in document.addresses:
        for broad in document.addresses:
            if not narrow.group or narrow.group != broad.group or narrow is broad or not narrow.kinds & broad.kinds:
                continue
            source, line = place_of(narrow.place)
            if covers(broad.pattern, narrow.pattern) and broad.pattern.elements != narrow.pattern.elements:
                lost = [_KEYS[path] for path in broad.values if path not in narrow.values]
                if lost:
                    text = (
                        f"exactly one entry applies to a destination: for {narrow.pattern.text!r} this one switches "
                        f"off {broad.pattern.text!r} at {broad.place}, and does not set its {', '.join(lost)}"
                    )
                    yield _warning(source, line, "policyEntry", text)
            elif broad.place < narrow.place and _only_overlap(broad.pattern, narrow.pattern):
                text = (
                    f"{narrow.pattern.text!r} and {broad.pattern.text!r} at {broad.place} match some names both, and "
                    "neither is within the other: ActiveMQ decides by the order of letters, here the one whose first "
                    "wildcard stands further right applies"
                )
                yield _warning(source, line, "policyEntry", text)


def _back_off(document: Document) -> Iterator[Finding]:
    prefix = "redelivery."
    for entry in document.addresses:
        values = entry.values
        backs_off = values.get(prefix + "use_exponential_back_off")
        multiplier = values.get(prefix + "back_off_multiplier")
        maximum = values.get(prefix + "maximum_redelivery_delay_ms")
        delay = values.get(prefix + "redelivery_delay_ms")
        if maximum not in (None, -1) and not backs_off:
            yield _of(entry, "maximum_redelivery_delay_ms", "caps the back-off only, and the entry switches none on")
        if multiplier is not None and backs_off is None:
            yield _of(entry, "back_off_multiplier", "has no effect unless use-exponential-back-off is true somewhere")
        if backs_off and isinstance(multiplier, float | int) and multiplier <= 1:
            yield _of(
                entry, "back_off_multiplier", f"{multiplier:g} switches the back-off off; more than 1 keeps it on"
            )
        if isinstance(maximum, int) and isinstance(delay, int) and 0 <= maximum < delay:
            text = f"{maximum} ms is below redelivery-delay {delay} ms; no delay is below that, here as in ActiveMQ"
            yield _of(entry, "maximum_redelivery_delay_ms", text)


def _of(entry: AddressEntry, name: str, text: str) -> Finding:
    path = f"redelivery.{name}"
    source, line = place_of(entry.sources[path])
    return _warning(source, line, _KEYS[path], text)


def _permissions(documents: Sequence[Document]) -> Iterator[Finding]:
    entries = [entry for document in documents for entry in document.permissions]
    if not entries:
        return
    granted = {group for entry in entries for groups in entry.grants.values() for group in groups} - {"*"}
    held = {group for document in documents for groups in document.groups.values() for group in groups}
    if not any(document.users or document.passwords for document in documents):
        text = "there are permissions and no users: without a login nobody is in a group, so only '*' may do anything"
        yield _granting(entries, granted, text)
    elif granted - held:
        yield _granting(entries, granted - held, f"no user is in {', '.join(sorted(granted - held))}")


def _granting(entries: Sequence[Permission], groups: set[str], text: str) -> Finding:
    """Return a warning at the first grant to one of ``groups``."""
    places = (
        entry.sources[action]
        for entry in entries
        for action, granted in entry.grants.items()
        if not groups or not groups.isdisjoint(granted)
    )
    source, line = place_of(next(places, ""))
    return _warning(source, line, "permissions", text)


def covers(broad: Pattern, narrow: Pattern) -> bool:
    """Say whether every name that ``narrow`` matches, ``broad`` matches, too."""
    mine, other = broad.elements, narrow.elements
    if mine[-1] == REST:
        mine = mine[:-1]
        if len([element for element in other if element != REST]) < len(mine):
            return False
    elif len(mine) != len(other) or other[-1] == REST:
        return False
    return all(
        element == theirs or (element == ONE and theirs != REST) for element, theirs in zip(mine, other, strict=False)
    )


def _only_overlap(one: Pattern, other: Pattern) -> bool:
    if covers(one, other) or covers(other, one):
        return False
    left = one.elements[:-1] if one.elements[-1] == REST else one.elements
    right = other.elements[:-1] if other.elements[-1] == REST else other.elements
    if len(left) != len(right):
        shorter = one if len(left) < len(right) else other
        if shorter.elements[-1] != REST:
            return False
    return all(a == b or ONE in (a, b) for a, b in zip(left, right, strict=False))


# -- rules for XML, which see what the file really says


def _of_xml(document: Document, root: Element) -> Iterator[Finding]:
    if root.name in ("beans", "broker"):
        for element in walk(root):
            yield from _activemq_element(document.source, element)
        yield from _unset(document, root, _ACTIVEMQ_UNSET)
        return
    if root.name != "configuration":
        return
    is_old = hornetq.is_hornetq(root)
    elements = list(walk(root))
    addressed = [element for element in elements if element.name == "address-setting"]
    for element in elements:
        yield from _core_element(document.source, element, is_old)
    if is_old:
        yield from _hornetq_merging(document.source, addressed)
    yield from _other_order(document.source, addressed)
    if addressed:
        yield from _unset(document, root, _ARTEMIS_UNSET)


def walk(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from walk(child)


def _unset(document: Document, root: Element, texts: Mapping[str, str]) -> Iterator[Finding]:
    set_paths = {path for entry in document.addresses for path in entry.values}
    for path, text in texts.items():
        if path not in set_paths:
            yield _info(document.source, root.line, root.name, text)


def _activemq_element(source: str, element: Element) -> Iterator[Finding]:
    given = element.attributes
    name = element.name

    def at(attribute: str, text: str) -> Finding:
        return _warning(source, element.line_of(attribute), name, f"{attribute}: {text}")

    if "collisionAvoidanceFactor" in given:
        yield at(
            "collisionAvoidanceFactor",
            "ActiveMQ documents it and cannot set it (its setter is collisionAvoidancePercent); here it is taken",
        )
    if given.get("useCollisionAvoidance") == "true":
        yield at(
            "useCollisionAvoidance",
            "ActiveMQ starts each delay from the jittered one before, so its spread grows; here each is drawn "
            "anew unless collision-avoidance-spread is compounding",
        )
    if name == "policyEntry":
        yield from _policy_entry(element, at)
    if name == "redeliveryPlugin":
        for policy in walk(element):
            for attribute in ("initialRedeliveryDelay", "redeliveryDelay"):
                text = policy.attributes.get(attribute, "")
                if policy.name == "redeliveryPolicy" and text.isdigit() and int(text) < _PLUGIN_LEAST_DELAY_MS:
                    why = f"{attribute}: {text} ms is below 1000: ActiveMQ's plugin refuses to start; here it is taken"
                    yield _warning(source, policy.line_of(attribute), policy.name, why)
    if name == "broker" and given.get("schedulerSupport") != "true":
        if any(child.name == "redeliveryPlugin" for child in walk(element)):
            text = "redeliveryPlugin needs schedulerSupport=true in ActiveMQ; here it needs nothing"
            yield _warning(source, element.line, name, text)
    if name == "abortSlowConsumerStrategy" and given.get("abortConnection") != "true":
        text = "abortConnection is not true: an ActiveMQ STOMP client never hears that its consumer was closed"
        yield _warning(source, element.line, name, text)
    if name == "redeliveryPolicy" and given.get("maximumRedeliveries", "").isdigit():
        count = int(given["maximumRedeliveries"])
        text = f"maximumRedeliveries: {count} makes {count + 1} deliveries in all, here for every client"
        yield _info(source, element.line_of("maximumRedeliveries"), name, text)


def _policy_entry(element: Element, at: Callable[[str, str], Finding]) -> Iterator[Finding]:
    given = element.attributes
    for attribute, default in (
        ("queuePrefetch", 1000), ("durableTopicPrefetch", 100), ("topicPrefetch", 32767), ("queueBrowserPrefetch", 500),
    ):  # fmt: skip
        if attribute in given:
            yield at(
                attribute,
                f"ActiveMQ reads a client's own prefetch of {default} as unset and replaces it; here the client's "
                "value applies",
            )
    if given.get("queuePrefetch") == "0":
        yield at("queuePrefetch", "0 is silence for an ActiveMQ STOMP client; here it gets one message at a time")
    if "memoryLimit" in given and given.get("producerFlowControl") != "false":
        yield at(
            "memoryLimit",
            "ActiveMQ confirms persistent STOMP messages beyond it, and stops whole connections; here senders to the "
            "address wait, and their acknowledgements go on",
        )


def _core_element(source: str, element: Element, is_old: bool) -> Iterator[Finding]:
    if element.name == "address-setting":
        yield from _address_setting(source, element, is_old)
    if element.name == "connection-factory":
        for name in ("producer-window-size", "consumer-window-size"):
            child = element.first(name)
            if child is not None and child.text.strip().isdigit() and 0 < int(child.text) < _FAR_BELOW_A_MESSAGE:
                yield _warning(source, child.line, name, f"{child.text.strip()} is in bytes, not in messages")


def _address_setting(source: str, element: Element, is_old: bool) -> Iterator[Finding]:
    given = {child.name: (child.text.strip(), child.line) for child in element.children}
    match = element.attributes.get("match", "")

    def at(name: str, text: str) -> Finding:
        return _warning(source, given[name][1], name, text)

    if given.get("address-full-policy", ("", 0))[0].upper() == "BLOCK":
        yield at("address-full-policy", "HornetQ and Artemis hold back no STOMP sender under BLOCK; here they wait")
    if given.get("max-delivery-attempts", ("", 0))[0] == "1":
        yield at("max-delivery-attempts", "counts deliveries: 1 is no redelivery at all")
    if given.get("slow-consumer-policy", ("", 0))[0].upper() == "KILL":
        yield at("slow-consumer-policy", "KILL closes the whole connection, with all its other consumers")
    page, limit = _number(given, "page-size-bytes"), _number(given, "max-size-bytes")
    if page is not None and limit is not None and page >= limit > 0:
        text = "is not below max-size-bytes: HornetQ refuses that under PAGE; here it has no effect"
        yield at("page-size-bytes", text)
    if _number(given, "redelivery-delay-multiplier") not in (None, 1.0) and "max-redelivery-delay" not in given:
        text = "without max-redelivery-delay the delay stops at 10 times redelivery-delay, there and here"
        yield at("redelivery-delay-multiplier", text)
    if is_old and match.endswith(".#"):
        text = f"match {match!r} is for {match.removesuffix('.#')!r} itself, too; in HornetQ only for what is below it"
        yield _info(source, element.line_of("match"), element.name, text)


def _number(given: Mapping[str, tuple[str, int]], name: str) -> float | None:
    try:
        return float(given[name][0])
    except (KeyError, ValueError):
        return None


def _hornetq_merging(source: str, settings: Sequence[Element]) -> Iterator[Finding]:
    """Settings that Penstock passes on to narrower entries and HornetQ does not."""
    for name in ("expiry-delay", "last-value-queue"):
        for narrow in settings:
            for broad in settings:
                if narrow is broad or narrow.first(name) is not None or broad.first(name) is None:
                    continue
                patterns = _patterns(broad, narrow)
                if patterns is not None and covers(*patterns) and patterns[0].elements != patterns[1].elements:
                    text = (
                        f"{name} comes from {broad.attributes['match']!r} on line {broad.line} here; HornetQ does not "
                        "pass it on to a narrower setting"
                    )
                    yield _warning(source, narrow.line, narrow.name, text)


def _other_order(source: str, settings: Sequence[Element]) -> Iterator[Finding]:
    """Artemis puts patterns with ``*`` only before those with ``#``; here the first wildcard from the left decides."""
    for at, first in enumerate(settings):
        for second in settings[at + 1 :]:
            patterns = _patterns(first, second)
            if patterns is None or not _only_overlap(*patterns):
                continue
            rests = [pattern.elements[-1] == REST for pattern in patterns]
            if rests[0] == rests[1]:
                continue
            here = patterns[0] if patterns[0].specificity() > patterns[1].specificity() else patterns[1]
            there = patterns[0] if rests[1] else patterns[1]
            if here is not there:
                text = (
                    f"{first.attributes['match']!r} and {second.attributes['match']!r} match some names both: there "
                    f"{there.text!r} comes first, here {here.text!r}"
                )
                yield _warning(source, second.line_of("match"), second.name, text)


def _patterns(first: Element, second: Element) -> tuple[Pattern, Pattern] | None:
    """Return both patterns, None where they are for different kinds or none at all."""
    texts = [element.attributes.get("match", "") for element in (first, second)]
    for prefix in (QUEUE_PREFIX, TOPIC_PREFIX):
        if any(text.startswith(prefix) for text in texts):
            texts = [text.removeprefix(prefix) for text in texts]
    if any(text.startswith((QUEUE_PREFIX, TOPIC_PREFIX)) for text in texts):
        return None
    try:
        one, other = (translate(text) for text in texts)
    except InvalidPattern:
        return None
    return one, other
