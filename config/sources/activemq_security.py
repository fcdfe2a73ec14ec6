"""Users and permissions of activemq.xml."""

from __future__ import annotations

from typing import Final

from config.matching import BOTH
from config.names import UserName
from config.permissions import Action, Permission
from config.sources import activemq_options as options
from config.sources.activemq_policies import EVERYTHING, patterns_of
from config.sources.document import Document
from config.sources.xml import Element
from config.sources.xml_option import PLACEHOLDER, names_in, report_unknown, take_attributes

_ADMIN: Final[tuple[Action, ...]] = ("create", "delete")


def read_users(document: Document, element: Element) -> None:
    take_attributes(document, options.AUTHENTICATION, element)
    for user in (found for listed in element.all("users") for found in listed.children):
        name = user.attributes.get("username", "")
        password = user.attributes.get("password", "")
        unknown = user.attributes.keys() - {"username", "password", "groups"}
        if user.name != "authenticationUser" or unknown:
            report_unknown(document, user, "users", ("authenticationUser with username, password, groups",))
            continue
        # Neither is repeated in a text, as it may be a password in the wrong place.
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
            document.report(user.line_of("password"), user.name, "password: is empty or missing")
            continue
        document.passwords[login] = password
        document.groups[login] = names_in(user.attributes.get("groups", ""))
        document.sources[f"users.{login}"] = document.place(user.line)


def read_permissions(document: Document, element: Element) -> None:
    entries = [
        entry
        for holder in element.all("map")
        for authorization in holder.children
        for entry in _authorization_entries(document, authorization)
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
                document.report(entry.line_of(name), entry.name, f"{name}: {text!r} is a placeholder; write the value")
            for action in actions:
                grants[action] = names_in(text)
                sources[action] = document.place(entry.line_of(name))
        patterns = patterns_of(document, entry)
        if entry.name == "defaultEntry":
            patterns = [(EVERYTHING, BOTH)]
        if not patterns and not document.problems:
            document.report(entry.line, entry.name, "names neither a queue nor a topic, so it cannot be enforced")
        for pattern, kinds in patterns:
            document.permissions.append(Permission(pattern, kinds, grants, True, sources))


def _authorization_entries(document: Document, authorization: Element) -> list[Element]:
    if authorization.name != "authorizationMap" or "groupClass" in authorization.attributes:
        text = "cannot be enforced here; allowed is an authorizationMap with authorizationEntries, without groupClass"
        document.report(authorization.line, authorization.name, text)
        return []
    entries: list[Element] = []
    for child in authorization.children:
        if child.name == "authorizationEntries":
            entries.extend(child.children)
        elif child.name == "tempDestinationAuthorizationEntry":
            if not _is_for_everybody(child):
                text = "cannot be enforced: whoever may log in may have temporary destinations; allowed is '*' for all"
                document.report(child.line, child.name, text)
        else:
            text = "cannot be enforced; allowed are authorizationEntries and tempDestinationAuthorizationEntry"
            document.report(child.line, child.name, text)
    for entry in entries:
        if entry.name != "authorizationEntry":
            document.report(entry.line, entry.name, "cannot be enforced; allowed is authorizationEntry")
    return [entry for entry in entries if entry.name == "authorizationEntry"]


def _is_for_everybody(element: Element) -> bool:
    inner = element.first(element.name) or element
    return all(inner.attributes.get(action) == "*" for action in ("read", "write", "admin"))
