"""Files and flags -> one ServerConfig; the only part of ``config`` that reads files."""

from __future__ import annotations

import errno
import operator
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from config.errors import ConfigError, Problem
from config.login_servers import contradictions
from config.matching import AddressEntry, with_values
from config.model import Endpoint, ServerConfig
from config.reserved_names import formed_name
from config.schema import SERVER, leaf_at, leaves, parse_text
from config.sources.document import Document

_SECRET: Final = os.urandom(32)  # of this process: files that are read again have the same verifiers

_PREFIXES: Final = {  # of destinations that are named after others, and their keys
    "dead_letters.queue_prefix": "dead-letters.queue-prefix",
    "dead_letters.topic_prefix": "dead-letters.topic-prefix",
    "expiry.queue_prefix": "expiry-queues.queue-prefix",
}


def load_config(
    paths: Sequence[str] = (), flags: Mapping[str, tuple[str, str]] | None = None, is_again: bool = False
) -> ServerConfig:
    """Return the settings of the files at ``paths``, later ones override earlier ones, and ``flags`` override all.

    flags: dotted key as in the file -> (text of the value, name of the flag), as ``listeners.stomp`` ->
    ``("tcp://127.0.0.1:0", "--stomp")``.  is_again: they were read before.
    Raises: ConfigError with every problem found.
    """
    assert not isinstance(paths, str), "paths is one path, not several"
    return merged(read_all(paths, is_again), flags)


def read_all(paths: Sequence[str], is_again: bool = False) -> list[Document]:
    """Return the settings of each file, in any format.  Raises: ConfigError for an unreadable file.

    is_again: only files, as a pipe has nothing more: it would be empty settings without permissions, or never end.
    """
    if not paths:
        return []
    # Reading YAML costs a tenth of the start-up, so it is imported only if there is a file.
    from config.sources import detect

    documents: list[Document] = []
    for path in paths:
        try:
            if is_again and os.path.exists(path) and not os.path.isfile(path):
                raise OSError(errno.EINVAL, "it is no file that can be read again")
            content = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError([Problem(path, 0, "", f"cannot be read: {error.strerror}")]) from error
        documents.append(detect.read(path, content))
    return documents


def merged(documents: Sequence[Document], flags: Mapping[str, tuple[str, str]] | None = None) -> ServerConfig:
    """Return the settings merged from ``documents``, as ``load_config`` does.  Raises: ConfigError."""
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    users: dict[str, tuple[str, ...]] = {}
    access_tokens: dict[str, tuple[str, ...]] = {}
    groups: dict[str, frozenset[str]] = {}
    problems: list[Problem] = []
    notes: list[Problem] = []
    virtual_topics = None
    for document in documents:
        values.update(document.values)
        sources.update(document.sources)
        users.update(document.users)
        users.update(_verifiers(document.passwords))
        for login in (*document.users, *document.passwords):  # the last file that names a user says all of it
            access_tokens[login] = document.access_tokens.get(login, ())
        groups.update(document.groups)
        problems.extend(document.problems)
        notes.extend(document.notes)
        if document.virtual_topics is not None:
            virtual_topics = tuple(document.virtual_topics)
    for key, (text, flag) in (flags or {}).items():
        leaf = leaf_at(SERVER, key)
        try:
            values[leaf.path] = parse_text(leaf.kind, text)
            sources[key] = flag
        except ValueError as error:
            problems.append(Problem(flag, 0, "", str(error)))
    config = with_values(ServerConfig(), values)
    config, listener_notes = _with_listeners(config, sources)
    notes.extend(listener_notes)
    problems.extend(_contradictions(config, sources))
    problems.extend(_reserved([entry for document in documents for entry in document.addresses]))
    if problems:
        raise ConfigError(problems)
    parts: dict[str, object] = {
        "users": MappingProxyType(users),
        "access_tokens": MappingProxyType({login: texts for login, texts in access_tokens.items() if texts}),
        "groups": MappingProxyType(groups),
        "permissions": tuple(entry for document in documents for entry in document.permissions),
        "addresses": tuple(entry for document in documents for entry in document.addresses),
        "destinations": tuple(dict.fromkeys(found for document in documents for found in document.destinations)),
        "sources": MappingProxyType(sources),
        "notes": tuple(notes),
    }
    if virtual_topics is not None:
        parts["virtual_topics"] = virtual_topics
    return with_values(config, parts)


def _verifiers(passwords: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    if not passwords:
        return {}
    from config.scram import LEAST_ITERATIONS, hash_password

    return {login: tuple(hash_password(password, LEAST_ITERATIONS, _SECRET)) for login, password in passwords.items()}


def _with_listeners(config: ServerConfig, sources: dict[str, str]) -> tuple[ServerConfig, list[Problem]]:
    """Apply options of listeners' URIs that concern the whole gateway; collect those without an effect."""
    notes: list[Problem] = []
    for key, leaf in leaves(SERVER).items():
        endpoint = operator.attrgetter(leaf.path)(config)
        if not isinstance(endpoint, Endpoint) or not endpoint.query:
            continue
        source, line = place_of(sources.get(key, ""))
        notes.extend(Problem(source, line, key, note) for note in endpoint.notes)
        config = with_values(config, endpoint.server_values)
        for other, set_leaf in leaves(SERVER).items():
            if set_leaf.path in endpoint.server_values:
                sources[other] = sources.get(key, "")
    return config, notes


def place_of(source: str) -> tuple[str, int]:
    """Split ``file:line``; a flag has no line."""
    name, _, line = source.rpartition(":")
    return (name, int(line)) if name and line.isdigit() else (source, 0)


def _contradictions(config: ServerConfig, sources: Mapping[str, str]) -> list[Problem]:
    """Return problems that only a combination of settings has."""
    problems: list[Problem] = []
    stomp, amqp, openwire = config.stomp.limits, config.amqp.limits, config.openwire.limits
    for protocol, most, least in (
        ("stomp", stomp.block_park_max_bytes, stomp.block_park_bytes),
        ("amqp", amqp.block_park_max_bytes, amqp.block_park_bytes),
        ("openwire", openwire.block_park_max_bytes, openwire.block_park_bytes),
    ):
        if most < least:
            key = f"{protocol}.limits.block-park-max-bytes"
            if key not in sources:
                key = f"{protocol}.limits.block-park-bytes"
            text = f"block-park-max-bytes {most} is below block-park-bytes {least}"
            problems.append(Problem(*place_of(sources[key]), key, text))
    endpoint = config.telemetry.endpoint
    if endpoint and not endpoint.startswith(("http://", "https://")):
        key = "telemetry.endpoint"
        text = f"{endpoint!r} is no URL of a collector; allowed is one as in http://127.0.0.1:4318/v1/traces"
        problems.append(Problem(*place_of(sources.get(key, "")), key, text))
    for key, text in contradictions(config.security, frozenset(sources)):
        first = "security.ldap.url" if key.startswith("security.ldap.") else "security.jwt.issuer"
        place = sources.get(key, sources.get(first, ""))
        problems.append(Problem(*place_of(place), key, text))
    return problems


def _reserved(addresses: Sequence[AddressEntry]) -> list[Problem]:
    """Return a problem for each prefix that could form the name of a queue of the gateway's own."""
    problems: list[Problem] = []
    for prefix_path, key in _PREFIXES.items():
        suffix_path = prefix_path.replace("prefix", "suffix")
        suffixes = ["", *(str(entry.values[suffix_path]) for entry in addresses if suffix_path in entry.values)]
        for entry in addresses:
            prefix = entry.values.get(prefix_path)
            name = "" if prefix is None else formed_name(str(prefix), suffixes)
            if name:
                text = f"{prefix!r} could form the name {name}, which is reserved for the gateway"
                problems.append(Problem(*place_of(entry.sources.get(prefix_path, entry.place)), key, text))
    return problems
