"""The cost of a turn: the lines of the gateway's own source that run between two beginnings of a turn.

They are counted with the interpreter's tracing, so that every loop is seen, even an unexpected one, without a change of
the source.
Each round of a loop or comprehension counts.  C code (sorting, slices) does not count, nor do the stores and clients of
tests.  Compiled modules have no lines, so nothing is counted there.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

from engine.broker import Broker
from engine.ports.workers import Job

ROOT: Final = Path(__file__).resolve().parents[3]
COUNTED: Final = tuple(f"{ROOT / room}/" for room in ("config", "engine", "protocols", "gateway"))


IS_COUNTING: Final = hasattr(Broker.begin_turn, "__code__")  # False in the compiled build


class TurnLines:
    """``with TurnLines() as lines:`` then ``lines.longest``: the lines of the longest turn inside.

    turns: their number.  where: lines of the longest turn by function, to find the cause.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.turns = 0
        self.where: Counter[str] = Counter()
        self._by_code: Counter[CodeType] = Counter()
        self._is_ours: dict[CodeType, bool] = {}
        self._boundary = Broker.begin_turn.__code__ if IS_COUNTING else None
        self._earlier: Any = None

    def __enter__(self) -> TurnLines:
        self._earlier = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.settrace(self._earlier)
        self._end_turn()

    def describe(self) -> str:
        """Return the lines of the longest turn by function."""
        most = ", ".join(f"{name} {count}" for name, count in self.where.most_common(8))
        return f"{self.longest} lines in one of {self.turns} turns: {most}"

    def _end_turn(self) -> None:
        count = self._by_code.total()
        self.turns += 1
        if count > self.longest:
            self.longest = count
            self.where.clear()
            for code, lines in self._by_code.items():
                self.where[f"{Path(code.co_filename).stem}.{code.co_name}"] += lines
        self._by_code.clear()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code is self._boundary:
            self._end_turn()
        is_ours = self._is_ours.get(code)
        if is_ours is None:
            name = code.co_filename
            is_ours = self._is_ours[code] = name.startswith(COUNTED)
        return self._line if is_ours else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._by_code[frame.f_code] += 1
        return self._line


def run_elsewhere(job: Job) -> None:
    """Run a job as a worker thread does: its lines belong to no turn."""
    tracing = sys.gettrace()
    sys.settrace(None)
    try:
        job.run()
    finally:
        sys.settrace(tracing)
