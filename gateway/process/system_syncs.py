"""Data syncs that Linux does by itself: asynchronous I/O of the kernel, io_submit(2), with the command FDSYNC.

A thread that waits in fdatasync needs the interpreter lock before it can say that it has ended, and it gets the lock
only when the engine's thread lets it go.  The kernel needs neither: it counts up an eventfd, which the event loop
watches like a socket.  io_uring could do the same, but containers often forbid it.

The structures are those of linux/aio_abi.h:

    iocb      u64 data, u32 key, u32 rw_flags, u16 opcode, s16 priority, u32 descriptor,
              u64 buffer, u64 size, s64 position, u64 reserved, u32 flags, u32 eventfd
    io_event  u64 data, u64 iocb, s64 result, s64 result2
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import struct
import sys
from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

# Numbers of io_setup, io_submit and io_getevents.
SYSTEM_CALLS: Final = {"x86_64": (206, 209, 208), "aarch64": (0, 2, 4), "riscv64": (0, 2, 4)}
IOCB: Final = struct.Struct("<QIIHhIQQqQII")
IO_EVENT: Final = struct.Struct("<QQqq")
COMMAND_FDSYNC: Final = 3  # since Linux 4.18
FLAG_EVENTFD: Final = 1


@mypyc_attr(allow_interpreted_subclasses=True)
class SyncEnd:
    """Hears how a sync ended, on the event loop's thread."""

    @abstractmethod
    def sync_ended(self, error: OSError | None) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class SystemSyncs:
    """One sync at a time."""

    @abstractmethod
    def start(self, descriptor: int, end: SyncEnd) -> bool:
        """Start the fdatasync of an open file, and report its end to ``end``; return False if the system refuses."""

    @abstractmethod
    def close(self) -> None:
        """Report nothing more."""


class KernelSyncs(SystemSyncs):
    """libc: with its C function ``syscall``.  calls: numbers of io_submit and io_getevents."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, libc: ctypes.CDLL, calls: tuple[int, int], context: int, eventfd: int
    ) -> None:
        self._loop = loop
        self._call = libc.syscall
        self._submit, self._get_events = (ctypes.c_long(number) for number in calls)
        self._context = ctypes.c_ulong(context)
        self._eventfd = eventfd
        self._iocb = ctypes.create_string_buffer(IOCB.size)
        self._iocbs = (ctypes.c_void_p * 1)(ctypes.addressof(self._iocb))
        self._event = ctypes.create_string_buffer(IO_EVENT.size)
        self._none, self._one = ctypes.c_long(0), ctypes.c_long(1)
        self._end: SyncEnd | None = None
        self._is_refused = self._next_event() < 0  # asked now: a sync whose end cannot be told must not be started
        loop.add_reader(eventfd, self._ready)

    def start(self, descriptor: int, end: SyncEnd) -> bool:
        assert self._end is None, "a sync is under way"
        if self._is_refused:
            return False
        IOCB.pack_into(self._iocb, 0, 0, 0, 0, COMMAND_FDSYNC, 0, descriptor, 0, 0, 0, 0, FLAG_EVENTFD, self._eventfd)
        if self._call(self._submit, self._context, self._one, self._iocbs) != 1:
            return False
        self._end = end
        return True

    def _ready(self) -> None:
        os.eventfd_read(self._eventfd)
        found = self._next_event()
        end = self._end
        if found == 0 or end is None:
            return
        self._end = None
        if found < 0:
            # A failed sync is the only safe answer, and its end stays with the kernel: start nothing more.
            self._is_refused = True
            end.sync_ended(OSError(errno.EIO, "the system does not tell how a sync ended"))
            return
        result = IO_EVENT.unpack_from(self._event)[2]
        end.sync_ended(OSError(-result, os.strerror(-result)) if result < 0 else None)

    def _next_event(self) -> int:
        """Take the end of a sync from the kernel; return 1, 0 if there is none, or -1 if that is forbidden."""
        found: int = self._call(self._get_events, self._context, self._none, self._one, self._event, None)
        return found

    def close(self) -> None:
        # The kernel's context ends with the process: io_destroy would wait for a disk that hangs.
        self._loop.remove_reader(self._eventfd)
        os.close(self._eventfd)


def kernel_syncs(loop: asyncio.AbstractEventLoop) -> SystemSyncs | None:
    """Return the kernel's syncs, None where it has none or allows none."""
    calls = SYSTEM_CALLS.get(platform.machine())
    if sys.platform != "linux" or calls is None or struct.calcsize("P") != 8:
        return None
    libc = ctypes.PyDLL(None)  # keeps the interpreter lock: no call here waits
    libc.syscall.restype = ctypes.c_long
    context = ctypes.c_ulong(0)
    if libc.syscall(ctypes.c_long(calls[0]), ctypes.c_long(1), ctypes.byref(context)) != 0:
        return None
    try:
        eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    except OSError:
        return None  # no descriptor is left, or a sandbox forbids it
    return KernelSyncs(loop, libc, calls[1:], context.value, eventfd)
