"""Errors -> the Java exceptions that clients load by name.

JMS stands for ``javax.jms`` (clients 5.x) or ``jakarta.jms`` (6.x and above).
"""

from __future__ import annotations

from typing import Final

from engine.values.errors import PenstockError
from protocols.openwire.wire.identities import Throwable

JMS: Final = "JMS"
JAVAX: Final = "javax.jms"
JAKARTA: Final = "jakarta.jms"
JAKARTA_SINCE: Final = 6  # the first digit of ProviderVersion

_OTHERWISE: Final = "JMS.JMSException"
CLASSES: Final[dict[str, str]] = {
    "login-refused": "java.lang.SecurityException",
    "access-denied": "java.lang.SecurityException",
    "login-expired": "java.lang.SecurityException",
    "no-client-id": "JMS.InvalidClientIDException",
    "client-id-in-use": "JMS.InvalidClientIDException",
    "invalid-selector": "JMS.InvalidSelectorException",
    "invalid-destination": "JMS.InvalidDestinationException",
    "unknown-subscription": "JMS.InvalidDestinationException",
    "rolled-back": "JMS.TransactionRolledBackException",
    "address-full": "JMS.ResourceAllocationException",
    "limit-reached": "JMS.ResourceAllocationException",
}
_XA: Final = "javax.transaction.xa.XAException"  # of every client
# The client reads the number at the end of the message.
XA_CODES: Final[dict[str, int]] = {
    "unknown-xid": -4,  # XAER_NOTA
    "xa-protocol": -6,  # XAER_PROTO
    "xid-in-use": -8,  # XAER_DUPID
    "branch-dropped": 6,  # XA_HEURRB
    "branch-committed": 7,  # XA_HEURCOM
    "branch-rolled-back": 100,  # XA_RBROLLBACK
}


def throwable_for(error: PenstockError, package: str) -> Throwable:
    """Return the exception of an error.  package: JAVAX or JAKARTA."""
    text = str(error)
    code = XA_CODES.get(error.condition)
    if code is not None:
        return Throwable(_XA, f"{text} xaErrorCode:{code}")
    name = CLASSES.get(error.condition, _OTHERWISE)
    return Throwable(name.replace(JMS, package, 1) if name.startswith(f"{JMS}.") else name, text)


def package_for(provider_version: str) -> str:
    """Return the package of JMS' exceptions for a client.  provider_version: as in its WireFormatInfo."""
    major = provider_version.partition(".")[0]
    is_jakarta = major.isascii() and major.isdigit() and len(major) < 4 and int(major) >= JAKARTA_SINCE
    return JAKARTA if is_jakarta else JAVAX
