"""The policies of activemq.xml: policyEntry and its strategies, redelivery, expiry, discarding.

Exactly one policyEntry applies to a destination, as in ActiveMQ, so its entries form a group (config.matching).
"""

from __future__ import annotations

from typing import Final

from config.matching import BOTH, QUEUE, TOPIC, AddressEntry, InvalidPattern, Pattern
from config.names import QueueName
from config.options import unknown_option
from config.sources import activemq_options as options
from config.sources.activemq_policy_options import MATCHES, POLICY_CHILDREN, POLICY_ENTRY, REDELIVERY_POLICY, STRATEGIES
from config.sources.document import Document
from config.sources.xml import Element
from config.sources.xml_option import PLACEHOLDER, Taken, note, report_unknown, take, take_attributes

EVERYTHING: Final = Pattern.parse(">")


class PolicyReader:
    """Reads policies into ``document``.  full_policy, block_timeout_ms: of full destinations, from systemUsage."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.full_policy = "BLOCK"
        self.block_timeout_ms = 0
        self._policies: list[Taken] = []
        self._discarding = Taken()

    def read_policies(self, element: Element) -> None:
        for policy_map in element.all("policyMap"):
            group = f"{self.document.source}:{policy_map.line}"
            for default in policy_map.all("defaultEntry"):
                for entry in default.all("policyEntry"):
                    self._add(EVERYTHING, BOTH, self._policy(entry), group, entry)
            for entries in policy_map.all("policyEntries"):
                for entry in entries.children:
                    if entry.name != "policyEntry":
                        report_unknown(self.document, entry, entries.name, ("policyEntry",))
                        continue
                    taken = self._policy(entry)
                    for pattern, kinds in patterns_of(self.document, entry):
                        self._add(pattern, kinds, taken, group, entry)

    def _add(self, pattern: Pattern, kinds: int, taken: Taken, group: str, element: Element) -> None:
        place = self.document.place(element.line)
        self.document.addresses.append(AddressEntry(pattern, kinds, taken.values, taken.sources, group, place))

    def _policy(self, entry: Element) -> Taken:
        document = self.document
        taken = take_attributes(document, POLICY_ENTRY, entry, (*MATCHES, "producerFlowControl"))
        self._policies.append(taken)
        self._set_full_policy(entry, taken)
        for child in entry.children:
            if child.name in STRATEGIES:
                self._read_strategies(child, taken)
            elif child.name in POLICY_CHILDREN:
                note(document, POLICY_CHILDREN[child.name], entry.name, child.line)
            elif child.name != "destination":
                names = (*STRATEGIES, *POLICY_CHILDREN)
                document.report(child.line, entry.name, str(unknown_option(child.name, names)))
        return taken

    def _set_full_policy(self, entry: Element, taken: Taken) -> None:
        """Decide what a full destination does: producerFlowControl before the system's sendFailIfNoSpace."""
        name = "producerFlowControl"
        flow = Taken()
        if name in entry.attributes:
            text, line = entry.attributes[name], entry.line_of(name)
            flow = take(self.document, POLICY_ENTRY, entry.name, name, text, line)
        path = "full.address_full_policy"
        if flow.values.get(path) == "PAGE":
            taken.update(flow)
        elif "full.max_size_bytes" in taken.values and path not in taken.values:
            source = flow.sources.get(path, taken.sources["full.max_size_bytes"])
            taken.set(path, self.full_policy, source)
            if self.block_timeout_ms and "full.block_timeout_ms" not in taken.values:
                taken.set("full.block_timeout_ms", self.block_timeout_ms, source)

    def _read_strategies(self, element: Element, taken: Taken) -> None:
        """Read the strategy inside ``deadLetterStrategy`` and similar elements."""
        known = STRATEGIES[element.name]
        for child in element.children:
            if child.name not in known:
                report_unknown(self.document, child, element.name, known)
                continue
            table, values = known[child.name]
            for path, value in values.items():
                taken.set(path, value, self.document.place(child.line))
            taken.update(take_attributes(self.document, table, child))
            self._read_shared_queue(child, taken)

    def _read_shared_queue(self, strategy: Element, taken: Taken) -> None:
        for inner in strategy.children:
            if inner.name not in ("deadLetterQueue", "deadLetterTopic") or strategy.name != "sharedDeadLetterStrategy":
                report_unknown(self.document, inner, strategy.name, ("deadLetterQueue",))
                continue
            for queue in inner.children:
                name = queue.attributes.get("physicalName", "")
                try:
                    if queue.name != "queue":
                        raise ValueError
                    taken.set("dead_letter_address", QueueName().parse(name), self.document.place(queue.line))
                except ValueError:
                    self.document.report(
                        queue.line, inner.name, f"{queue.name} {name!r}, allowed is <queue physicalName='NAME'/>"
                    )

    def read_redelivery(self, plugin: Element) -> None:
        take_attributes(self.document, options.REDELIVERY_PLUGIN, plugin)
        for outer in plugin.all("redeliveryPolicyMap"):
            for policy_map in outer.all("redeliveryPolicyMap"):
                self._read_redelivery_map(policy_map)

    def _read_redelivery_map(self, policy_map: Element) -> None:
        group = f"{self.document.source}:{policy_map.line}"
        for default in policy_map.all("defaultEntry"):
            for policy in default.all("redeliveryPolicy"):
                self._add(EVERYTHING, BOTH, self._redelivery(policy), group, policy)
        for entries in policy_map.all("redeliveryPolicyEntries"):
            for policy in entries.children:
                if policy.name != "redeliveryPolicy":
                    report_unknown(self.document, policy, entries.name, ("redeliveryPolicy",))
                    continue
                taken = self._redelivery(policy)
                for pattern, kinds in patterns_of(self.document, policy):
                    self._add(pattern, kinds, taken, group, policy)

    def _redelivery(self, policy: Element) -> Taken:
        return take_attributes(self.document, REDELIVERY_POLICY, policy, MATCHES)

    def read_time_stamping(self, plugin: Element) -> None:
        taken = take_attributes(self.document, options.TIME_STAMPING, plugin)
        if taken.values:
            self._add(EVERYTHING, BOTH, taken, "", plugin)

    def read_discarding(self, plugin: Element) -> None:
        taken = take_attributes(self.document, options.DISCARDING, plugin)
        if taken.values:
            self._add(EVERYTHING, BOTH, taken, "", plugin)
            self._discarding = taken
        elif "dropAll" not in plugin.attributes:
            text = "dropAll is not set: ActiveMQ drops all dead letters then, here they are kept"
            self.document.note(plugin.line, plugin.name, text)

    def finish(self) -> None:
        """Let the plugin that discards dead letters override the strategies of all entries, as in ActiveMQ."""
        discarding = self._discarding
        for path, value in discarding.values.items():
            for taken in self._policies:
                if path in taken.values:
                    taken.set(path, value, discarding.sources[path])


def patterns_of(document: Document, element: Element) -> list[tuple[Pattern, int]]:
    """Return the patterns of an entry; for a composite name, one per part."""
    found: list[tuple[Pattern, int]] = []
    for name, kinds in (("queue", QUEUE), ("topic", TOPIC)):
        for part in element.attributes.get(name, "").split(","):
            if part.strip():
                line = element.line_of(name)
                pattern = pattern_of(document, element, name, part.strip(), line)
                if pattern is not None:
                    found.append((pattern, kinds))
    for name in ("tempQueue", "tempTopic"):
        if element.attributes.get(name, "false") != "false":
            document.note(
                element.line_of(name), element.name, f"{name} has no effect: temporary destinations have no policies"
            )
    destination = element.first("destination")
    if destination is not None:
        for inner in destination.children:
            kind = {"queue": QUEUE, "topic": TOPIC}.get(inner.name)
            name = inner.attributes.get("physicalName", "")
            parsed = pattern_of(document, element, "destination", name, inner.line) if kind is not None else None
            if kind is None:
                report_unknown(document, inner, element.name, ("queue", "topic"))
            elif parsed is not None:
                found.append((parsed, kind))
    return found


def pattern_of(document: Document, element: Element, name: str, text: str, line: int) -> Pattern | None:
    try:
        if PLACEHOLDER in text:
            raise InvalidPattern("is a placeholder, which is not resolved here; write the value")
        if "?" in text:
            raise InvalidPattern("has options, which belong to consumers and producers")
        return Pattern.parse(text)
    except InvalidPattern as error:
        document.report(line, element.name, f"{name}: {text!r} {error}")
        return None
