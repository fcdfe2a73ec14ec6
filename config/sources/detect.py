"""Which format a file is in, by its content: YAML, or the XML of one of the brokers."""

from __future__ import annotations

from typing import Final, Literal

from config.sources import yaml
from config.sources.document import Document

Format = Literal["penstock.yaml"]

_BYTE_ORDER_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def read(source: str, content: bytes) -> Document:
    """Return what ``content`` says.  source: the name of the file, for texts."""
    return yaml.read(source, content)
