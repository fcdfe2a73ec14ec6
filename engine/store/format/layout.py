"""Every on-disk layout: octets <-> values.  ``docs/reference/log-format.md`` describes it in words.

All integers are little-endian.  Records start at multiples of 8 and follow each other without gaps other than the
padding to the next multiple of 8.

Record header, 40 octets:

    at  size  field
     0     4  size         octets of the record with this header, without padding; 0: the segment ends here
     4     4  crc          CRC-32C of octets 8 to ``size``
     8     1  type         MESSAGE, SETTLEMENT, ...
     9     1  encoding     of a message: engine.values.message.STOMP, AMQP_1_0; else 0
    10     2  flags        engine.values.message.PERSISTENT, ...
    12     4  destination  number of the destination, 0 for none
    16     8  offset       log offset of this record
    24     8  sequence     number of the record in the log, from 1, without gaps
    32     8  store time   wall clock, ms, never decreasing

Message, 40 octets after the header, then annotations, headers, body, contiguous:

    40     4  annotations length
    44     4  headers length
    48     4  body length
    52     1  priority     0 to 9
    53     1  -            0
    54     2  -            0
    56     4  tag hash     CRC-32C of JMSType, 0 for none
    60     4  group hash   CRC-32C of JMSXGroupID, 0 for none
    64     8  expires      wall clock, ms, 0 for never
    72     8  queue offset index of its entry in the consume queue of (destination, priority)
    80        annotations, headers, body

Settlement and failed attempts, 24 octets after the header, then ranges of 16; the header's destination is the queue's
or durable subscription's number:

    40     4  -            0
    44     4  consumer     number of the consumer's metadata record, 0 for the engine itself
    48     1  outcome      of a settlement: engine.ports.ACKNOWLEDGED, ...; else 0
    49     1  cause        engine.ports.CAUSE_...
    50     2  -            0
    52     4  range count
    56     8  due          of failed attempts: wall ms before which they wait, 0 for none
              freed        of a settlement: by how many octets it reduces the live bytes of the queue or topic
    64        ranges: first (8), count (4), priority (1), - (1), delivery count (2)

Consume-queue entry, 40 octets:

     0     8  log offset
     8     4  size         of the record, without padding
    12     1  flags        low octet of the message's flags
    13     1  priority
    14     1  type         of the record, for the system queue (destination 0)
    15     1  check        complement of the flags, 0 in entries of earlier versions
    16     4  tag hash     for the system queue: the destination that the record concerns
    20     4  group hash   for the system queue: ``listing_check``, 0 in entries of earlier versions
    24     8  expires
    32     8  store time

Commit, 16 octets after the header:

    40     8  sequence of the transaction's first record
    48     4  number of its records, this one not counted
    52     4  -            0

Destination, subscription, close, consumer and snapshot records carry compact JSON in UTF-8 after the header:
docs/reference/log-format.md.

Segment file: 4096 octets of header, then the log; log offset o is at 4096 + (o - base):

     0     8  magic        ``PENSTKLG``
     8     4  version      SPARSE_VERSION with the flag SPARSE
    12     4  flags        CONTINUATION, SPARSE
    16     8  base         log offset of the first record
    24     8  capacity     octets of log that the file can hold
    32     8  created      wall clock, ms
    40    16  store id     ASCII, zero-padded
    56     4  crc          CRC-32C of octets 0 to 56
   512     8  end          seal: the segment holds no record at or above this offset; all zero: not sealed
   520     8  sequence     seal: number of the next record
   528     4  crc          CRC-32C of octets 512 to 528

A sparse segment holds some of the records that were in it, one after the other from 4096 on, each padded; the sorted
table says which log offsets are where:

  1024     8  position of the table
  1032     8  runs in the table
  1040     8  messages among the records
  1048     4  crc          CRC-32C of the table
  1052     4  crc          CRC-32C of octets 1024 to 1052

A run is 24 octets: log offset (8), position in the file (8), octets (8).

Checkpoint: two slots of 512 octets, written alternately; the valid one with the higher generation counts:

     0     8  magic        ``PENSTKCP``
     8     4  version      SCHEDULE_VERSION or PREPARED_VERSION once something was scheduled or prepared
    12     4  flags        CLEAN_STOP
    16     8  generation
    24     8  durable offset
    32     8  durable store time
    40     8  next sequence, at the durable offset
    48     8  consume-queue offset: entries of records below it are on the disk
    56     8  first offset, the oldest that is kept
    64     8  start count
    72     4  crc          CRC-32C of octets 0 to 72

Key index file: 128 octets of header, the slots, the entries.  An index says where messages with a key may be; it is
derived from the log and may be deleted:

     0     8  magic        ``PENSTKIX``
     8     4  version
    12     4  flags        INDEX_STOPPED, INDEX_SEALED
    16     8  begin        the messages of log offsets from here on are in it
    24     8  end          up to here
    32     8  store time of its first entry, 0 without one
    40     8  store time of its last entry, 0 without one
    48     4  slots
    52     4  entries that fit
    56     4  entries
    60     4  -            0
    64    16  store id     ASCII, zero-padded
    80     4  crc          CRC-32C of octets 0 to 80
   128        slots, 4 octets each: number of the slot's newest entry, from 1; 0: none
              entries: hash of the key (4), number of the slot's next older entry (4), log offset (8), store time (8)

A key's hash is the CRC-32C of its UTF-8, its slot the hash modulo the number of slots.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from engine.values.destination import PREPARED_QUEUE, SCHEDULE_QUEUE

# Files carry the lowest version that a reader must support to understand them.
FORMAT_VERSION: Final = 1
SPARSE_VERSION: Final = 2  # of a sparse segment
SCHEDULE_VERSION: Final = 3  # of the checkpoint of a store that has held scheduled messages
PREPARED_VERSION: Final = 4  # of the checkpoint of a store that has held prepared transactions
NEWEST_VERSION: Final = 4  # the newest supported version
# The lowest version whose readers know what the messages of an internal queue mean, and that they are for nobody.
QUEUE_VERSIONS: Final = {SCHEDULE_QUEUE: SCHEDULE_VERSION, PREPARED_QUEUE: PREPARED_VERSION}

# Record types.
MESSAGE: Final = 1
SETTLEMENT: Final = 2
ATTEMPTS: Final = 3
COMMIT: Final = 4
DESTINATION: Final = 5
CONSUMER: Final = 6
SNAPSHOT: Final = 7
SUBSCRIPTION: Final = 8
CLOSE: Final = 10

RECORD_NAMES: Final = {
    MESSAGE: "message",
    SETTLEMENT: "settlement",
    ATTEMPTS: "attempts",
    COMMIT: "commit",
    DESTINATION: "destination",
    CONSUMER: "consumer",
    SNAPSHOT: "snapshot",
    SUBSCRIPTION: "subscription",
    CLOSE: "close",
}

RECORD_HEADER: Final[Struct] = Struct("<IIBBHIQQq")
RECORD_HEADER_BYTES: Final = 40
RECORD_REST: Final = Struct("<BBHIQQq")  # the header without size and crc: what the checksum covers first
MESSAGE_FIXED: Final[Struct] = Struct("<IIIBBHIIqQ")
MESSAGE_FIXED_BYTES: Final = 40
MESSAGE_HEAD_BYTES: Final = RECORD_HEADER_BYTES + MESSAGE_FIXED_BYTES
# Both in one call, without size and crc: what the checksum covers first.
MESSAGE_HEAD: Final[Struct] = Struct("<BBHIQQqIIIB3xIIqQ")
SIZE_AND_CRC: Final[Struct] = Struct("<II")
MESSAGE_RECORD: Final[Struct] = Struct("<IIBBHIQ8xqIIIB3xIIqQ")  # all of it but the sequence
SETTLEMENT_FIXED: Final[Struct] = Struct("<IIBBHIq")
SETTLEMENT_FIXED_BYTES: Final = 24
RANGE: Final[Struct] = Struct("<QIBBH")
RANGE_BYTES: Final = 16
# The same for a settlement of one range, by far the most frequent.
ONE_RANGE_SETTLEMENT: Final = Struct("<BxHIQQq4xIBB2xIqQIB3x")
ONE_RANGE_SETTLEMENT_BYTES: Final = 80
ENTRY: Final[Struct] = Struct("<QIBBBBIIqq")
ENTRY_BYTES: Final = 40
SETTLEMENT_ENTRY: Final = Struct("<QIBxBBII8xq")  # the same, of a settlement: the rest is zeros
CHECK_AT: Final = 15  # in an entry
LISTING_CHECK_AT: Final = 20
ENTRY_PLACE: Final = Struct("<QI28x")  # of an entry, where its record is
ENTRIES_PER_FILE: Final = 262_144  # a consume-queue file ends before the next multiple of this
COMMIT_FIXED: Final[Struct] = Struct("<QII")

SEGMENT_MAGIC: Final = b"PENSTKLG"
SEGMENT_HEADER: Final = Struct("<8sIIQQq16s")  # crc apart
SEGMENT_HEADER_BYTES: Final = 4096  # where the log begins in the file
CONTINUATION: Final = 1  # flag: begins inside the segment before it, opens without a snapshot
SPARSE: Final = 2  # flag: records were taken out
SEAL: Final = Struct("<QQ")  # crc apart
SEAL_POSITION: Final = 512
SPARSE_HEAD: Final[Struct] = Struct("<QQQI")  # crc apart
SPARSE_HEAD_POSITION: Final = 1024
RUN: Final = Struct("<QQQ")
CHECKPOINT_MAGIC: Final = b"PENSTKCP"
CHECKPOINT: Final = Struct("<8sIIQQqQQQQ")  # crc apart
CHECKPOINT_SLOT_BYTES: Final = 512
CLEAN_STOP: Final = 1  # flag
CRC: Final[Struct] = Struct("<I")
INDEX_MAGIC: Final = b"PENSTKIX"
INDEX_HEADER: Final = Struct("<8sIIQQqqIIII16s")  # crc apart
INDEX_HEADER_BYTES: Final = 128  # where the slots begin
INDEX_STOPPED: Final = 1  # flag: whole on the disk, not being written
INDEX_SEALED: Final = 2  # flag: the same, and never written again
INDEX_SLOT_BYTES: Final = 4
INDEX_ENTRY: Final = Struct("<IIQq")

SYSTEM_QUEUE: Final = 0  # destination number of the consume queue of all records that are not messages
ALIGNMENT: Final = 8
LANE_SHIFT: Final = 4  # a lane, destination and priority in one number: destination << LANE_SHIFT | priority


def listing_check(record_type: int, destination_id: int) -> int:
    """Return what shows a changed bit in an entry of the system queue: readers choose records by these two."""
    return record_type ^ destination_id ^ 0xFFFFFFFF


def padded(size: int) -> int:
    """Return ``size`` rounded up to the alignment of records."""
    return (size + 7) & ~7
