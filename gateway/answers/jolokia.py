"""Answers as Jolokia gives them of ActiveMQ's MBeans, from one snapshot of the broker.

Source: https://jolokia.org (protocol 7.2: "read", "search", "version"), and ActiveMQ's JMXSupport for names.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from engine.values.broker_stats import BrokerStats, DestinationStats

READS_MAX: Final = 32  # of one request
WALKS_MAX: Final = 4  # of these, reads over all destinations; plug-ins need two
ATTRIBUTES_MAX: Final = 50  # of one read; there are fewer
BROKER_NAME: Final = "localhost"
_SHOWN: Final = 200  # characters of an error
_DOMAIN: Final = "org.apache.activemq"
_PER_KIND: Final = {"Queues": "queue", "Topics": "topic"}  # attributes of the broker

Properties = dict[str, str]
Names = tuple[str, ...]  # of attributes; () for all


class Refused(Exception):
    """An error in the words of Jolokia.  kind: class of Java's exception."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind


def _no_bean(mbean: str) -> Refused:
    return Refused(404, "javax.management.InstanceNotFoundException", mbean[:_SHOWN])


def _no_attribute(name: str) -> Refused:
    return Refused(404, "javax.management.AttributeNotFoundException", f"No such attribute: {name[:_SHOWN]}")


def _wrong(text: str) -> Refused:
    return Refused(400, "java.lang.IllegalArgumentException", text)


@dataclass(frozen=True, slots=True)
class DiskUse:
    """log_bytes: of the store's log.  room_bytes: that may be added before a limit of the disk stops producers."""

    log_bytes: int
    room_bytes: int

    def percent(self, used_bytes: int) -> int:
        """Return what is used of all that may be used."""
        room_bytes = max(0, self.room_bytes)
        return used_bytes * 100 // (used_bytes + room_bytes) if room_bytes else 100


@dataclass(frozen=True, slots=True)
class Read:
    """One request.  attribute: a name, several, or None for all.  is_lenient: what is not there is a text, no error."""

    mbean: str
    attribute: str | Names | None
    is_lenient: bool = False
    kind: str = "read"

    def names(self) -> Names:
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute or ()

    def echo(self) -> dict[str, Any]:
        """Return it as the answer repeats it."""
        attribute = list(self.attribute) if isinstance(self.attribute, tuple) else self.attribute
        more = {} if attribute is None else {"attribute": attribute}
        return {"type": self.kind, "mbean": self.mbean, **more}


@dataclass(frozen=True, slots=True)
class Bean:
    """One MBean.  properties: of its name, in canonical order.  attributes: returns those with these names at least."""

    properties: Properties
    attributes: Callable[[Names], dict[str, Any]]

    def name(self) -> str:
        return _object_name(self.properties)


def asked_of(document: Any, is_lenient: bool) -> Read:
    """Return what one object of a POST asks for.  Raises: Refused."""
    if not isinstance(document, dict):
        raise _wrong("a request is a JSON object with type, mbean and attribute")
    kind, mbean, attribute = document.get("type"), document.get("mbean", ""), document.get("attribute")
    if kind in ("write", "exec"):
        raise Refused(403, "java.lang.SecurityException", f"type is {kind}; allowed is read, search or version")
    if kind not in ("read", "search", "version"):
        raise _wrong(f"type is {str(kind)[:_SHOWN]}; allowed is read, search or version")
    names = [attribute] if attribute is None or isinstance(attribute, str) else attribute
    is_known = isinstance(names, list) and len(names) <= ATTRIBUTES_MAX
    if not is_known or not all(one is None or isinstance(one, str) for one in names):
        raise _wrong(f"attribute is a text or a list of at most {ATTRIBUTES_MAX} texts")
    if not isinstance(mbean, str) or (kind != "version" and not mbean):
        raise _wrong("mbean is the name of an MBean, a text")
    if document.get("path"):
        raise _wrong("path is not supported; no attribute here has parts")
    config = document.get("config")
    if isinstance(config, dict) and "ignoreErrors" in config:
        is_lenient = str(config["ignoreErrors"]).lower() == "true"
    several = tuple(dict.fromkeys(one for one in names if one)) or None
    return Read(mbean, attribute if isinstance(attribute, str) and attribute else several, is_lenient, kind)


class Jolokia:
    """Answers of one snapshot.  now_s: their time.  disk: None if its use is not known."""

    def __init__(self, stats: BrokerStats, now_s: int, disk: DiskUse | None = None) -> None:
        self._stats = stats
        self._now_s = now_s
        self._disk = disk
        self._walks = 0

    def bulk(self, documents: list[Any], is_lenient: bool) -> Iterator[str]:
        """Yield the JSON of an array with the answers, in pieces."""
        yield "["
        for number, document in enumerate(documents):
            yield ", " if number else ""
            yield from self.one(document, is_lenient)
        yield "]"

    def one(self, document: Any, is_lenient: bool) -> Iterator[str]:
        """Yield the JSON of the answer to one object of a POST, in pieces."""
        try:
            asked = asked_of(document, is_lenient)
        except Refused as error:
            yield self._error({} if not isinstance(document, dict) else {"type": document.get("type")}, error)
            return
        yield from self.answer(asked)

    def answer(self, asked: Read) -> Iterator[str]:
        """Yield the JSON of an answer.

        One call of dumps with all destinations would hold the interpreter, and the loop with it.
        """
        if asked.kind == "version":
            yield json.dumps({"request": {"type": "version"}, "value": version_value(), **self._good()})
            return
        try:
            value = [one.name() for one in self._found(asked)] if asked.kind == "search" else self._value(asked)
        except Refused as error:
            yield self._error(asked.echo(), error)
            return
        yield f'{json.dumps({"request": asked.echo(), **self._good()})[:-1]}, "value": '
        if isinstance(value, dict):
            yield f"{{{', '.join(f'{json.dumps(name)}: {_text(one)}' for name, one in value.items())}}}}}"
        else:
            yield f"{_text(value)}}}"

    def _good(self) -> dict[str, Any]:
        return {"timestamp": self._now_s, "status": 200}

    def _error(self, request: dict[str, Any], error: Refused) -> str:
        told = {"status": error.status, "error_type": error.kind, "error": f"{error.kind} : {error}"}
        return json.dumps({"request": request, "timestamp": self._now_s, **told})

    def _value(self, asked: Read) -> Any:
        """Raises: Refused."""
        names = asked.names()
        found = self._found(asked)
        self._count_walk(any("destinationName" not in one.properties for one in found) and _wants_lists(names))
        if not _is_pattern(asked.mbean):
            if not found:
                raise _no_bean(asked.mbean)
            return _chosen(found[0].attributes(names), asked)
        if not found:
            raise _no_bean(f"No MBean with pattern {asked.mbean} found for reading attributes")
        value = {}
        for bean in found:
            attributes = bean.attributes(names)
            some = {name: attributes[name] for name in names or attributes if name in attributes}
            if some:
                value[bean.name()] = some
        if not value:
            raise _wrong(f"No matching attributes {', '.join(names)[:_SHOWN]} found on MBeans {asked.mbean[:_SHOWN]}")
        return value

    def _count_walk(self, is_one: bool) -> None:
        """Raises: Refused."""
        self._walks += is_one
        if self._walks > WALKS_MAX:
            raise _wrong(f"one request may read all destinations {WALKS_MAX} times")

    def _found(self, asked: Read) -> list[Bean]:
        """Return the MBeans of a name or a pattern.  Raises: Refused."""
        domain, _, keys = asked.mbean.partition(":")
        given = dict(one.partition("=")[::2] for one in keys.split(","))
        is_open = given.pop("*", None) is not None
        if domain != _DOMAIN:
            return []
        if "destinationName" in given and not is_open:
            given.setdefault("destinationType", "Queue")
        patterns = {name: _matcher(value) for name, value in given.items() if name != "brokerName"}
        patterns["brokerName"] = _matcher("*")  # whatever the name in the settings of a plug-in
        beans = self._beans(given, is_open)
        return [one for one in beans if _fits(one.properties, patterns, is_open)]

    def _beans(self, given: Properties, is_open: bool) -> Iterator[Bean]:
        """Yield those that may fit.  Raises: Refused."""
        broker = {"brokerName": BROKER_NAME}
        if "destinationName" not in given:
            yield Bean({**broker, "type": "Broker"}, self._broker)
            yield Bean({**broker, "service": "Health", "type": "Broker"}, self._health)
        if "destinationName" not in given and not is_open:
            return
        name = given.get("destinationName", "*")
        is_walk = _is_pattern(name) or is_open
        self._count_walk(is_walk)
        for one in self._stats.destinations:
            # A name as it is, too: with "," in it only the encoded one can be told in a pattern.
            if is_walk or name in (one.name, _encoded(one.name)):
                shown = _encoded(one.name) if is_walk else name
                where = {"destinationName": shown, "destinationType": one.kind.title()}
                yield Bean({**broker, **where, "type": "Broker"}, partial(_destination, one))

    def _broker(self, names: Names) -> dict[str, Any]:
        stats, destinations = self._stats, self._stats.destinations
        attributes = {
            "BrokerName": BROKER_NAME,
            "BrokerVersion": version("penstock"),
            "CurrentConnectionsCount": stats.connections,
            "MemoryLimit": stats.memory_limit_bytes,
            "MemoryPercentUsage": stats.memory_bytes * 100 // max(1, stats.memory_limit_bytes),
            "Persistent": True,
            "TotalConsumerCount": len(stats.consumers),
            "TotalDequeueCount": sum(one.acknowledged for one in destinations),
            "TotalEnqueueCount": sum(one.enqueued for one in destinations),
            "TotalMessageCount": sum(one.depth for one in destinations),
            "TotalProducerCount": sum(one.producers for one in destinations),
            "TotalQueuesCount": sum(one.kind == "queue" for one in destinations),
            "TotalTopicsCount": sum(one.kind == "topic" for one in destinations),
        }
        if self._disk is not None:
            attributes["StorePercentUsage"] = self._disk.percent(self._disk.log_bytes)
            attributes["TempPercentUsage"] = self._disk.percent(stats.spilled_bytes)
        if _wants_lists(names):
            for name, kind in _PER_KIND.items():
                attributes[name] = [{"objectName": self._name_of(one)} for one in destinations if one.kind == kind]
        return attributes

    def _health(self, names: Names) -> dict[str, Any]:
        store = self._stats.store
        return {"CurrentStatus": "Good" if store.is_accepting else f"The store takes no messages: {store.reason}"}

    def _name_of(self, one: DestinationStats) -> str:
        where = {"destinationName": _encoded(one.name), "destinationType": one.kind.title()}
        return _object_name({"brokerName": BROKER_NAME, **where, "type": "Broker"})


def version_value() -> dict[str, Any]:
    """Return what an agent says of itself."""
    return {"agent": "1.7.1", "protocol": "7.2", "info": {"product": "penstock", "version": version("penstock")}}


def _destination(one: DestinationStats, names: Names) -> dict[str, Any]:
    return {
        "Name": one.name,
        "ConsumerCount": one.consumers,
        "DequeueCount": one.acknowledged,
        "DispatchCount": one.delivered,
        "EnqueueCount": one.enqueued,
        "ExpiredCount": one.expired,
        "InFlightCount": one.in_flight,
        "Paused": one.is_paused,
        "ProducerCount": one.producers,
        "QueueSize": one.depth,
    }


def _chosen(attributes: Mapping[str, Any], asked: Read) -> Any:
    """Return the named attributes; one that was named alone as its value.  Raises: Refused."""
    names = asked.names()
    for name in names:
        if name not in attributes and not (asked.is_lenient and isinstance(asked.attribute, tuple)):
            raise _no_attribute(name)
    if isinstance(asked.attribute, str):
        return attributes[asked.attribute]
    return {name: attributes[name] if name in attributes else _missing(name) for name in names or attributes}


def _missing(name: str) -> str:
    error = _no_attribute(name)
    return f"ERROR: {error.kind} : {error}"


def _wants_lists(names: Names) -> bool:
    return not names or not _PER_KIND.keys().isdisjoint(names)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(json.dumps(one) for one in value)}]"
    return json.dumps(value)


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def _matcher(value: str) -> re.Pattern[str]:
    """Return what matches a value of a property, in which only * and ? are special."""
    return re.compile(fnmatch.translate(value.replace("[", "[[]")))


def _fits(properties: Properties, patterns: Mapping[str, re.Pattern[str]], is_open: bool) -> bool:
    if not is_open and len(properties) != len(patterns):
        return False
    return all(name in properties and one.match(properties[name]) for name, one in patterns.items())


def _object_name(properties: Properties) -> str:
    return f"{_DOMAIN}:{','.join(f'{name}={value}' for name, value in properties.items())}"


def _encoded(name: str) -> str:
    """Return a name as ActiveMQ has it in the name of an MBean."""
    plain = re.sub("[:,'\"]", "_", name)
    return plain.replace("?", "&qe;").replace("=", "&amp;").replace("*", "&ast;")
