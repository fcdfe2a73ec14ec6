"""Sessions of the console: a login by a form, then a cookie that scripts cannot read.

A cookie goes with whatever the browser asks of the gateway.  So it goes with no request of another site (SameSite),
and what changes something needs the session's token in a header, too, which pages of other sites do not know.
Sessions are in memory; a restart ends them.  Source: OWASP, "Cross-Site Request Forgery Prevention".
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from config.scram import Verifier
from protocols.peer_socket import LoggedIn

SESSIONS_MAX: Final = 1_000  # at a time; the one that was used longest ago ends first
SESSIONS_PER_USER_MAX: Final = 16
IDLE_S: Final = 30 * 60.0
SESSION_MOST_S: Final = 12 * 3_600.0
GROUPS_MOST_S: Final = 3_600.0  # that a directory has told
TOKEN_BYTES: Final = 32


@dataclass(slots=True, eq=False)
class Session:
    """A login of the console.

    user: as it was checked; of a directory, as it was read last, at ``read_s``.  asked_s: when it was asked for last.
    verifiers: of the user's password then.  Times are those of the clock of ``Sessions``.
    """

    user: LoggedIn
    csrf: str
    verifiers: tuple[Verifier, ...]
    begun_s: float
    used_s: float
    read_s: float
    asked_s: float


class Sessions:
    """verifiers_of: a user, None if there is none.  clock: seconds.

    _sessions: by the text in the cookie, the one used longest ago first.
    """

    def __init__(self, verifiers_of: Callable[[str], tuple[Verifier, ...] | None], clock: Callable[[], float]) -> None:
        self._verifiers_of = verifiers_of
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def begin(self, user: LoggedIn) -> tuple[str, Session]:
        """Return the text of the cookie, and the new session.  The password has been checked."""
        own = [key for key, one in self._sessions.items() if one.user.user == user.user]
        if len(own) >= SESSIONS_PER_USER_MAX:
            del self._sessions[own[0]]
        elif len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        now_s = self._clock()
        key, csrf = _token(), _token()
        session = Session(user, csrf, self._verifiers_of(user.user) or (), now_s, now_s, now_s, now_s)
        self._sessions[key] = session
        return key, session

    def find(self, key: str) -> Session | None:
        """Return the session of a cookie, which goes on for a while; None if it is over.

        It ends as well when its user is removed or gets another password; of a user of a directory, when the
        configuration gets one of this name, or when the directory has not told the groups for long.
        """
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        now_s = self._clock()
        is_over = now_s - session.used_s > IDLE_S or now_s - session.begun_s > SESSION_MOST_S
        if session.user.is_external:
            is_over = is_over or now_s - session.read_s > GROUPS_MOST_S
        verifiers = self._verifiers_of(session.user.user)
        has_changed = verifiers is not None if session.user.is_external else verifiers != session.verifiers
        if is_over or has_changed:
            return None
        session.used_s = now_s
        self._sessions[key] = session
        return session

    def is_due(self, session: Session, last_s: float) -> bool:
        """Say whether to ask for the user of a directory again, who counts for ``last_s``; the next time then later."""
        now_s = self._clock()
        if not session.user.is_external or now_s - session.asked_s < last_s:
            return False
        session.asked_s = now_s
        return True

    def was_read(self, session: Session, user: LoggedIn) -> None:
        session.user = user
        session.read_s = self._clock()

    def end(self, key: str) -> None:
        self._sessions.pop(key, None)


def is_token_of(session: Session, text: str) -> bool:
    return hmac.compare_digest(session.csrf.encode(), text.encode("utf-8", "surrogateescape"))


def _token() -> str:
    return os.urandom(TOKEN_BYTES).hex()
