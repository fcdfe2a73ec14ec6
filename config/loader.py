"""Files and flags -> one ServerConfig; the only place of ``config`` that touches the world."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from config.errors import ConfigError, Problem
from config.matching import AddressEntry, with_values
from config.model import ServerConfig
from config.schema import SERVER, leaf_at, parse_text


def load_config(path: str | None = None, flags: Mapping[str, tuple[str, str]] | None = None) -> ServerConfig:
    """Return the settings of the file at ``path``, if any, with ``flags`` above them.

    flags: dotted key as in the file -> (text of the value, name of the flag), as ``listeners.stomp`` ->
    ``("tcp://127.0.0.1:0", "--stomp")``.
    Raises: ConfigError with everything that is wrong.
    """
    values: dict[str, object] = {}
    users: dict[str, tuple[str, ...]] = {}
    addresses: list[AddressEntry] = []
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    if path is not None:
        # Reading YAML costs a tenth of the start-up, so it is paid for only where there is a file.
        from config.sources import yaml

        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError([Problem(path, 0, "", f"cannot be read: {error.strerror}")]) from error
        document = yaml.read(path, content)
        values, users, addresses = document.values, document.users, document.addresses
        sources, problems = document.sources, document.problems
    for key, (text, flag) in (flags or {}).items():
        leaf = leaf_at(SERVER, key)
        try:
            values[leaf.path] = parse_text(leaf.kind, text)
            sources[key] = flag
        except ValueError as error:
            problems.append(Problem(flag, 0, "", str(error)))
    config = with_values(ServerConfig(), values)
    problems.extend(_contradictions(config, sources))
    if problems:
        raise ConfigError(problems)
    return with_values(
        config,
        {
            "users": MappingProxyType(users),
            "addresses": tuple(addresses),
            "sources": MappingProxyType(sources),
        },
    )


def _contradictions(config: ServerConfig, sources: Mapping[str, str]) -> list[Problem]:
    """Return what is wrong only in combination."""
    limits = config.stomp.limits
    if limits.block_park_max_bytes < limits.block_park_bytes:
        key = "stomp.limits.block-park-max-bytes"
        if key not in sources:
            key = "stomp.limits.block-park-bytes"
        place, _, line = sources[key].rpartition(":")  # only a file sets these: ``file:line``
        text = f"block-park-max-bytes {limits.block_park_max_bytes} is below block-park-bytes {limits.block_park_bytes}"
        return [Problem(place, int(line), key, text)]
    return []
