"""The standard streams of a command, also where its starter has closed them.

The next file that is opened gets the number of a closed one.  libuv then aborts the process when it closes that file,
and what OpenSSL or faulthandler write to standard error would go into it.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Final

_NAMES: Final = ("stdin", "stdout", "stderr")


def complete() -> None:
    """Open those that are closed, to nowhere; call it before other files are opened.

    Characters that the locale of the output does not have are written as escapes, which standard error does by itself.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == number, f"descriptor {opened} is free, not {number}"
            os.set_inheritable(number, True)
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115  # for good
            setattr(sys, name, stream)
    if isinstance(sys.stdout, io.TextIOWrapper):
        try:
            sys.stdout.reconfigure(errors="backslashreplace")
        except OSError:
            pass  # another file has got its number since Python made it, as in a forked process
