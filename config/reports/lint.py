"""Traps in a configuration that its author may not expect; works on files alone, without a gateway.

error: the file is not accepted.  warning: a trap, here or in the original broker.  info: no effect here, or another one
than in the original broker.  Traps of other brokers are reported even if Penstock has none, as the file may serve both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from config.address_schema import ADDRESS
from config.exposure import plain_listeners
from config.loader import place_of
from config.matching import AddressEntry
from config.model import Endpoint
from config.permissions import Permission
from config.reports.findings import Finding, only_overlap, warning
from config.reports.lint_xml import of_xml
from config.schema import leaves
from config.sources import detect
from config.sources.document import Document
from config.sources.xml import XmlError, parse

_KEYS: Final = {leaf.path: key for key, leaf in leaves(ADDRESS).items()}

# Settings that keep a queue's messages in memory, and settings that limit them.
IN_MEMORY: Final = ("queue.last_value", "queue.non_destructive", "queue.purge_on_no_consumers")
LIMITS: Final = ("full.max_size_bytes", "full.max_size_messages", "queue.ring_size")


def lint(files: Sequence[tuple[str, bytes]]) -> list[Finding]:
    """Return the findings for files, given as (name, content), that together make one configuration."""
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
                found += of_xml(document, parse(source, content))
            except XmlError:
                pass  # reported as a problem already
        found += _back_off(document)
        findings += sorted(found, key=lambda finding: finding.problem.line)
    findings += _in_memory(documents)
    findings += _permissions(documents)
    findings += _exposed(documents)
    return findings


# -- rules for every format


def _exposed(documents: Sequence[Document]) -> Iterator[Finding]:
    """Passwords and tokens sent unencrypted over the network."""
    if not _has_external(documents) and not any(document.users or document.passwords for document in documents):
        return
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for document in documents:
        values |= document.values
        sources |= document.sources
    endpoints: dict[str, Endpoint | None] = {}
    for name in ("stomp", "amqp", "openwire", "http"):
        value = values.get(f"listeners.{name}")
        endpoints[name] = value if isinstance(value, Endpoint) else None
    for problem in plain_listeners(endpoints, bool(values.get("tls.certificate")), sources):
        yield Finding("warning", problem)


def _groups(document: Document) -> Iterator[Finding]:
    """ActiveMQ: a narrower entry disables another one completely."""
    for narrow in document.addresses:
        for broad in document.addresses:
            if not narrow.group or narrow.group != broad.group or narrow is broad or not narrow.kinds & broad.kinds:
                continue
            source, line = place_of(narrow.place)
            if broad.pattern.covers(narrow.pattern) and broad.pattern.elements != narrow.pattern.elements:
                lost = [_KEYS[path] for path in broad.values if path not in narrow.values]
                if lost:
                    text = (
                        f"exactly one entry applies to a destination: for {narrow.pattern.text!r} this one switches "
                        f"off {broad.pattern.text!r} at {broad.place}, and does not set its {', '.join(lost)}"
                    )
                    yield warning(source, line, "policyEntry", text)
            elif broad.place < narrow.place and only_overlap(broad.pattern, narrow.pattern):
                text = (
                    f"{narrow.pattern.text!r} and {broad.pattern.text!r} at {broad.place} match some names both, and "
                    "neither is within the other: ActiveMQ decides by the order of letters, here the one whose first "
                    "wildcard stands further right applies"
                )
                yield warning(source, line, "policyEntry", text)


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
    return warning(source, line, _KEYS[path], text)


def _in_memory(documents: Sequence[Document]) -> Iterator[Finding]:
    """Queues without a limit, which may use up the memory of all others."""
    entries = [entry for document in documents for entry in document.addresses]
    for entry in entries:
        path = next((path for path in IN_MEMORY if entry.values.get(path) is True), None)
        limits = [
            each.values[limit]
            for limit in LIMITS
            for each in entries
            if limit in each.values and each.kinds & entry.kinds == entry.kinds and each.pattern.covers(entry.pattern)
        ]
        if path is None or any(isinstance(limit, int) and limit >= 0 for limit in limits):
            continue
        source, line = place_of(entry.sources[path])
        text = (
            f"{entry.pattern.text!r} keeps its messages in memory, and nothing limits them: they can take all of "
            "memory-limit-bytes, and then every producer waits; max-size-bytes limits them"
        )
        yield warning(source, line, _KEYS[path], text)


def _has_external(documents: Sequence[Document]) -> bool:
    """Say whether users may log in who are not in the configuration."""
    return any(
        document.values.get(key) for document in documents for key in ("security.jwt.issuer", "security.ldap.url")
    )


def _permissions(documents: Sequence[Document]) -> Iterator[Finding]:
    entries = [entry for document in documents for entry in document.permissions]
    if not entries or _has_external(documents):  # tokens and directories name groups, too
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
    return warning(source, line, "permissions", text)
