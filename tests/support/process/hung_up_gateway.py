"""``penstock run`` that gets SIGHUP while it opens its store."""

from __future__ import annotations

import os
import signal
import sys

from engine.store.disk.files import File, RealFiles
from gateway.cli import run
from gateway.cli.dispatch import parser_of
from tests.support.disk.files_wrapper import FilesWrapper


class HangingUp(FilesWrapper):
    def lock(self, path: str) -> File | None:
        os.kill(os.getpid(), signal.SIGHUP)
        return self.inner.lock(path)


if __name__ == "__main__":
    sys.exit(run.run(parser_of(["run"]).parse_args(sys.argv[1:]), HangingUp(RealFiles())))
