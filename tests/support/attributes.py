"""The attributes of an object, for tests that compare all of them; compiled classes have no ``__slots__``."""

from __future__ import annotations


def attributes(thing: object) -> dict[str, object]:
    names = [name for name in dir(type(thing)) if not name.startswith("_")]
    return {name: value for name in names if not callable(value := getattr(thing, name))}
