"""What Artemis makes at its first mention: its options about that, each inherited from broader settings by itself.

Artemis makes a queue only if its address may be made, too.  An address-setting says one of both and inherits the other.
So its entry here has what follows from both; the plain rule of config.matching would see the narrower one only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from config.matching import BOTH, QUEUE, TOPIC, Pattern, precedence
from config.sources.artemis_address_options import AUTO_CREATE_PATH
from config.sources.xml import Element
from config.sources.xml_option import Taken


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """What one address-setting says.  said: QUEUE, TOPIC, or BOTH for addresses -> its value; a false decides."""

    pattern: Pattern
    kinds: int
    setting: Element
    said: dict[int, Taken] = field(default_factory=dict)

    def say(self, about: int, taken: Taken) -> None:
        if about not in self.said or _is_allowed(self.said[about]):
            self.said[about] = taken


def entries(settings: Sequence[AutoCreate]) -> Iterator[tuple[AutoCreate, int, Taken]]:
    """Return the entries of all settings of a file, each with its kind and value."""
    settings = [one for one in settings if one.said]
    patterns = [one for one in settings if not one.pattern.is_exact]
    exact: dict[tuple[str, ...], list[AutoCreate]] = {}
    for one in settings:
        if one.pattern.is_exact:
            exact.setdefault(one.pattern.elements, []).append(one)
    for one in settings:
        broader = [other for other in patterns if other.pattern.covers(one.pattern)]
        broader += exact.get(one.pattern.elements, ())
        broader.sort(key=lambda other: precedence(other.pattern, other.kinds))
        for kind in (QUEUE, TOPIC):
            if not kind & one.kinds or one.said.keys().isdisjoint((kind, BOTH)):
                continue
            in_force = {about: taken for other in broader if kind & other.kinds for about, taken in other.said.items()}
            values = [in_force[about] for about in (BOTH, kind) if about in in_force]
            yield one, kind, next((taken for taken in values if not _is_allowed(taken)), values[-1])


def _is_allowed(taken: Taken) -> bool:
    return taken.values[AUTO_CREATE_PATH] is True
