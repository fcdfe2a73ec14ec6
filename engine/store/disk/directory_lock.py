"""Finds out from the kernel whether a process holds a store's directory.

A gateway locks its lock file twice: with flock, which keeps a second gateway out, and with an OFD lock of the whole
file, which the kernel reports to any process that has the file open.  ``/proc/locks`` lists only what the reader's PID
namespace can see, so a reader in another container would take a running gateway for a crashed one.

    struct flock    i16 type, i16 whence, i64 start, i64 length (0: all of the file), i32 pid (0 for an OFD lock)
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

FLOCK: Final = struct.Struct("hhqqi0q")
NOT_SUPPORTED: Final = (errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def take(descriptor: int) -> bool:
    """Lock a file until its last descriptor is closed; return False if another process has locked it.

    Some file systems do not support such locks; there, readers rely on the pid in the file.  Raises: OSError.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except (BlockingIOError, PermissionError):  # POSIX allows EAGAIN and EACCES
        return False
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
    return True


def is_held(lock: Path) -> bool:
    """Return whether a gateway holds the directory.  The lock is not tried, as that could keep a gateway from starting.

    If the file system does not support OFD locks, a living process with the pid in the file counts.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        try:
            asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
            return names_living_process(os.pread(descriptor, 64, 0))
    finally:
        os.close(descriptor)
    return bool(FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def names_living_process(octets: bytes) -> bool:
    """Return whether the text of a lock file is the pid of a living process."""
    text = octets.decode("ascii", "replace").strip()
    if not text.isdigit() or int(text) == 0:
        return False
    try:
        os.kill(int(text), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
