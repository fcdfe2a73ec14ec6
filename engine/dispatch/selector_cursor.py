"""How far the selectors of a queue have read one lane.

Selectors that are at the same place share a cursor, so each message is read once for all of them.  The cost of a turn
depends on the number of places, not on the number of selectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.dispatch.selector_view import View

START: Final = -(1 << 62)  # below every position
END: Final = 1 << 62  # above every position: everything was read
SPILLED: Final = 16  # added to a priority: the cursor over the lane's temporary files


class Cursor:
    """The views that have seen everything before ``position``.

    idle: those of them with an idle consumer.
    is_reading: messages that are being read now are offered to them.
    looked_count: messages examined for all of them; see ``View.looked_count``.
    """

    __slots__ = ("position", "views", "idle", "is_reading", "looked_count")

    def __init__(self, position: int) -> None:
        self.position = position
        self.views: dict[int, View] = {}
        self.idle: dict[int, View] = {}
        self.is_reading = False
        self.looked_count = 0

    def wants_more(self) -> bool:
        """Say whether one of its views needs more for an idle consumer."""
        for view in self.idle.values():
            if view.wants_more():
                return True
        return False


class LaneCursors:
    """The cursors of one lane, each at its own place; a cursor without views is removed.

    key: of this lane in ``View.cursors``.  resume_at: where reading continues, so that no view waits for ever.
    """

    __slots__ = ("key", "by_position", "resume_at")

    def __init__(self, key: int) -> None:
        self.key = key
        self.by_position: dict[int, Cursor] = {}
        self.resume_at = START

    def add(self, view: View, position: int) -> None:
        cursor = self.by_position.get(position)
        if cursor is None:
            cursor = self.by_position[position] = Cursor(position)
        self._join(view, cursor)

    def _join(self, view: View, cursor: Cursor) -> None:
        cursor.views[view.number] = view
        if view.idle:
            cursor.idle[view.number] = view
        view.cursors[self.key] = cursor
        view.looked_count -= cursor.looked_count

    def remove(self, view: View) -> None:
        cursor = view.cursors.pop(self.key)
        view.looked_count += cursor.looked_count
        del cursor.views[view.number]
        cursor.idle.pop(view.number, None)
        if not cursor.views:
            self.detach(cursor)

    def move(self, view: View, position: int) -> None:
        """Let one view continue alone from ``position``."""
        self.remove(view)
        self.add(view, position)

    def split(self, cursor: Cursor, views: list[View]) -> Cursor:
        """Return a new cursor for some of the views at the same place; the caller attaches it at another one."""
        apart = Cursor(cursor.position)
        for view in views:
            self.remove(view)
            self._join(view, apart)
        return apart

    def detach(self, cursor: Cursor) -> None:
        """Remove a cursor with its views, if it is here."""
        if self.by_position.get(cursor.position) is cursor:
            del self.by_position[cursor.position]

    def attach(self, cursor: Cursor, position: int) -> None:
        """Insert a cursor that is at ``position`` now; it is merged with another one there."""
        cursor.is_reading = False
        if not cursor.views:
            return
        cursor.position = position
        other = self.by_position.get(position)
        if other is None:
            self.by_position[position] = cursor
            return
        if len(other.views) < len(cursor.views):
            self.by_position[position] = cursor
            cursor, other = other, cursor
        more = cursor.looked_count - other.looked_count
        for view in cursor.views.values():
            view.cursors[self.key] = other
            view.looked_count += more
        other.views.update(cursor.views)
        other.idle.update(cursor.idle)
        cursor.views.clear()
        cursor.idle.clear()

    def advance(self, cursor: Cursor, position: int) -> None:
        """Move ``cursor`` to ``position``: all its views have seen what comes before."""
        self.detach(cursor)
        self.attach(cursor, position)

    def front(self) -> Cursor | None:
        """Return the cursor of the views that have seen everything, None if there is none."""
        return self.by_position.get(END)

    def behind(self) -> list[Cursor]:
        """Return the other cursors in order, beginning where reading continues."""
        positions = sorted(self.by_position)
        if positions and positions[-1] == END:
            positions.pop()
        resume_at = self.resume_at
        if len(positions) > 1 and positions[0] < resume_at <= positions[-1]:
            positions = [one for one in positions if one >= resume_at] + [one for one in positions if one < resume_at]
        return [self.by_position[one] for one in positions]
