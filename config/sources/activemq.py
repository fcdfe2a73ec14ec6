"""activemq.xml of ActiveMQ Classic: its policies, connectors, users and permissions as settings of Penstock.

What the file leaves unset takes Penstock's defaults, but for one habit that its users know: expired messages go where
dead letters go.  Exactly one policyEntry applies to a destination, as in ActiveMQ, so its entries form a group
(config.matching).  Spring is not run: a placeholder in a value that matters is an error, other beans are noted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from config.matching import BOTH, QUEUE, TOPIC, AddressEntry, InvalidPattern, Pattern
from config.model import VirtualTopic
from config.names import DestinationName, QueueName, QueuePrefix, UserName
from config.options import OptionError, unknown_option
from config.permissions import Action, Permission
from config.schema import SERVER, leaves
from config.sources import activemq_options as options
from config.sources.document import Document
from config.sources.taking import PLACEHOLDER, Taken, note, take, take_attributes
from config.sources.uri import parse_endpoint
from config.sources.xml import Element
from config.values import Boolean

_EVERYTHING: Final = Pattern.parse(">")

# Scheme of a transportConnector -> the listener that it is here.
_LISTENERS: Final = {
    "stomp": "stomp",
    "stomp+nio": "stomp",
    "amqp": "amqp",
    "amqp+nio": "amqp",
}
_TLS_SCHEMES: Final = ("ssl", "stomp+ssl", "stomp+nio+ssl", "amqp+ssl", "amqp+nio+ssl", "wss", "mqtt+ssl", "auto+ssl")
_ADMIN: Final[tuple[Action, ...]] = ("create", "delete")


def read(source: str, root: Element, listeners: Iterable[str]) -> Document:
    """Return what the file says.  listeners: names of those that this gateway has."""
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
        self._full_policy = "BLOCK"
        self._block_timeout_ms = 0

    def read_broker(self, broker: Element) -> None:
        document = self.document
        source = document.place(broker.line)
        document.addresses.append(
            AddressEntry(
                _EVERYTHING,
                BOTH,
                {"dead_letters.process_expired": True},
                {"dead_letters.process_expired": f"{source} (activemq.xml: where it says nothing)"},
            )
        )
        taken = take_attributes(document, options.BROKER, broker)
        if taken.values.pop("has_virtual_topics", True) is False:
            document.virtual_topics = []
        self._set_server(taken)
        readers = {
            "destinationPolicy": self._read_policies,
            "transportConnectors": self._read_connectors,
            "destinations": self._read_destinations,
            "systemUsage": self._read_system_usage,
            "plugins": self._read_plugins,
            "destinationInterceptors": self._read_interceptors,
        }
        # The limits first: what a full destination does depends on them.
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

    def _set_server(self, taken: Taken) -> None:
        keys = {leaf.path: key for key, leaf in leaves(SERVER).items()}
        for path, value in taken.values.items():
            self.document.values[path] = value
            self.document.sources[keys[path]] = taken.sources[path]

    # -- policies

    def _read_policies(self, element: Element) -> None:
        for policy_map in element.all("policyMap"):
            group = f"{self.document.source}:{policy_map.line}"
            for default in policy_map.all("defaultEntry"):
                for entry in default.all("policyEntry"):
                    self._add(_EVERYTHING, BOTH, self._policy(entry), group, entry)
            for entries in policy_map.all("policyEntries"):
                for entry in entries.children:
                    if entry.name != "policyEntry":
                        self._unknown(entry, entries.name, ("policyEntry",))
                        continue
                    taken = self._policy(entry)
                    for pattern, kinds in self._patterns(entry):
                        self._add(pattern, kinds, taken, group, entry)

    def _add(self, pattern: Pattern, kinds: int, taken: Taken, group: str, element: Element) -> None:
        place = self.document.place(element.line)
        self.document.addresses.append(AddressEntry(pattern, kinds, taken.values, taken.sources, group, place))

    def _patterns(self, element: Element) -> list[tuple[Pattern, int]]:
        """Return what an entry is for; of a composite name, each of its parts."""
        found: list[tuple[Pattern, int]] = []
        for name, kinds in (("queue", QUEUE), ("topic", TOPIC)):
            for part in element.attributes.get(name, "").split(","):
                if part.strip():
                    line = element.line_of(name)
                    pattern = self._pattern(element, name, part.strip(), line)
                    if pattern is not None:
                        found.append((pattern, kinds))
        for name in ("tempQueue", "tempTopic"):
            if element.attributes.get(name, "false") != "false":
                self.document.note(
                    element.line_of(name),
                    element.name,
                    f"{name} has no effect: temporary destinations have no policies",
                )
        destination = element.first("destination")
        if destination is not None:
            for inner in destination.children:
                kind = {"queue": QUEUE, "topic": TOPIC}.get(inner.name)
                name = inner.attributes.get("physicalName", "")
                parsed = self._pattern(element, "destination", name, inner.line) if kind is not None else None
                if kind is None:
                    self._unknown(inner, element.name, ("queue", "topic"))
                elif parsed is not None:
                    found.append((parsed, kind))
        return found

    def _pattern(self, element: Element, name: str, text: str, line: int) -> Pattern | None:
        try:
            if PLACEHOLDER in text:
                raise InvalidPattern("is a placeholder, which is not resolved here; write the value")
            if "?" in text:
                raise InvalidPattern("has options, which belong to consumers and producers")
            return Pattern.parse(text)
        except InvalidPattern as error:
            self.document.report(line, element.name, f"{name}: {text!r} {error}")
            return None

    def _policy(self, entry: Element) -> Taken:
        document = self.document
        taken = take_attributes(document, options.POLICY_ENTRY, entry, (*options.MATCHES, "producerFlowControl"))
        self._set_full_policy(entry, taken)
        for child in entry.children:
            if child.name in options.STRATEGIES:
                self._read_strategies(child, taken)
            elif child.name in options.POLICY_CHILDREN:
                note(document, options.POLICY_CHILDREN[child.name], entry.name, child.line)
            elif child.name != "destination":
                names = (*options.STRATEGIES, *options.POLICY_CHILDREN)
                document.report(child.line, entry.name, str(unknown_option(child.name, names)))
        return taken

    def _set_full_policy(self, entry: Element, taken: Taken) -> None:
        """Decide what a full destination does: producerFlowControl before the system's sendFailIfNoSpace."""
        name = "producerFlowControl"
        flow = Taken()
        if name in entry.attributes:
            text, line = entry.attributes[name], entry.line_of(name)
            flow = take(self.document, options.POLICY_ENTRY, entry.name, name, text, line)
        path = "full.address_full_policy"
        if flow.values.get(path) == "PAGE":
            taken.update(flow)
        elif "full.max_size_bytes" in taken.values and path not in taken.values:
            source = flow.sources.get(path, taken.sources["full.max_size_bytes"])
            taken.set(path, self._full_policy, source)
            if self._block_timeout_ms and "full.block_timeout_ms" not in taken.values:
                taken.set("full.block_timeout_ms", self._block_timeout_ms, source)

    def _read_strategies(self, element: Element, taken: Taken) -> None:
        """Read the strategy that ``deadLetterStrategy`` and the like hold."""
        known = options.STRATEGIES[element.name]
        for child in element.children:
            if child.name not in known:
                self._unknown(child, element.name, known)
                continue
            table, values = known[child.name]
            for path, value in values.items():
                taken.set(path, value, self.document.place(child.line))
            taken.update(take_attributes(self.document, table, child))
            self._read_shared_queue(child, taken)

    def _read_shared_queue(self, strategy: Element, taken: Taken) -> None:
        for inner in strategy.children:
            if inner.name not in ("deadLetterQueue", "deadLetterTopic") or strategy.name != "sharedDeadLetterStrategy":
                self._unknown(inner, strategy.name, ("deadLetterQueue",))
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

    # -- connectors, destinations, limits

    def _read_connectors(self, element: Element) -> None:
        for connector in element.children:
            if connector.name != "transportConnector":
                self._unknown(connector, element.name, ("transportConnector",))
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
                self._unknown(child, element.name, ("queue", "topic"))
                continue
            try:
                self.document.add_destination(*DestinationName().parse(f"{kind}://{name}"))
            except ValueError:
                self.document.report(child.line, child.name, f"{name!r}, allowed is {DestinationName().allowed}")

    def _read_system_usage(self, outer: Element) -> None:
        for usage in outer.children:
            if usage.name != "systemUsage":
                self._unknown(usage, outer.name, ("systemUsage",))
                continue
            taken = take_attributes(self.document, options.SYSTEM_USAGE, usage)
            self._full_policy = str(taken.values.get("full.address_full_policy", self._full_policy))
            timeout = taken.values.get("full.block_timeout_ms", 0)
            assert isinstance(timeout, int), f"a time-out is {type(timeout)}"
            self._block_timeout_ms = timeout
            known = {
                "memoryUsage": options.MEMORY_USAGE,
                "storeUsage": options.STORE_USAGE,
                "tempUsage": options.TEMP_USAGE,
                "jobSchedulerUsage": options.TEMP_USAGE,
            }
            for part in usage.children:
                if part.name not in known:
                    self._unknown(part, usage.name, known)
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
        pattern = self._pattern(
            element, "name", element.attributes.get("name", default.pattern), element.line_of("name")
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
        readers = {
            "simpleAuthenticationPlugin": self._read_users,
            "authorizationPlugin": self._read_permissions,
            "redeliveryPlugin": self._read_redelivery,
            "timeStampingBrokerPlugin": self._read_time_stamping,
            "discardingDLQBrokerPlugin": self._read_discarding,
        }
        for plugin in element.children:
            if plugin.name in readers:
                readers[plugin.name](plugin)
            elif plugin.name not in options.PLUGINS:
                self._unknown(plugin, element.name, options.PLUGINS)
            elif options.PLUGINS[plugin.name].status == "refused":
                self.document.report(plugin.line, plugin.name, options.PLUGINS[plugin.name].text)
            else:
                note(self.document, options.PLUGINS[plugin.name], element.name, plugin.line)

    def _read_users(self, element: Element) -> None:
        document = self.document
        take_attributes(document, options.AUTHENTICATION, element)
        for user in (found for listed in element.all("users") for found in listed.children):
            name = user.attributes.get("username", "")
            password = user.attributes.get("password", "")
            unknown = user.attributes.keys() - {"username", "password", "groups"}
            if user.name != "authenticationUser" or unknown:
                self._unknown(user, "users", ("authenticationUser with username, password, groups",))
                continue
            # Neither is repeated in a text: what stands there may be a password in the wrong place.
            if PLACEHOLDER in name + password or password.startswith("ENC("):
                text = "username or password is a placeholder or encrypted, which is not resolved here"
                document.report(user.line, user.name, f"{text}; write users with verifiers into a penstock.yaml")
                continue
            try:
                login = UserName().parse(name)
            except ValueError:
                document.report(user.line, user.name, f"username: allowed is {UserName().allowed}")
                continue
            if not password:
                document.report(user.line_of("password"), user.name, "password: is empty or not there")
                continue
            document.passwords[login] = password
            document.groups[login] = _names(user.attributes.get("groups", ""))
            document.sources[f"users.{login}"] = document.place(user.line)

    def _read_permissions(self, element: Element) -> None:
        document = self.document
        entries = [
            entry
            for holder in element.all("map")
            for authorization in holder.children
            for entry in self._authorization_entries(authorization)
        ]
        if not entries and not document.problems:
            document.report(element.line, element.name, "has no authorizationEntry that could be enforced")
        for entry in entries:
            unknown = entry.attributes.keys() - {"queue", "topic", "read", "write", "admin", "id"}
            if unknown:
                text = f"{', '.join(sorted(unknown))} cannot be enforced; allowed are queue, topic, read, write, admin"
                document.report(entry.line, entry.name, text)
                continue
            grants: dict[Action, frozenset[str]] = {}
            sources: dict[str, str] = {}
            for name, actions in (("read", ("read",)), ("write", ("write",)), ("admin", _ADMIN)):
                text = entry.attributes.get(name, "")
                if PLACEHOLDER in text:
                    document.report(
                        entry.line_of(name), entry.name, f"{name}: {text!r} is a placeholder; write the value"
                    )
                for action in actions:
                    grants[action] = _names(text)
                    sources[action] = document.place(entry.line_of(name))
            patterns = self._patterns(entry)
            if entry.name == "defaultEntry":
                patterns = [(_EVERYTHING, BOTH)]
            if not patterns and not document.problems:
                document.report(entry.line, entry.name, "names neither a queue nor a topic, so it cannot be enforced")
            for pattern, kinds in patterns:
                document.permissions.append(Permission(pattern, kinds, grants, True, sources))

    def _authorization_entries(self, authorization: Element) -> list[Element]:
        document = self.document
        if authorization.name != "authorizationMap" or "groupClass" in authorization.attributes:
            text = (
                "cannot be enforced here; allowed is an authorizationMap with authorizationEntries, without groupClass"
            )
            document.report(authorization.line, authorization.name, text)
            return []
        entries: list[Element] = []
        for child in authorization.children:
            if child.name == "authorizationEntries":
                entries.extend(child.children)
            elif child.name == "tempDestinationAuthorizationEntry":
                if not self._is_for_everybody(child):
                    text = (
                        "cannot be enforced: whoever may log in may have temporary destinations; allowed is '*' for all"
                    )
                    document.report(child.line, child.name, text)
            else:
                text = "cannot be enforced; allowed are authorizationEntries and tempDestinationAuthorizationEntry"
                document.report(child.line, child.name, text)
        for entry in entries:
            if entry.name != "authorizationEntry":
                document.report(entry.line, entry.name, "cannot be enforced; allowed is authorizationEntry")
        return [entry for entry in entries if entry.name == "authorizationEntry"]

    def _is_for_everybody(self, element: Element) -> bool:
        inner = element.first(element.name) or element
        return all(inner.attributes.get(action) == "*" for action in ("read", "write", "admin"))

    def _read_redelivery(self, plugin: Element) -> None:
        take_attributes(self.document, options.REDELIVERY_PLUGIN, plugin)
        for outer in plugin.all("redeliveryPolicyMap"):
            for policy_map in outer.all("redeliveryPolicyMap"):
                self._read_redelivery_map(policy_map)

    def _read_redelivery_map(self, policy_map: Element) -> None:
        group = f"{self.document.source}:{policy_map.line}"
        for default in policy_map.all("defaultEntry"):
            for policy in default.all("redeliveryPolicy"):
                self._add(_EVERYTHING, BOTH, self._redelivery(policy), group, policy)
        for entries in policy_map.all("redeliveryPolicyEntries"):
            for policy in entries.children:
                if policy.name != "redeliveryPolicy":
                    self._unknown(policy, entries.name, ("redeliveryPolicy",))
                    continue
                taken = self._redelivery(policy)
                for pattern, kinds in self._patterns(policy):
                    self._add(pattern, kinds, taken, group, policy)

    def _redelivery(self, policy: Element) -> Taken:
        return take_attributes(self.document, options.REDELIVERY_POLICY, policy, options.MATCHES)

    def _read_time_stamping(self, plugin: Element) -> None:
        taken = take_attributes(self.document, options.TIME_STAMPING, plugin)
        if taken.values:
            self._add(_EVERYTHING, BOTH, taken, "", plugin)

    def _read_discarding(self, plugin: Element) -> None:
        taken = take_attributes(self.document, options.DISCARDING, plugin)
        if taken.values:
            self._add(_EVERYTHING, BOTH, taken, "", plugin)

    def _unknown(self, element: Element, parent: str, known: Iterable[str]) -> None:
        self.document.report(element.line, parent, str(unknown_option(element.name, known)))


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())
