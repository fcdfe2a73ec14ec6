"""The tasks of an export: each reads one partition of the plan.  Here they run one by one in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial

from spark_bridge.arrow.schema import DELIVERIES
from spark_bridge.attempts import Attempt
from spark_bridge.parquet import Written, file_name, write_partition
from spark_bridge.read.plan import Plan, has_few_settlements, with_settled


class Tasks(ABC):
    """Where the tasks run."""

    def settled(self, plan: Plan) -> Plan:
        """Return the plan with the states of messages; the tasks read the settlements if there are many."""
        if set(plan.tables) == {DELIVERIES}:
            return plan
        return with_settled(plan) if has_few_settlements(plan) else self._settled(plan)

    @abstractmethod
    def _settled(self, plan: Plan) -> Plan: ...

    @abstractmethod
    def write_files(self, plan: Plan, attempt: Attempt, rate_bytes: int) -> list[Written]:
        """Write the range, under the final names of the files.

        A name consists of store, range and task.  So one directory can hold the lakes of two stores, and a task that
        runs twice writes the same file.
        rate_bytes: of the log that all tasks together may read in a second, 0 for no limit.
        """


class InProcess(Tasks):
    """Without Spark and a JVM."""

    def _settled(self, plan: Plan) -> Plan:
        return with_settled(plan)

    def write_files(self, plan: Plan, attempt: Attempt, rate_bytes: int) -> list[Written]:
        plan = replace(plan, rate_bytes=rate_bytes)
        return [
            write_partition(plan, pieces, attempt.files, partial(file_name, plan, number, attempt))
            for number, pieces in enumerate(plan.partitions)
        ]
