"""Each fault that a disk can have is there, and is needed: some planted bug is found with it, and not without it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from engine.values.errors import StoreError
from tests.support.disk.disk_faults import DISK_FAULTS
from tests.support.store.disk_bugs import PROOFS, Proof
from tests.support.store.store_history import History
from tests.support.world.known_seeds import known_first
from tests.support.world.seeds import STORE_SEEDS, taken

SEEDS_WITHOUT_LEAST = 60


def first_found(proof: Proof, without: frozenset[str], seeds: Iterable[int]) -> int:
    """Return the first seed that fails, 0 if none does."""
    for seed in seeds:
        try:
            History(seed, bug=proof.bug(), verifies=False, without=without).run()
        except (AssertionError, LookupError, ValueError, StoreError):
            return seed
    return 0


@pytest.mark.interpreted
def test_there_is_a_proof_of_each_fault() -> None:
    assert {proof.fault for proof in PROOFS} == DISK_FAULTS


@pytest.mark.interpreted
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.fault)
def test_a_planted_bug_is_found_with_the_fault_only(proof: Proof) -> None:
    needed = first_found(proof, proof.others, known_first(range(1, STORE_SEEDS + 1)))
    assert needed > 0
    more = max(SEEDS_WITHOUT_LEAST, needed + needed // 2)
    assert first_found(proof, proof.others | {proof.fault}, range(1, more + 1)) == 0


@pytest.mark.parametrize("fault", sorted(DISK_FAULTS))
def test_without_a_fault_the_store_is_as_sound(fault: str) -> None:
    for seed in taken(range(1, 40)):
        History(seed, without=frozenset((fault,))).run()
