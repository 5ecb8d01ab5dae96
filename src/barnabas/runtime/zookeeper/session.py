"""What a client asks of a session: the interface of a real one (kazoo) and of its simulated twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from barnabas.runtime.zookeeper.client import SessionState, WatchKind, ZooKeeperError
from barnabas.runtime.zookeeper.requests import Request

# Called with the answer, or with why there is none.
Answered: TypeAlias = Callable[[Any, ZooKeeperError | None], None]


class Session(Protocol):
    """One session from its first connection to its end; there is another object for the next session."""

    @property
    def session_id(self) -> int: ...

    @property
    def granted_timeout_ms(self) -> int: ...

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be heard of it, now that it is closed."""
        ...

    def start(self) -> None: ...

    def call(self, request: Request, answered: Answered) -> None:
        """Answers come on the loop, in the order of calls: also CONNECTION_LOSS and SESSION_EXPIRED.

        After `ended` there may be none.  The listener is told when a watch is called that a request has set.
        """
        ...

    def close(self) -> None:
        """End the session, once what was called is answered; `ended` follows."""
        ...


class SessionListener(Protocol):
    """Called on the loop, in order."""

    def connected(self, session: Session) -> None: ...

    def disconnected(self, session: Session) -> None: ...

    def watch_fired(self, session: Session, kind: WatchKind, path: str) -> None: ...

    def ended(self, session: Session, why: SessionState) -> None:
        """No more answers or watches of this session will come."""
        ...
