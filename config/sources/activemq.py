"""activemq.xml of ActiveMQ Classic: its policies, connectors, users and permissions as settings of Penstock.

Settings that the file leaves out take Penstock's defaults, with two exceptions that its users know: expired messages
are sent to the dead-letter destination, and priorities do not change the order.  Spring is not run: a placeholder in a
value that matters is an error, and other beans are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from config.matching import BOTH, AddressEntry
from config.model import VirtualTopic
from config.names import DestinationName, QueuePrefix
from config.options import OptionError, unknown_option
from config.schema import SERVER, leaves
from config.sources import activemq_options as options
from config.sources.activemq_policies import EVERYTHING, PolicyReader, pattern_of
from config.sources.activemq_security import read_permissions, read_users
from config.sources.document import Document
from config.sources.uri import parse_endpoint
from config.sources.xml import Element
from config.sources.xml_option import PLACEHOLDER, Taken, note, report_unknown, take_attributes
from config.values import Boolean

_UNSET: Final[dict[str, object]] = {"dead_letters.process_expired": True, "queue.prioritized_messages": False}

# Scheme of a transportConnector -> the listener that it is here.
_LISTENERS: Final = {
    "stomp": "stomp",
    "stomp+nio": "stomp",
    "amqp": "amqp",
    "amqp+nio": "amqp",
    "tcp": "openwire",
    "nio": "openwire",
}
_TLS_SCHEMES: Final = ("ssl", "stomp+ssl", "stomp+nio+ssl", "amqp+ssl", "amqp+nio+ssl", "wss", "mqtt+ssl", "auto+ssl")


def read(source: str, root: Element, listeners: Iterable[str]) -> Document:
    """Return the settings of the file.  listeners: names of this gateway's listeners."""
    reader = _Reader(Document(source), frozenset(listeners))
    brokers = [root] if root.name == "broker" else list(root.all("broker"))
    for child in root.children if root.name != "broker" else ():
        if child.name != "broker":
            reader.document.note(child.line, child.name, "of Spring, which is not run here")
    if len(brokers) != 1:
        reader.document.report(root.line, root.name, f"has {len(brokers)} elements broker, allowed is one")
    else:
        reader.read_broker(brokers[0])
    return reader.document


class _Reader:
    def __init__(self, document: Document, listeners: frozenset[str]) -> None:
        self.document = document
        self._listeners = listeners
        self._connectors: dict[str, int] = {}
        self._policies = PolicyReader(document)

    def read_broker(self, broker: Element) -> None:
        document = self.document
        source = f"{document.place(broker.line)} (activemq.xml: where it says nothing)"
        document.addresses.append(AddressEntry(EVERYTHING, BOTH, dict(_UNSET), dict.fromkeys(_UNSET, source)))
        taken = take_attributes(document, options.BROKER, broker)
        if taken.values.pop("has_virtual_topics", True) is False:
            document.virtual_topics = []
        self._set_server(taken)
        readers = {
            "destinationPolicy": self._policies.read_policies,
            "transportConnectors": self._read_connectors,
            "destinations": self._read_destinations,
            "systemUsage": self._read_system_usage,
            "plugins": self._read_plugins,
            "destinationInterceptors": self._read_interceptors,
        }
        # The limits come first, because the policy of full destinations depends on them.
        for child in sorted(broker.children, key=lambda child: child.name != "systemUsage"):
            if child.name in readers:
                readers[child.name](child)
            elif child.name in options.BROKER_CHILDREN:
                option = options.BROKER_CHILDREN[child.name]
                if option.status == "refused":
                    document.report(child.line, child.name, option.text)
                else:
                    note(document, option, broker.name, child.line)
            else:
                names = (*readers, *options.BROKER_CHILDREN)
                document.report(child.line, broker.name, str(unknown_option(child.name, names)))
        self._policies.finish()

    def _set_server(self, taken: Taken) -> None:
        keys = {leaf.path: key for key, leaf in leaves(SERVER).items()}
        for path, value in taken.values.items():
            self.document.values[path] = value
            self.document.sources[keys[path]] = taken.sources[path]

    # -- policies

    # -- connectors, destinations, limits

    def _read_connectors(self, element: Element) -> None:
        for connector in element.children:
            if connector.name != "transportConnector":
                report_unknown(self.document, connector, element.name, ("transportConnector",))
                continue
            take_attributes(self.document, options.CONNECTOR, connector, ("uri",))
            for child in connector.children:
                self.document.note(
                    child.line, connector.name, f"{child.name} has no effect: a gateway is not part of a network"
                )
            self._read_connector(connector.attributes.get("uri", ""), connector.line_of("uri"))

    def _read_connector(self, uri: str, line: int) -> None:
        document = self.document
        scheme = uri.partition(":")[0]
        listener = _LISTENERS.get(scheme)
        if scheme in _TLS_SCHEMES:
            document.note(
                line,
                "transportConnector",
                f"{uri!r} has no effect: key stores are not read; set tls.certificate and listen at tls://",
            )
            return
        if scheme == "ws":
            text = f"{uri!r} has no effect: listeners.http takes STOMP over WebSocket"
            document.note(line, "transportConnector", text)
            return
        if listener is None or listener not in self._listeners:
            spoken = ", ".join(name for name in sorted(self._listeners) if name != "http")
            document.note(line, "transportConnector", f"{uri!r} has no effect: spoken here are {spoken}")
            return
        if listener in self._connectors:
            text = f"{uri!r} has no effect: line {self._connectors[listener]} says where {listener} is spoken"
            document.note(line, "transportConnector", text)
            return
        self._connectors[listener] = line
        try:
            if PLACEHOLDER in uri:
                raise OptionError("is a placeholder, which is not resolved here; write the value")
            document.values[f"listeners.{listener}"] = parse_endpoint(uri, (scheme,), "tcp")
            document.sources[f"listeners.{listener}"] = document.place(line)
        except OptionError as error:
            document.report(line, "transportConnector", f"{uri!r}: {error}")
        except ValueError as error:
            said = f" {error}" if str(error).startswith(("has ", "lacks ")) else ""
            document.report(line, "transportConnector", f"{uri!r}{said}, allowed is {scheme}://HOST:PORT?OPTIONS")

    def _read_destinations(self, element: Element) -> None:
        for child in element.children:
            kind = {"queue": "queue", "topic": "topic"}.get(child.name)
            name = child.attributes.get("physicalName", "")
            if kind is None:
                report_unknown(self.document, child, element.name, ("queue", "topic"))
                continue
            try:
                self.document.add_destination(*DestinationName().parse(f"{kind}://{name}"))
            except ValueError:
                self.document.report(child.line, child.name, f"{name!r}, allowed is {DestinationName().allowed}")

    def _read_system_usage(self, outer: Element) -> None:
        for usage in outer.children:
            if usage.name != "systemUsage":
                report_unknown(self.document, usage, outer.name, ("systemUsage",))
                continue
            taken = take_attributes(self.document, options.SYSTEM_USAGE, usage)
            self._policies.full_policy = str(taken.values.get("full.address_full_policy", self._policies.full_policy))
            timeout = taken.values.get("full.block_timeout_ms", 0)
            assert isinstance(timeout, int), f"a time-out is {type(timeout)}"
            self._policies.block_timeout_ms = timeout
            known = {
                "memoryUsage": options.MEMORY_USAGE,
                "storeUsage": options.STORE_USAGE,
                "tempUsage": options.TEMP_USAGE,
                "jobSchedulerUsage": options.TEMP_USAGE,
            }
            for part in usage.children:
                if part.name not in known:
                    report_unknown(self.document, part, usage.name, known)
                    continue
                for inner in part.all(part.name):
                    self._set_server(take_attributes(self.document, known[part.name], inner))

    def _read_interceptors(self, element: Element) -> None:
        for interceptor in element.children:
            if interceptor.name != "virtualDestinationInterceptor":
                self.document.note(interceptor.line, interceptor.name, "has no effect: messages are not intercepted")
                continue
            for virtual in (found for listed in interceptor.children for found in listed.children):
                if virtual.name != "virtualTopic":
                    text = "has no effect: messages are not forwarded; the senders' composite destinations do the same"
                    self.document.note(virtual.line, virtual.name, text)
                    continue
                self._read_virtual_topic(virtual)

    def _read_virtual_topic(self, element: Element) -> None:
        default = VirtualTopic()
        take_attributes(self.document, options.VIRTUAL_TOPIC, element, ("name", "prefix", "selectorAware"))
        pattern = pattern_of(
            self.document, element, "name", element.attributes.get("name", default.pattern), element.line_of("name")
        )
        try:
            prefix = QueuePrefix().parse(element.attributes.get("prefix", default.prefix))
            is_selective = Boolean().parse(element.attributes.get("selectorAware", "false"))
        except ValueError:
            text = f"prefix: allowed is {QueuePrefix().allowed}; selectorAware: allowed is {Boolean().allowed}"
            self.document.report(element.line, element.name, text)
            return
        if pattern is not None:
            if self.document.virtual_topics is None:
                self.document.virtual_topics = []
            self.document.virtual_topics.append(VirtualTopic(pattern.text, prefix, is_selective))

    # -- plugins: users, permissions, redelivery

    def _read_plugins(self, element: Element) -> None:
        readers: dict[str, Callable[[Element], None]] = {
            "simpleAuthenticationPlugin": partial(read_users, self.document),
            "authorizationPlugin": partial(read_permissions, self.document),
            "redeliveryPlugin": self._policies.read_redelivery,
            "timeStampingBrokerPlugin": self._policies.read_time_stamping,
            "discardingDLQBrokerPlugin": self._policies.read_discarding,
        }
        for plugin in element.children:
            if plugin.name in readers:
                readers[plugin.name](plugin)
            elif plugin.name not in options.PLUGINS:
                report_unknown(self.document, plugin, element.name, options.PLUGINS)
            elif options.PLUGINS[plugin.name].status == "refused":
                self.document.report(plugin.line, plugin.name, options.PLUGINS[plugin.name].text)
            else:
                note(self.document, options.PLUGINS[plugin.name], element.name, plugin.line)
