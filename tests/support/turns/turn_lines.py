"""The cost of a turn: the lines of the gateway's own source that run between two beginnings of a turn.

They are counted with the interpreter's tracing, so that every loop is seen, even an unexpected one, without a change of
the source.
Each round of a loop or comprehension counts.  C code (sorting, slices) does not count, nor do the stores and clients of
tests.  Compiled modules have no lines, so nothing is counted there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

from engine.broker import Broker
from engine.ports.workers import Job

ROOT: Final = Path(__file__).resolve().parents[3]
COUNTED: Final = tuple(f"{ROOT / room}/" for room in ("config", "engine", "protocols", "gateway"))


Tracer = Callable[[FrameType, str, Any], Any]
IS_COUNTING: Final = hasattr(Broker.begin_turn, "__code__")  # False in the compiled build


class TurnLines:
    """``with TurnLines() as lines:`` then ``lines.longest``: the lines of the longest turn inside.

    turns: their number.  all_turns: the lines of all together.
    where: lines of the longest turn by function, to find the cause.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.turns = 0
        self.all_turns = 0
        self.where: Counter[str] = Counter()
        # By the identity of a code, because its hash looks at all its constants; the code is kept, so that it stays it.
        self._cells: dict[int, tuple[CodeType, list[int]]] = {}
        self._tracers: dict[int, Tracer | None] = {}
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
        count = sum(cell[0] for _, cell in self._cells.values())
        self.turns += 1
        self.all_turns += count
        if count > self.longest:
            self.longest = count
            self.where.clear()
            for code, cell in self._cells.values():
                self.where[f"{Path(code.co_filename).stem}.{code.co_name}"] += cell[0]
        for _, cell in self._cells.values():
            cell[0] = 0

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code is self._boundary:
            self._end_turn()
        try:
            return self._tracers[id(code)]
        except KeyError:
            return self._meet(code)

    def _meet(self, code: CodeType) -> Tracer | None:
        """Return what counts the lines of ``code``, None for code that is not ours."""
        cell = [0]
        self._cells[id(code)] = (code, cell)
        tracer = self._tracers[id(code)] = _counting(cell) if code.co_filename.startswith(COUNTED) else None
        return tracer


def _counting(cell: list[int]) -> Tracer:
    def line(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            cell[0] += 1
        return line

    return line


def run_elsewhere(job: Job) -> None:
    """Run a job as a worker thread does: its lines belong to no turn."""
    tracing = sys.gettrace()
    sys.settrace(None)
    try:
        job.run()
    finally:
        sys.settrace(tracing)
