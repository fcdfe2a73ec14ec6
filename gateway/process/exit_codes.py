"""Exit codes, the same for every command; docs/reference/configuration.md lists them."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1  # any failure without a code of its own, for example an ERROR from the gateway
USAGE: Final = 2  # command line or configuration
STORE: Final = 3  # the store is locked by another process, corrupt, or cannot be opened
UNREACHABLE: Final = 4  # no connection, login refused, or connection lost
INCOMPLETE: Final = 5  # fewer messages than asked for
UNCLEAN: Final = 6  # the gateway has stopped, but the disk kept it from closing the store
INTERRUPTED: Final = 130  # Ctrl-C, as shells report it

HELP: Final = """\
exit codes:
  0    done
  1    failed, the text on standard error says why
  2    wrong usage or configuration
  3    the store is locked by another process, corrupt, or cannot be opened
  4    the gateway cannot be reached, refused the login, or the connection was lost
  5    fewer messages than asked for with --count
  6    run: stopped, but the store could not be closed cleanly; the next start recovers it
  130  interrupted"""
