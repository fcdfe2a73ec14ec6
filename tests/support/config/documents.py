"""Short files of other brokers, and the settings that they become."""

from __future__ import annotations

from config.matching import QUEUE, AddressMatcher
from config.policies import AddressSettings
from config.sources.detect import read
from config.sources.document import Document


def activemq(inner: str) -> Document:
    """Read a broker with ``inner`` from the third line on."""
    text = (
        '<beans xmlns="http://www.springframework.org/schema/beans">\n'
        f'<broker xmlns="http://activemq.apache.org/schema/core">\n{inner}\n</broker></beans>\n'
    )
    return read("activemq.xml", text.encode())


def policies(inner: str) -> Document:
    """Read a broker with these policyEntries."""
    return activemq(
        f"<destinationPolicy><policyMap><policyEntries>{inner}</policyEntries></policyMap></destinationPolicy>"
    )


def plugins(inner: str) -> Document:
    """Read a broker with these plugins."""
    return activemq(f"<plugins>{inner}</plugins>")


def artemis(inner: str) -> Document:
    """Read a core with ``inner`` from the second line on."""
    text = f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">\n{inner}\n</core></configuration>'
    return read("broker.xml", text.encode())


def hornetq(inner: str) -> Document:
    """Read a configuration with ``inner`` from the second line on."""
    return read("hornetq.xml", f'<configuration xmlns="urn:hornetq">\n{inner}\n</configuration>'.encode())


def setting(match: str, inner: str) -> str:
    """Return address settings with one entry, for ``artemis`` and ``hornetq``."""
    return f"<address-settings><address-setting match='{match}'>{inner}</address-setting></address-settings>"


def settings(document: Document, name: str, kind: int = QUEUE) -> AddressSettings:
    """Return the effective settings of a destination; the document must have no problems."""
    assert document.problems == []
    return AddressMatcher(document.addresses).settings_for(kind, name)


def problems(document: Document) -> list[str]:
    return [str(problem) for problem in document.problems]


def notes(document: Document) -> list[str]:
    return [str(note) for note in document.notes]
