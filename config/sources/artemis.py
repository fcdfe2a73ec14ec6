"""The core configuration of Artemis (broker.xml) and of HornetQ (hornetq-configuration.xml).

Address settings are merged field by field, as in both.  HornetQ's own merging has faults (expiry-delay is never
inherited, last-value-queue is not merged, a merge changes the stored settings); there, the plain rule of
config.matching applies.  In HornetQ's files ``jms.queue.N`` and ``jms.topic.N`` mean the queue and the topic N; a plain
name means both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from config.matching import BOTH, QUEUE, REST, TOPIC, AddressEntry, InvalidPattern, Pattern
from config.names import DestinationName
from config.options import OptionError
from config.permissions import Action, Permission
from config.schema import SERVER, leaves
from config.sources import artemis_address_options as address_options
from config.sources import artemis_options as options
from config.sources.artemis_address_options import ADDRESS_SETTING, HORNETQ_ADDRESS_SETTING, QUEUE_PREFIX, TOPIC_PREFIX
from config.sources.artemis_auto_create import AutoCreate, entries
from config.sources.document import Document
from config.sources.uri import parse_endpoint
from config.sources.xml import Element
from config.sources.xml_option import PLACEHOLDER, Taken, names_in, report_unknown, take, take_attributes, take_children

# Protocol of an acceptor -> Penstock's listener.
_LISTENERS: Final = {"STOMP": "stomp", "AMQP": "amqp"}
_TEMPORARY: Final = ("jms.tempqueue.", "jms.temptopic.")

# Permission in the file -> the actions that it grants here.
_GRANTS: Final[dict[str, tuple[Action, ...]]] = {
    "send": ("write",),
    "consume": ("read",),
    "browse": ("browse",),
    "createDurableQueue": ("create", "subscribe-durable"),
    "deleteDurableQueue": ("delete", "unsubscribe"),
    "createNonDurableQueue": ("subscribe",),
    "createTempQueue": ("subscribe",),
}
# Both of these must grant it, if the file mentions the second at all.
_BOTH_NEEDED: Final[tuple[tuple[Action, str], ...]] = (("create", "createAddress"), ("delete", "deleteAddress"))


class CoreReader:
    """Reads one file.  listeners: names of this gateway's listeners."""

    def __init__(self, source: str, is_hornetq: bool, listeners: Iterable[str]) -> None:
        self.document = Document(source)
        self._is_hornetq = is_hornetq
        self._address_setting = HORNETQ_ADDRESS_SETTING if is_hornetq else ADDRESS_SETTING
        self._listeners = frozenset(listeners)
        self._any_words = "#"
        self._single_word = "*"
        self._delimiter = "."

    def read_core(self, core: Element) -> None:
        document = self.document
        readers = {
            "wildcard-addresses": self._read_wildcards,
            "address-settings": self._read_address_settings,
            "security-settings": self._read_security_settings,
            "acceptors": self._read_acceptors,
            "addresses": self._read_addresses,
            "queues": self._read_queues,
        }
        is_secured = core.first("security-enabled")
        is_open = is_secured is not None and is_secured.text.strip() == "false"
        # The syntax of patterns comes first, because the other elements use it.
        for child in sorted(core.children, key=lambda child: child.name != "wildcard-addresses"):
            if child.name == "security-enabled":
                continue
            if child.name == "security-settings" and is_open:
                document.note(child.line, child.name, "has no effect: security-enabled is false")
            elif child.name in readers:
                readers[child.name](child)
            elif child.name in options.CORE:
                taken = take(document, options.CORE, core.name, child.name, child.text.strip(), child.line)
                for path, value in taken.values.items():
                    document.values[path] = value
                    document.sources[_KEYS[path]] = taken.sources[path]
            else:
                # The list of possible elements is long and grows; those that affect messages are in the table.
                document.note(child.line, core.name, f"{child.name} has no effect: it is not known here")

    # -- patterns

    def _read_wildcards(self, element: Element) -> None:
        take_children(self.document, options.WILDCARDS, element)
        for child in element.children:
            text = child.text.strip()
            if child.name == "any-words":
                self._any_words = text
            elif child.name == "single-word":
                self._single_word = text
            elif child.name == "delimiter":
                self._delimiter = text

    def _pattern(self, element: Element) -> tuple[Pattern, int] | None:
        """Return the pattern of an element with ``match`` and its kinds, None if it has no meaning here."""
        text = element.attributes.get("match", "")
        line = element.line_of("match")
        kinds = BOTH
        name = text
        if text.startswith(_TEMPORARY):
            self.document.note(line, element.name, f"{text!r} has no effect: temporary destinations have no settings")
            return None
        if text in ("jms.#", "jms.*.#"):
            name = self._any_words
        elif text.startswith(QUEUE_PREFIX):
            kinds, name = QUEUE, text.removeprefix(QUEUE_PREFIX)
        elif text.startswith(TOPIC_PREFIX):
            kinds, name = TOPIC, text.removeprefix(TOPIC_PREFIX)
        try:
            if PLACEHOLDER in text:
                raise InvalidPattern("is a placeholder, which is not resolved here; write the value")
            return options.translate(name, self._any_words, self._single_word, self._delimiter), kinds
        except InvalidPattern as error:
            self.document.report(line, element.name, f"match: {text!r} {error}")
            return None

    def _by_match(self, element: Element, name: str) -> list[Element]:
        """Return the children ``name``; of several with the same match, only the last."""
        last: dict[str, Element] = {}
        for child in element.children:
            if child.name != name:
                report_unknown(self.document, child, element.name, (name,))
                continue
            match = child.attributes.get("match", "")
            if match in last:
                text = f"{match!r} is repeated on line {child.line}, which replaces this one"
                self.document.note(last[match].line, name, text)
            last[match] = child
        return list(last.values())

    # -- address settings

    def _read_address_settings(self, element: Element) -> None:
        individual = ""
        created: list[AutoCreate] = []
        for setting in self._by_match(element, "address-setting"):
            found = self._pattern(setting)
            taken = take_children(self.document, self._address_setting, setting, address_options.AUTO_CREATE)
            if found is None:
                continue
            self._add_entry(*found, taken, setting)
            created.append(AutoCreate(*found, setting))
            self._auto_create(created[-1])
            if taken.values.get("dead_letters.strategy") == "individual":
                individual = individual or taken.sources["dead_letters.strategy"]
        for one, kind, answer in entries(created):
            self._add_entry(one.pattern, kind, answer, one.setting)
        if individual:  # the first entry of all, as any other may set a prefix, or inherit one
            sources = dict.fromkeys(address_options.DEAD_LETTER_PREFIXES, individual)
            everything = AddressEntry(
                Pattern.parse(REST), BOTH, address_options.DEAD_LETTER_PREFIXES, sources, "", individual
            )
            self.document.addresses.insert(0, everything)

    def _add_entry(self, pattern: Pattern, kinds: int, taken: Taken, setting: Element) -> None:
        place = self.document.place(setting.line)
        self.document.addresses.append(AddressEntry(pattern, kinds, taken.values, taken.sources, "", place))

    def _auto_create(self, found: AutoCreate) -> None:
        """Read what a setting says of what is made at its first mention."""
        setting = found.setting
        for child in setting.children:
            about = address_options.AUTO_CREATE.get(child.name, 0)
            if about:
                text = child.text.strip()
                taken = take(self.document, self._address_setting, setting.name, child.name, text, child.line)
                if taken.values:
                    found.say(about, taken)

    # -- permissions

    def _read_security_settings(self, element: Element) -> None:
        for child in element.children:
            if child.name in ("security-setting-plugin", "role-mapping"):
                text = "cannot be enforced here; allowed are security-setting elements with the roles themselves"
                self.document.report(child.line, child.name, text)
        element.children = [child for child in element.children if child.name == "security-setting"]
        for setting in self._by_match(element, "security-setting"):
            found = self._pattern(setting)
            if found is None:
                continue
            grants, sources = self._grants(setting)
            self.document.permissions.append(Permission(*found, grants, False, sources))

    def _grants(self, setting: Element) -> tuple[dict[Action, frozenset[str]], dict[str, str]]:
        document = self.document
        # Only the most specific entry decides, so actions that it does not name are granted to nobody.
        grants: dict[Action, frozenset[str]] = {
            action: frozenset() for granted in _GRANTS.values() for action in granted
        }
        if self._is_hornetq:
            del grants["browse"]  # HornetQ has no such permission: it follows ``read``
        sources: dict[str, str] = {action: document.place(setting.line) for action in grants}
        roles_of: dict[str, frozenset[str]] = {}
        for permission in setting.children:
            kind = permission.attributes.get("type", "")
            text = permission.attributes.get("roles", "")
            if permission.name != "permission" or PLACEHOLDER in text:
                document.report(permission.line, setting.name, "cannot be enforced; allowed is permission type= roles=")
                continue
            taken = take(document, options.PERMISSIONS, setting.name, kind, text, permission.line)
            assert not taken.values, "a permission sets no value"
            roles = roles_of.get(kind, frozenset()) | names_in(text)
            roles_of[kind] = roles
            for action in _GRANTS.get(kind, ()):
                grants[action] = grants.get(action, frozenset()) | roles
                sources[action] = document.place(permission.line)
        for action, second in _BOTH_NEEDED:
            granted = grants[action] & roles_of.get(second, frozenset())
            if not self._is_hornetq and granted != grants[action]:
                text = f"{action} also requires {second}, so it is granted to {', '.join(sorted(granted)) or 'nobody'}"
                document.note(setting.line, setting.name, text)
                grants[action] = granted
        return grants, sources

    # -- acceptors

    def _read_acceptors(self, element: Element) -> None:
        found: list[tuple[Element, str, dict[str, tuple[str, int]], list[str]]] = []
        for acceptor in element.children:
            if acceptor.name != "acceptor":
                report_unknown(self.document, acceptor, element.name, ("acceptor",))
                continue
            address, given = self._acceptor(acceptor)
            text = given.get("protocols", given.get("protocol", ("", 0)))[0]
            found.append((acceptor, address, given, [name.strip().upper() for name in text.split(",") if name.strip()]))
        taken: dict[str, int] = {}
        # An acceptor of one protocol is for that protocol; one of all protocols is for those without their own.
        for acceptor, address, given, protocols in sorted(found, key=lambda each: len(each[3]) != 1):
            is_tls = given.get("sslEnabled", given.get("ssl-enabled", ("false", 0)))[0].lower() == "true"
            offered = [_LISTENERS[name] for name in protocols if name in _LISTENERS] or (
                [] if protocols or self._is_hornetq else list(_LISTENERS.values())
            )
            listener = next((name for name in offered if name in self._listeners and name not in taken), None)
            if is_tls or listener is None:
                why = (
                    "key stores are not read; set tls.certificate and listen at tls://"
                    if is_tls
                    else f"{', '.join(protocols) or 'its protocol'} is not spoken here"
                )
                if not is_tls and any(name in taken for name in offered):
                    why = "its protocols have an acceptor already"
                self.document.note(acceptor.line, "acceptor", f"{address or 'it'} has no effect: {why}")
                continue
            taken[listener] = acceptor.line
            self._listen(acceptor, listener, address, given)

    def _acceptor(self, acceptor: Element) -> tuple[str, dict[str, tuple[str, int]]]:
        """Return the address of an acceptor and its options, each with its line."""
        given: dict[str, tuple[str, int]] = {}
        for param in acceptor.all("param"):
            given[param.attributes.get("key", "")] = (param.attributes.get("value", ""), param.line)
        if acceptor.first("factory-class") is not None or given:
            host = given.pop("host", ("localhost", 0))[0]
            port = given.pop("port", ("5445", 0))[0]
            return f"tcp://{host}:{port}", given
        uri, _, query = acceptor.text.strip().partition("?")
        for part in re.split("[;&]", query):
            name, _, value = part.strip().partition("=")
            if name:
                given[name] = (value, acceptor.line)
        return uri, given

    def _listen(self, acceptor: Element, listener: str, address: str, given: dict[str, tuple[str, int]]) -> None:
        document = self.document
        taken = Taken()
        for name, (text, line) in given.items():
            if name not in ("sslEnabled", "ssl-enabled"):
                taken.update(take(document, options.ACCEPTOR, "acceptor", name, text, line))
        try:
            if PLACEHOLDER in address:
                raise OptionError("is a placeholder, which is not resolved here; write the value")
            parts = urlsplit(address)
            if not parts.hostname or parts.port is None:
                raise ValueError
        except OptionError as error:
            document.report(acceptor.line, "acceptor", f"{address!r} {error}")
            return
        except ValueError:
            document.report(acceptor.line, "acceptor", f"{address!r}, allowed is tcp://HOST:PORT")
            return
        prefix = "server."
        limits = {path.removeprefix(prefix): value for path, value in taken.values.items() if path.startswith(prefix)}
        window = taken.values.get("flow.consumer_window_size_bytes")
        query = "" if window is None else f"?consumerWindowSize={window}"
        uri = f"tcp://{parts.netloc}{query}"
        document.values[f"listeners.{listener}"] = parse_endpoint(uri, ("tcp",))
        document.sources[f"listeners.{listener}"] = document.place(acceptor.line)
        for path, value in limits.items():
            document.values[path] = value
            document.sources[_KEYS[path]] = taken.sources[prefix + path]

    # -- destinations

    def _read_addresses(self, element: Element) -> None:
        for address in element.children:
            if address.name != "address":
                report_unknown(self.document, address, element.name, ("address",))
                continue
            name = address.attributes.get("name", "")
            for routing in address.children:
                if routing.name == "anycast":
                    self._destination(address, QUEUE, name)
                    for queue in routing.children:
                        self._read_queue(queue, name, queue.attributes.get("name", ""))
                elif routing.name == "multicast":
                    self._destination(address, TOPIC, name)
                    for queue in routing.children:
                        text = f"{queue.attributes.get('name', '')!r} is not made: its subscriber makes a subscription"
                        self.document.note(queue.line, queue.name, text)
                else:
                    report_unknown(self.document, routing, address.name, ("anycast", "multicast"))

    def _read_queue(self, queue: Element, address: str, name: str) -> None:
        if name != address:
            text = f"{name!r} is not made: a queue has the name of its address, {address!r}"
            self.document.note(queue.line, queue.name, text)
            return
        taken = take_attributes(self.document, address_options.QUEUE, queue, ("name",))
        taken.update(take_children(self.document, address_options.QUEUE, queue, ("address",)))
        if taken.values:
            self.document.addresses.append(AddressEntry(Pattern.parse(name), QUEUE, taken.values, taken.sources))

    def _read_queues(self, element: Element) -> None:
        """Core queues of HornetQ; and of Artemis before 2.0."""
        for queue in element.children:
            address = queue.first("address")
            own = queue.attributes.get("name", "")
            name = address.text.strip() if address is not None else own
            self._destination(queue, QUEUE, name.removeprefix(QUEUE_PREFIX))
            self._read_queue(queue, name.removeprefix(QUEUE_PREFIX), own.removeprefix(QUEUE_PREFIX))

    def _destination(self, element: Element, kind: int, name: str) -> None:
        word = "queue" if kind == QUEUE else "topic"
        try:
            self.document.add_destination(*DestinationName().parse(f"{word}://{name}"))
        except ValueError:
            self.document.report(element.line, element.name, f"{name!r}, allowed is {DestinationName().allowed}")


def read(source: str, root: Element, listeners: Iterable[str]) -> Document:
    """Return the settings of a broker.xml."""
    reader = CoreReader(source, False, listeners)
    cores = list(root.all("core"))
    for child in root.children:
        if child.name != "core":
            reader.document.note(child.line, child.name, "has no effect: only the core is read")
    for core in cores:
        reader.read_core(core)
    return reader.document


_KEYS: Final = {leaf.path: key for key, leaf in leaves(SERVER).items()}
