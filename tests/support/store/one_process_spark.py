"""A SparkContext for exports without a JVM: its tasks run where they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class OneProcessSpark:
    defaultParallelism = 2

    def broadcast(self, value: Any) -> OneProcessBroadcast:
        return OneProcessBroadcast(value)

    def parallelize(self, values: list[Any], count: int) -> OneProcessTasks:
        return OneProcessTasks(values, lambda value: value)

    def statusTracker(self) -> OneProcessSpark:
        return self

    def getActiveStageIds(self) -> list[int]:
        return []

    def stop(self) -> None:
        pass


class OneProcessBroadcast:
    def __init__(self, value: Any) -> None:
        self.value = value

    def destroy(self) -> None:
        pass


class OneProcessTasks:
    def __init__(self, values: list[Any], task: Callable[[Any], Any]) -> None:
        self._values = values
        self._task = task

    def map(self, task: Callable[[Any], Any]) -> OneProcessTasks:
        return OneProcessTasks(self._values, task)

    def collect(self) -> list[Any]:
        return [self._task(value) for value in self._values]
