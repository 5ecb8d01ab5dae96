"""One direction of a connection: messages arrive in order, late, and not while the link is blocked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from barnabas.runtime.simulated.agenda import Agenda
from barnabas.runtime.simulated.links import Links
from barnabas.runtime.simulated.streams import RETRANSMIT_NS

Action = Callable[[], None]


class Channel:
    """`enter` runs an action where the messages arrive."""

    def __init__(
        self, agenda: Agenda, links: Links, sender: int, to: int, enter: Callable[[Action], None]
    ) -> None:
        self._agenda = agenda
        self._links = links
        self._ends = (sender, to)
        self._enter = enter
        self._messages: deque[Action] = deque()
        self.is_open = True

    def put(self, message: Action) -> None:
        if self.is_open:
            self._messages.append(message)
            self._agenda.after(self._links.delay_ns(), self._arrive)

    def close(self) -> None:
        """What is under way is lost."""
        self.is_open = False
        self._messages.clear()

    def _arrive(self) -> None:
        if self._links.is_blocked(*self._ends):
            self._agenda.after(RETRANSMIT_NS, self._arrive)
        else:
            self._enter(self._take)

    def _take(self) -> None:
        """There is a call for each message; the receiver may have been paused meanwhile."""
        if self._messages:
            self._messages.popleft()()
