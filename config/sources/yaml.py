"""Settings from a YAML file, each with its file and line; all problems of the file are reported, not only the first.

The text is parsed only to nodes.  Nodes have their line, keep repeated keys, and contain scalars as written, so ``off``
or ``010`` have the meaning of our own kinds of value and not that of YAML 1.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, TypeVar

import yaml

from config.address_schema import ADDRESS, ADDRESS_KEYS
from config.matching import BOTH, QUEUE, TOPIC, AddressEntry, Pattern
from config.model import VirtualTopic
from config.names import AccessTokenText, AddressPattern, DestinationName, GroupName, QueuePrefix, UserName, Verifier
from config.permissions import Action, Permission
from config.schema import (
    ADMIN,
    ADMIN_PARTS,
    ENTRY_KEYS,
    GRANTS,
    GROUP_KEY,
    LISTS,
    PERMISSION_KEYS,
    SERVER,
    UNITES_KEY,
    USER_KEYS,
    VIRTUAL_TOPIC_KEYS,
    Leaf,
    Tree,
    leaf_at,
    parse_text,
    unknown_key,
)
from config.sources.document import Document
from config.values import Boolean, Choice, Kind

# The same nodes from libyaml and from pure Python; the former is faster but not always available.
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL_TAG: Final = "tag:yaml.org,2002:null"
DEPTH_MAX: Final = 50
_TOO_DEEP: Final = f"nested deeper than {DEPTH_MAX}, as no setting is"

T = TypeVar("T")

_KIND_BITS: Final = {"queue": QUEUE, "topic": TOPIC, "both": BOTH}


def read(source: str, content: bytes) -> Document:
    """Return the settings in ``content``.  source: the name of the file, for texts."""
    reader = _Reader(source)
    try:
        # With the byte order mark that some editors write.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reader.report_at(content.count(b"\n", 0, error.start) + 1, "", "not UTF-8, the only encoding that is read")
        return reader.document
    try:
        too_deep = _line_too_deep(text)
        if too_deep:
            reader.report_at(too_deep, "", _TOO_DEEP)
            return reader.document
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        # Newer versions of libyaml scan far ahead, and have a limit of their own.
        problem = _TOO_DEEP if "maximum nesting depth" in said else f"not YAML: {said}"
        reader.report_at(mark.line + 1 if mark else 0, "", problem)
        return reader.document
    except yaml.YAMLError as error:  # characters that YAML excludes: has a position, no mark
        position = getattr(error, "position", 0)
        reader.report_at(text.count("\n", 0, position) + 1, "", "not YAML: a character that YAML does not allow")
        return reader.document
    if root is not None:
        reader.read_server(root)
    return reader.document


def _line_too_deep(text: str) -> int:
    """Return the line on which the nesting is too deep, 0 for none.

    Composing recurses, in libyaml until the stack overflows; events do not.
    """
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                return int(event.start_mark.line) + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return 0


class _Reader:
    """Walks the nodes by the tables of ``config.schema``."""

    def __init__(self, source: str) -> None:
        self.document = Document(source)

    def report_at(self, line: int, element: str, text: str) -> None:
        self.document.report(line, element, text)

    def read_server(self, root: yaml.Node) -> None:
        for key, node in self._entries(root, "", (*SERVER, *LISTS)):
            if key == "users":
                self._read_users(node)
            elif key == "addresses":
                for element, entry in self._listed(node, key, "- match: orders.>"):
                    self._read_address(entry, element)
            elif key == "permissions":
                for element, entry in self._listed(node, key, "- match: orders.>"):
                    self._read_permission(entry, element)
            elif key == "virtual-topics":
                self.document.virtual_topics = []
                for element, entry in self._listed(node, key, "- match: VirtualTopic.>"):
                    self._read_virtual_topic(entry, element)
            elif key == "destinations":
                for element, entry in self._listed(node, key, "- queue://orders"):
                    self._read_destination(entry, element)
            else:
                self._read_one(key, node, SERVER[key], self.document.values, self.document.sources, key)

    def _read_one(
        self,
        element: str,
        node: yaml.Node,
        at: Leaf | Tree,
        values: dict[str, object],
        sources: dict[str, str],
        source_key: str,
    ) -> None:
        """Read one value or a mapping of them.  element: for texts; source_key: for ``sources``."""
        if isinstance(at, Leaf):
            try:
                if at.path in values and source_key not in sources:
                    raise ValueError("sets again what another spelling of this key has set")
                values[at.path] = self._value(node, at.kind)
                sources[source_key] = self._place(node)
            except ValueError as error:
                self._report(node, element, str(error))
            return
        for key, inner in self._entries(node, element, tuple(at)):
            self._read_one(f"{element}.{key}", inner, at[key], values, sources, f"{source_key}.{key}")

    def _read_users(self, node: yaml.Node) -> None:
        for name, user in self._entries(node, "users", None):
            element = f"users.{name}"
            try:
                parse_text(UserName(), name)
            except ValueError as error:
                self._report(user, element, str(error))
            if isinstance(user, yaml.ScalarNode) and user.value:
                # The text is not repeated, as it is most likely a password.
                self._report(user, element, "a text, allowed is a mapping with the keys verifiers and groups")
                continue
            verifiers: list[str] = []
            problem_count = len(self.document.problems)
            for key, listed in self._entries(user, element, USER_KEYS):
                if key == "groups":
                    self.document.groups[name] = self._groups(listed, f"{element}.groups")
                elif key == "access-tokens":
                    self.document.access_tokens[name] = self._access_tokens(listed, f"{element}.access-tokens")
                else:
                    verifiers = self._verifiers(listed, f"{element}.verifiers")
            if verifiers:
                self.document.users[name] = tuple(verifiers)
                self.document.sources[element] = self._place(user)
            elif len(self.document.problems) == problem_count:
                # Ignoring such a user could leave none, and without users everybody may log in.
                self._report(user, element, "has no verifiers; 'penstock user hash NAME' prints them")

    def _verifiers(self, node: yaml.Node, element: str) -> list[str]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._report(node, element, "is not valid, allowed is a list of at least one verifier")
            return []
        verifiers: list[str] = []
        kind = Verifier()
        for at, listed in enumerate(node.value):
            try:
                if not isinstance(listed, yaml.ScalarNode):
                    raise ValueError
                verifier = kind.parse(listed.value)
            except ValueError as error:
                # The text is not repeated, as it may be a password in the wrong place.
                why = f"{error}, " if str(error) else "is not valid, "
                self._report(listed, f"{element}[{at}]", f"{why}allowed is {kind.allowed}")
                continue
            if any(verifier.split("$")[0] == other.split("$")[0] for other in verifiers):
                self._report(listed, f"{element}[{at}]", f"a second verifier for {verifier.split('$')[0]}")
            else:
                verifiers.append(verifier)
        return verifiers

    def _access_tokens(self, node: yaml.Node, element: str) -> tuple[str, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._report(node, element, f"is not valid, allowed is a list; {AccessTokenText().allowed}")
            return ()
        found: dict[str, str] = {}
        for at, listed in enumerate(node.value):
            place = f"{element}[{at}]"
            try:
                # What is wrong is not repeated: it may be a token in the wrong place.
                text = AccessTokenText().parse(listed.value if isinstance(listed, yaml.ScalarNode) else "")
            except ValueError as error:
                why = f"{error}, " if str(error) else "is not valid, "
                self._report(listed, place, f"{why}allowed is {AccessTokenText().allowed}")
                continue
            token_name = text.partition("$")[0]
            if token_name in found:
                self._report(listed, place, f"a second token {token_name}")
            found[token_name] = text
        return tuple(found.values())

    def _groups(self, node: yaml.Node, element: str) -> frozenset[str]:
        """Read one name or a list of them."""
        found: set[str] = set()
        listed = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for at, inner in enumerate(listed):
            try:
                found.add(str(self._value(inner, GroupName())))
            except ValueError as error:
                self._report(inner, f"{element}[{at}]" if node is not inner else element, str(error))
        return frozenset(found)

    def _listed(self, node: yaml.Node, element: str, example: str) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the entries of a list."""
        if isinstance(node, yaml.ScalarNode) and node.tag == _NULL_TAG:
            return
        if not isinstance(node, yaml.SequenceNode):
            self._report(node, element, f"{self._seen(node)}, allowed is a list of entries as in '{example}'")
            return
        for at, entry in enumerate(node.value):
            yield f"{element}[{at}]", entry

    def _read_permission(self, node: yaml.Node, element: str) -> None:
        pattern: Pattern | None = None
        kinds = BOTH
        grants: dict[Action, frozenset[str]] = {}
        unites = False
        sources: dict[str, str] = {}
        problem_count = len(self.document.problems)
        keys: set[str] = set()
        for key, inner in self._entries(node, element, PERMISSION_KEYS):
            keys.add(key)
            if key in ENTRY_KEYS:
                pattern, kinds = self._matching(key, inner, f"{element}.{key}", pattern, kinds)
                continue
            if key == UNITES_KEY:
                unites = self._value_or(inner, f"{element}.{key}", Boolean(), False)
                continue
            groups = self._groups(inner, f"{element}.{key}")
            for action in GRANTS[key]:
                grants[action] = groups
                sources[action] = self._place(inner)
        for key in ADMIN_PARTS if ADMIN in keys else ():
            if key in keys:  # the order of the keys would decide
                self._report(
                    node,
                    element,
                    f"'{ADMIN}' and '{key}' both grant {key}; allowed is '{ADMIN}' alone, or 'create' and 'delete' "
                    "without it",
                )
        if pattern is not None:
            self.document.permissions.append(Permission(pattern, kinds, grants, unites, sources))
        elif len(self.document.problems) == problem_count:
            self._report(node, element, "lacks 'match', the name or pattern that the entry is for")

    def _read_virtual_topic(self, node: yaml.Node, element: str) -> None:
        topic = VirtualTopic()
        pattern, prefix, is_selective = topic.pattern, topic.prefix, topic.is_selective
        for key, inner in self._entries(node, element, VIRTUAL_TOPIC_KEYS):
            try:
                if key == "match":
                    parsed = self._value(inner, AddressPattern())
                    assert isinstance(parsed, Pattern), f"AddressPattern gave {type(parsed)}"
                    pattern = parsed.text
                elif key == "prefix":
                    prefix = str(self._value(inner, QueuePrefix()))
                else:
                    is_selective = bool(self._value(inner, Boolean()))
            except ValueError as error:
                self._report(inner, f"{element}.{key}", str(error))
        assert self.document.virtual_topics is not None, "an entry belongs to a list"
        self.document.virtual_topics.append(VirtualTopic(pattern, prefix, is_selective))

    def _read_destination(self, node: yaml.Node, element: str) -> None:
        try:
            found = self._value(node, DestinationName())
        except ValueError as error:
            self._report(node, element, str(error))
            return
        assert isinstance(found, tuple), f"Destination gave {type(found)}"
        self.document.add_destination(*found)

    def _read_address(self, node: yaml.Node, element: str) -> None:
        pattern: Pattern | None = None
        kinds = BOTH
        values: dict[str, object] = {}
        sources: dict[str, str] = {}
        problem_count = len(self.document.problems)
        group = ""
        for key, inner in self._entries(node, element, ADDRESS_KEYS):
            inner_element = f"{element}.{key}"
            if key in ENTRY_KEYS:
                pattern, kinds = self._matching(key, inner, inner_element, pattern, kinds)
            elif key == GROUP_KEY:
                group = self._value_or(inner, inner_element, GroupName(), "")
            else:
                self._read_one(inner_element, inner, ADDRESS[key], values, sources, key)
        if pattern is not None:
            by_path = {leaf_at(ADDRESS, key).path: place for key, place in sources.items()}
            self.document.addresses.append(AddressEntry(pattern, kinds, values, by_path, group, self._place(node)))
        elif len(self.document.problems) == problem_count:
            self._report(node, element, "lacks 'match', the name or pattern that the entry is for")

    def _matching(
        self, key: str, node: yaml.Node, element: str, pattern: Pattern | None, kinds: int
    ) -> tuple[Pattern | None, int]:
        """Read what an entry is for: ``match`` or ``kind``; return both as known so far."""
        try:
            if key == "kind":
                return pattern, _KIND_BITS[str(self._value(node, Choice(*_KIND_BITS)))]
            parsed = self._value(node, AddressPattern())
            assert isinstance(parsed, Pattern), f"AddressPattern gave {type(parsed)}"
            return parsed, kinds
        except ValueError as error:
            self._report(node, element, str(error))
            return pattern, kinds

    def _entries(
        self, node: yaml.Node, element: str, accepted: Collection[str] | None
    ) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the sound entries of a mapping and report the others.  accepted: None for any key."""
        if isinstance(node, yaml.ScalarNode) and node.tag == _NULL_TAG and accepted is not None:
            return  # ``stomp:`` with everything below it commented out
        if not isinstance(node, yaml.MappingNode):
            keys = f" with the keys {', '.join(accepted)}" if accepted is not None else ""
            self._report(node, element, f"{self._seen(node)}, allowed is a mapping{keys}")
            return
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._report(key_node, element, f"{self._seen(key_node)} as a key, allowed is a name")
                continue
            key = str(key_node.value)
            inner_element = f"{element}.{key}" if element else key
            if key in first_lines:
                self._report(key_node, inner_element, f"repeated key, first on line {first_lines[key]}")
                continue
            first_lines[key] = key_node.start_mark.line + 1
            if accepted is not None and key not in accepted:
                self._report(key_node, inner_element, str(unknown_key(key, accepted)))
                continue
            yield key, value_node

    def _value_or(self, node: yaml.Node, element: str, kind: Kind, otherwise: T) -> T:
        """Return the value, or ``otherwise`` after reporting what is wrong with it."""
        try:
            value = self._value(node, kind)
        except ValueError as error:
            self._report(node, element, str(error))
            return otherwise
        assert isinstance(value, type(otherwise)), f"{kind} gave {type(value)}"
        return value

    def _value(self, node: yaml.Node, kind: Kind) -> object:
        if not isinstance(node, yaml.ScalarNode):
            raise ValueError(f"{self._seen(node)}, allowed is {kind.allowed}")
        if node.tag != _NULL_TAG:
            return parse_text(kind, node.value)
        if node.value == "" or not kind.takes_null:  # a key with nothing behind it is more often forgotten than meant
            raise ValueError(f"{self._seen(node)}, allowed is {kind.allowed}")
        return parse_text(kind, "null")

    def _seen(self, node: yaml.Node) -> str:
        if isinstance(node, yaml.MappingNode):
            return "a mapping"
        if isinstance(node, yaml.SequenceNode):
            return "a list"
        return repr(node.value) if node.value else "nothing"

    def _place(self, node: yaml.Node) -> str:
        return self.document.place(node.start_mark.line + 1)

    def _report(self, node: yaml.Node, element: str, text: str) -> None:
        self.report_at(node.start_mark.line + 1, element, text)
