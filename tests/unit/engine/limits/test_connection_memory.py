"""The one budget of what connections hold: who ends, and what they have not read."""

from __future__ import annotations

from engine.backlog.context import TurnAgenda
from engine.limits.connection_memory import Holdings
from engine.values.errors import EngineError
from tests.support.fakes import FakeClient


class Holder(FakeClient):
    """taken_bytes: what its socket has taken since it was looked at."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.client_number = number
        self.taken_bytes = 0
        self.told: list[str] = []

    def unread_now(self) -> int:
        taken_bytes, self.taken_bytes = self.taken_bytes, 0
        return self.unread_bytes - taken_bytes

    def give_up(self, error: EngineError) -> None:
        self.told.append(str(error))

    def holding(self) -> str:
        return "open transactions 1" if self.held_bytes else ""


def holders(count: int) -> list[Holder]:
    return [Holder(number) for number in range(1, count + 1)]


def ended(clients: list[Holder]) -> list[int]:
    return [client.client_number for client in clients if client.told]


def test_the_largest_ends_until_the_rest_fits() -> None:
    holdings, clients = Holdings(100, TurnAgenda()), holders(4)
    for client, size in zip(clients, (40, 10, 60, 30), strict=True):
        holdings.count(client, size)
    assert holdings.is_over
    holdings.relieve(clients)
    assert (ended(clients), holdings.used_bytes, holdings.ended_count, holdings.is_over) == ([3], 80, 1, False)
    assert clients[2].told == [
        "this connection holds 60 octets, the most of all (open transactions 1); all connections together may hold 100 "
        "(limits.connection-memory)"
    ]


def test_many_small_ones_do_not_pass_the_limit() -> None:
    holdings, clients = Holdings(100, TurnAgenda()), holders(1_000)
    for client in clients:
        holdings.count(client, 1)
    holdings.relieve(clients)
    assert (holdings.used_bytes, holdings.ended_count) == (100, 900)


def test_what_is_unread_counts_like_all_else() -> None:
    holdings, clients = Holdings(100, TurnAgenda()), holders(2)
    holdings.count(clients[0], 60)
    holdings.count(clients[1], 20)
    holdings.count_unread(clients[1], 50)
    assert (holdings.used_bytes, holdings.unread_bytes, holdings.is_over) == (130, 50, True)
    assert holdings.stats(clients).largest == {2: 70, 1: 60}
    holdings.relieve(clients)
    assert "holds 70 octets, the most of all (open transactions 1, unread output 50)" in clients[1].told[0]
    assert (ended(clients), holdings.used_bytes, holdings.unread_bytes) == ([2], 60, 0)


def test_who_has_read_meanwhile_does_not_end() -> None:
    holdings, clients = Holdings(100, TurnAgenda()), holders(2)
    holdings.count_unread(clients[0], 80)
    holdings.count_unread(clients[1], 40)
    clients[0].taken_bytes = 70
    holdings.relieve(clients)
    assert (ended(clients), holdings.used_bytes) == ([], 50)


def test_a_connection_that_has_left_the_engine_still_counts() -> None:
    """Its session is over, and its socket is not: what is unread is there."""
    holdings, clients = Holdings(100, TurnAgenda()), holders(2)
    holdings.count_unread(clients[0], 90)
    holdings.count(clients[1], 20)
    holdings.relieve(clients[1:])
    assert (ended(clients), holdings.used_bytes) == ([1], 20)
    assert holdings.stats(clients[1:]).largest == {2: 20}


def test_it_is_crowded_while_half_of_it_is_unread() -> None:
    holdings, (first, second) = Holdings(100, TurnAgenda()), holders(2)
    assert not holdings.is_crowded(1_000), "nobody waits for anybody"
    holdings.count_unread(first, 30)
    assert not holdings.is_crowded(20)
    assert holdings.is_crowded(21)
    holdings.count(second, 60)
    assert not holdings.is_crowded(20), "what is held otherwise keeps no output back"
    first.taken_bytes = 10
    holdings.count_again()
    assert not holdings.is_crowded(30)


def test_room_is_made_by_those_with_the_most_unread() -> None:
    holdings, clients = Holdings(100, TurnAgenda()), holders(4)
    holdings.count(clients[3], 40)
    for client, size in zip(clients, (9, 20, 16), strict=False):
        holdings.count_unread(client, size)
    holdings.make_room()
    assert (ended(clients), holdings.unread_bytes, holdings.used_bytes) == ([2], 25, 65)


def test_requests_have_a_quarter_of_it_and_count_like_all_else() -> None:
    holdings, (client,) = Holdings(100, TurnAgenda()), holders(1)
    assert [holdings.hold_body(size) for size in (20, 6, 5, 1)] == [True, False, True, False]
    assert (holdings.requests_bytes, holdings.used_bytes) == (25, 25)
    holdings.body_done(25)
    holdings.count(client, 80)
    assert not holdings.hold_body(25)
    assert holdings.hold_body(20)
    assert not holdings.is_over


def test_answers_keep_no_body_out() -> None:
    holdings = Holdings(100, TurnAgenda())
    holdings.count_requests(90)
    assert holdings.hold_body(0) and holdings.hold_body(25)
    assert (holdings.requests_bytes, holdings.used_bytes) == (115, 115)


def test_one_request_alone_may_have_more_than_their_part() -> None:
    holdings = Holdings(100, TurnAgenda())
    assert holdings.hold_body(90)
    assert not holdings.hold_body(0)
    assert holdings.stats([]).requests_bytes == 90
    holdings.body_done(90)
    assert holdings.hold_body(0)


def test_an_answer_of_any_size_ends_no_connection() -> None:
    holdings, clients = Holdings(100, TurnAgenda()), holders(3)
    holdings.count(clients[0], 40)
    holdings.count(clients[1], 35)
    holdings.count_requests(500)
    assert not holdings.is_over
    holdings.relieve(clients)
    assert ended(clients) == [], "they hold what requests leave them"
    holdings.count(clients[1], 36)
    assert holdings.is_over
    holdings.relieve(clients)
    assert (ended(clients), holdings.used_bytes) == ([1], 536)
