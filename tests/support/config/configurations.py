"""Texts of YAML files for gateways under test."""

from __future__ import annotations

from config.scram import hash_password


def quick_redelivery(maximum_redeliveries: int) -> str:
    """Redeliveries after 20 ms, so that a test need not wait for the default of a second."""
    return f"""\
addresses:
  - match: ">"
    redelivery:
      maximum-redeliveries: {maximum_redeliveries}
      initial-redelivery-delay-ms: 20
      redelivery-delay-ms: 20
"""


def with_user(name: str, password: str) -> str:
    """One user; few iterations, so that a login costs nothing."""
    verifiers = "".join(f"      - {verifier}\n" for verifier in hash_password(password, iterations=4096))
    return f"users:\n  {name}:\n    verifiers:\n{verifiers}"


def tight_limits() -> str:
    """STOMP limits that a test can pass quickly.  The times are long for clients that mean to keep them."""
    return """\
stomp:
  limits:
    header-count: 20
    header-line-bytes: 1 KiB
    body-bytes: 64 KiB
    frame-time-ms: 2000
    connect-time-ms: 2000
"""


def small_segments() -> str:
    """Segments of 1 MiB: a load of seconds crosses many of their borders."""
    return """\
store:
  segment-bytes: 1 MiB
"""
