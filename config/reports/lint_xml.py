"""Traps in the XML of other brokers: these rules see the original file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from config.matching import REST, InvalidPattern, Pattern
from config.reports.findings import Finding, info, only_overlap, warning
from config.sources import hornetq
from config.sources.artemis_address_options import QUEUE_PREFIX, TOPIC_PREFIX
from config.sources.artemis_options import translate
from config.sources.document import Document
from config.sources.xml import Element

_FAR_BELOW_A_MESSAGE: Final = 1024  # bytes: windows below this are most likely meant in messages
_PLUGIN_LEAST_DELAY_MS: Final = 1_000

# Dialect -> path -> what the broker does if it is not set, unlike Penstock.
_ACTIVEMQ_UNSET: Final[Mapping[str, str]] = {
    "dead_letters.process_non_persistent": "processNonPersistent is not set: ActiveMQ drops non-persistent messages "
    "that are given up, here they are dead letters, too",
    "redelivery.maximum_redeliveries": "no redelivery policy is set: in ActiveMQ a STOMP NACK is a dead letter at once "
    "('nack: dead-letter'), here it is redelivered up to 6 times, a second apart",
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
    "full.max_size_bytes": "max-size-bytes is not set: the manual's 'BLOCK at 10 MiB' is in old sample files and "
    "in no code; the default there and here is PAGE without a limit",
    "queue.auto_delete": "auto-delete-queues is not set: Artemis deletes queues that clients made, here they stay",
    "blame": "redelivery.blame: their STOMP counts a lost connection against the first unsettled message only, here "
    "against those up to one past the furthest acknowledged",
}


def of_xml(document: Document, root: Element) -> Iterator[Finding]:
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
            yield info(document.source, root.line, root.name, text)


def _activemq_element(source: str, element: Element) -> Iterator[Finding]:
    given = element.attributes
    name = element.name

    def at(attribute: str, text: str) -> Finding:
        return warning(source, element.line_of(attribute), name, f"{attribute}: {text}")

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
        text = (
            "ActiveMQ redelivers by it also what an OpenWire client has given up; here that is a dead letter at once, "
            "so the client's own policy must try as often"
        )
        yield info(source, element.line, name, text)
        for policy in walk(element):
            for attribute in ("initialRedeliveryDelay", "redeliveryDelay"):
                text = policy.attributes.get(attribute, "")
                if policy.name == "redeliveryPolicy" and text.isdigit() and int(text) < _PLUGIN_LEAST_DELAY_MS:
                    why = f"{attribute}: {text} ms is below 1000: ActiveMQ's plugin refuses to start; here it is taken"
                    yield warning(source, policy.line_of(attribute), policy.name, why)
    if name == "broker" and given.get("schedulerSupport") != "true":
        if any(child.name == "redeliveryPlugin" for child in walk(element)):
            text = "redeliveryPlugin needs schedulerSupport=true in ActiveMQ; here it needs nothing"
            yield warning(source, element.line, name, text)
    if name == "abortSlowConsumerStrategy" and given.get("abortConnection") != "true":
        text = "abortConnection is not true: an ActiveMQ STOMP client never hears that its consumer was closed"
        yield warning(source, element.line, name, text)
    if name == "redeliveryPolicy" and given.get("maximumRedeliveries", "").isdigit():
        count = int(given["maximumRedeliveries"])
        text = f"maximumRedeliveries: {count} makes {count + 1} deliveries in all, here for every client"
        yield info(source, element.line_of("maximumRedeliveries"), name, text)


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
                yield warning(source, child.line, name, f"{child.text.strip()} is in bytes, not in messages")


def _address_setting(source: str, element: Element, is_old: bool) -> Iterator[Finding]:
    given = {child.name: (child.text.strip(), child.line) for child in element.children}
    match = element.attributes.get("match", "")

    def at(name: str, text: str) -> Finding:
        return warning(source, given[name][1], name, text)

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
        yield info(source, element.line_of("match"), element.name, text)


def _number(given: Mapping[str, tuple[str, int]], name: str) -> float | None:
    try:
        return float(given[name][0])
    except (KeyError, ValueError):
        return None


def _hornetq_merging(source: str, settings: Sequence[Element]) -> Iterator[Finding]:
    """Settings that narrower entries inherit in Penstock, but not in HornetQ."""
    for name in ("expiry-delay", "last-value-queue"):
        for narrow in settings:
            for broad in settings:
                if narrow is broad or narrow.first(name) is not None or broad.first(name) is None:
                    continue
                patterns = _patterns(broad, narrow)
                if (
                    patterns is not None
                    and patterns[0].covers(patterns[1])
                    and patterns[0].elements != patterns[1].elements
                ):
                    text = (
                        f"{name} comes from {broad.attributes['match']!r} on line {broad.line} here; HornetQ does not "
                        "pass it on to a narrower setting"
                    )
                    yield warning(source, narrow.line, narrow.name, text)


def _other_order(source: str, settings: Sequence[Element]) -> Iterator[Finding]:
    """Artemis prefers patterns with only ``*`` to those with ``#``; here the first wildcard from the left decides."""
    for at, first in enumerate(settings):
        for second in settings[at + 1 :]:
            patterns = _patterns(first, second)
            if patterns is None or not only_overlap(*patterns):
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
                yield warning(source, second.line_of("match"), second.name, text)


def _patterns(first: Element, second: Element) -> tuple[Pattern, Pattern] | None:
    """Return both patterns, None if they are invalid or for different kinds."""
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
