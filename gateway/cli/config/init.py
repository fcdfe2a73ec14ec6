"""``penstock init [FILE]``: a commented penstock.yaml to start from."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Final

from gateway.cli.shared.configuration_file import write_new
from gateway.cli.shared.parsers import CommandError, Subparsers
from gateway.process import exit_codes

# Every value is the default, except below "#": a test compares them.
TEXT: Final = """\
# The configuration of Penstock.  Everything here may be left out: each value is the default.
# docs/reference/configuration.md has all keys with their meaning, unit and range.

data: data # directory of the store, relative to where `penstock run` starts

listeners: # without users they may bind only loopback addresses
  stomp: tcp://127.0.0.1:61613 # STOMP, AMQP 1.0 and OpenWire
  amqp: null # a further address for all of them, such as tcp://127.0.0.1:5672
  openwire: null # another one, such as tcp://127.0.0.1:61616
  http: http://127.0.0.1:8161 # console, metrics, health, messages over HTTP and WebSocket

store:
  flush: sync # sync: confirmed messages survive a power cut; async: those of the last half second may not
  retention: # of consumed messages, for exports and replays; messages that wait stay in any case
    time: 72h
    bytes: 10GiB

memory-limit-bytes: 256MiB # all messages in memory

limits:
  connection-memory: 256MiB # all connections together: unread output, open transactions, partial frames
  min-disk-free: -1 # persistent messages wait below it; -1: two segments and 16 MiB
  max-disk-usage: -1 # the same above a percentage of the disk; -1: no limit

stomp:
  default-persistent: false # of a SEND without the header persistent; ActiveMQ's default
  limits:
    connections: 10000 # of all protocols
    body-bytes: 100MiB

amqp:
  limits:
    body-bytes: 100MiB

# To open listeners to the network, give them TLS, users and permissions (docs/how-to/security.md):
#
# tls:
#   certificate: /etc/penstock/gateway.pem
#   key: /etc/penstock/gateway.key
#
# `penstock user add NAME --config FILE` adds a user here.
#
# permissions:
#   - match: ">"
#     admin: operators

addresses: # all entries that match a destination are merged, the more specific one wins
  - match: ">" # every destination
    redelivery:
      maximum-redeliveries: 6 # seven deliveries in all, then the dead-letter address
      # redelivery-delay-ms: 1s # once it is set, messages of a rollback wait, too
    dead-letter-address: ActiveMQ.DLQ
    max-size-bytes: -1 # of one destination; -1: no limit
    address-full-policy: PAGE # past it: PAGE to disk, BLOCK or FAIL producers, DROP messages
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "init",
        help="write a commented penstock.yaml to start from",
        description="Write a commented configuration file with the defaults that matter, and say what to do next.  "
        "A file that exists stays as it is.",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="penstock.yaml", help="to write (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    try:
        write_new(path, TEXT)
    except FileExistsError:
        raise CommandError(f"{path} exists and stays as it is; name another file", exit_codes.FAILED) from None
    name = shlex.quote(str(path))
    print(f"wrote {path}; next:")
    print(f"  penstock check-config {name}  # shows each setting and where it comes from")
    print(f"  penstock user add NAME --config {name}  # listeners on the network need a user")
    print(f"  penstock run --config {name}")
    return exit_codes.OK
