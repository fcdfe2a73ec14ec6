"""A gateway with users, permissions, every kind of address and tight limits, for hostile clients."""

from __future__ import annotations

from typing import Final

from config.scram import hash_password

HONEST: Final = ("alice", "alice's password")
HOSTILE: Final = ("mallory", "mallory's password")
HOSTILE_ADDRESS: Final = "127.0.0.9"  # honest clients come from 127.0.0.1
CONNECTIONS_PER_ADDRESS: Final = 60
ITERATIONS: Final = 4096

# Each kind of address with its settings.  Only the honest clients may use ``honest.>``.
ADDRESSES: Final = """\
addresses:
  - match: ">"
    redelivery: {maximum-redeliveries: 2, initial-redelivery-delay-ms: 30, redelivery-delay-ms: 60}
    max-expiry-delay-ms: 60s
  - match: "honest.>"
    max-expiry-delay-ms: -1
    redelivery: {maximum-redeliveries: -1}  # anybody may read the dead-letter queue
  - {match: "honest.told.>", advisories: {delivery: true, consumed: true, include-body: true}}
  - {match: "block.>", max-size-messages: 20, address-full-policy: BLOCK, block-timeout-ms: 300}
  - {match: "wait.>", max-size-bytes: 8 KiB, address-full-policy: BLOCK, max-size-bytes-reject-threshold: 64 KiB}
  - {match: "fail.>", max-size-messages: 20, address-full-policy: FAIL}
  - {match: "drop.>", max-size-bytes: 16 KiB, address-full-policy: DROP}
  - {match: "page.>", max-size-bytes: 16 KiB, page-limit-messages: 200, page-full-policy: DROP}
  - {match: "ring.>", ring-size: 5}
  - {match: "last.>", last-value-queue: true, last-value-key: key}
  - {match: "stays.>", non-destructive: true, max-expiry-delay-ms: 500}
  - {match: "purge.>", purge-on-no-consumers: true}
  - {match: "alone.>", exclusive-queue: true, group-first-key: first}
  - {match: "group.>", group-rebalance: true, group-buckets: 8, group-idle-timeout-ms: 200}
  - {match: "auto.>", auto-delete: true, auto-delete-message-count: 3}
  - {match: "gate.>", consumers-before-dispatch: 2, delay-before-dispatch-ms: 300}
  - {match: "few.>", max-consumers: 1, prioritized-messages: false}
  - {match: "strict.>", strict-order-dispatch: true, prefetch-top-up: each-ack, log-non-persistent: true}
  - {match: "past.>", retroactive-message-count: 5, retroactive: {always: true}}
  - match: "pending.>"
    pending-message-limit: {strategy: constant, limit: 10, eviction: unique-property, eviction-property: key}
    advisories: {slow-consumers: true, discarding-messages: true, delivery: true, consumed: true, include-body: true}
  - match: "slow.>"
    abort-slow-consumers: {strategy: slow, check-period-ms: 200, max-slow-duration-ms: 400}
  - {match: "rate.>", consumer-max-rate: 50, producer-max-rate: 100}
  - {match: "expiring.>", expiry-delay-ms: 200, expiry-queues: {strategy: individual}}
  - match: "dead.>"
    redelivery: {maximum-redeliveries: 0, initial-redelivery-delay-ms: 0}
    dead-letters: {strategy: individual, use-queue-for-topic-messages: false}
  - match: "back.>"
    redelivery: {maximum-redeliveries: 4, initial-redelivery-delay-ms: 10, use-exponential-back-off: true,
                 non-blocking-redelivery: false, blame: all}
"""
KINDS: Final = (
    *("plain", "block", "wait", "fail", "drop", "page", "ring", "last", "stays", "purge", "alone", "group", "auto"),
    *("gate", "few", "strict", "past", "pending", "slow", "rate", "expiring", "dead", "back"),
)
# More than the crowd can fill.  Memory is one budget for all: a client that fills it makes every producer wait.
AMPLE: Final = "64 MiB"
TIGHT: Final = "4 MiB"
LIMITS: Final = """\
destinations-max: 400
temporary-destinations-max: 10
expire-messages-period: 200ms
store:
  segment-bytes: 256 KiB
  retention: {time: 1s, bytes: 4 MiB}
  compaction: {min-age: 1s}
schedule: {max-count: 5000}
stomp:
  limits: {header-count: 60, header-line-bytes: 4 KiB, body-bytes: 256 KiB, frame-time-ms: 2s, connect-time-ms: 2s,
           subscriptions: 40, transactions: 4, transaction-actions: 100, transaction-bytes: 256 KiB,
           unread-output-bytes: 64 KiB, block-park-bytes: 64 KiB, block-park-max-bytes: 256 KiB,
           disconnect-time-ms: 2s, write-stall-time-ms: 3s}
amqp:
  limits: {max-frame-size: 16 KiB, body-bytes: 256 KiB, partial-bytes: 512 KiB, channel-max: 15, handle-max: 63,
           links: 100, idle-time-ms: 20s, frame-time-ms: 2s, delivery-time-ms: 3s, connect-time-ms: 2s,
           incoming-window: 64, link-credit: 50, transactions: 4, transaction-actions: 100,
           transaction-bytes: 256 KiB, unread-output-bytes: 64 KiB, block-park-bytes: 64 KiB,
           block-park-max-bytes: 256 KiB}
openwire:
  limits: {idle-time-ms: 20s, frame-time-ms: 2s, connect-time-ms: 2s}
"""


def hostile_config(dialect: str = "penstock", memory: str = AMPLE) -> str:
    """Return the text of a YAML file."""
    connections = f"limits: {{connection-memory: 2 MiB, connections-per-address: {CONNECTIONS_PER_ADDRESS}}}\n"
    limits = LIMITS.replace("stomp:\n", f"stomp:\n  dialect: {dialect}\n", 1)
    return f"memory-limit-bytes: {memory}\n" + _users() + connections + limits + ADDRESSES


def stock_config(dialect: str) -> str:
    """Return the same with the limits that a gateway has of itself."""
    return _users() + f"stomp: {{dialect: {dialect}}}\n" + ADDRESSES


def _users() -> str:
    users = "users:\n"
    for (name, password), group in ((HONEST, "honest"), (HOSTILE, "others")):
        users += f"  {name}:\n    groups: [{group}]\n    verifiers:\n"
        users += "".join(f"      - {verifier}\n" for verifier in hash_password(password, ITERATIONS))
    permissions = 'permissions:\n  - {match: ">", read: "*", write: "*", admin: "*"}\n'
    permissions += '  - {match: "honest.>", read: honest, write: honest, admin: honest}\n'
    return users + permissions
