"""The client on the loop: its calls and their order, the watches, the states, the chroot.

The same code runs on a real ensemble (`kazoo_client`) and on the simulated one; they differ in the `Session`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.callbacks import call_each
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.zookeeper.calls import Call, Calls
from barnabas.runtime.zookeeper.client import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    ConnectionTimeout,
    Create,
    Created,
    Delete,
    Operation,
    OperationResult,
    SessionState,
    SetData,
    Stat,
    Watch,
    WatchKind,
    Znode,
    ZooKeeperCode,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.composed import create_with_parents, gather, make_path
from barnabas.runtime.zookeeper.options import ZooKeeperOptions, parse_connect
from barnabas.runtime.zookeeper.requests import (
    REQUEST_BYTES_MAX,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Request,
    SetAcl,
    Sync,
    request_bytes,
)
from barnabas.runtime.zookeeper.session import Session, SessionListener
from barnabas.runtime.zookeeper.watches import Watches

T = TypeVar("T")
OperationT = TypeVar("OperationT", bound=Operation)

# How long `close` waits for a server to confirm: without it the session lasts until its timeout.
CLOSE_TIMEOUT_MS = 5_000

_FAILED_STATES = {
    SessionState.EXPIRED: ZooKeeperCode.SESSION_EXPIRED,
    SessionState.AUTH_FAILED: ZooKeeperCode.AUTH_FAILED,
    SessionState.CLOSED: ZooKeeperCode.SESSION_EXPIRED,
}


class SessionClient:
    """See `ZooKeeperClient`.  `new_session` is given its listener, and the session is started later."""

    def __init__(
        self,
        options: ZooKeeperOptions,
        new_session: Callable[[SessionListener], Session],
        *,
        timers: TimerService,
        clock: Clock,
    ) -> None:
        self._options = options
        self._chroot = parse_connect(options.connect)[1]
        self._new_session = new_session
        self._timers = timers
        self._clock = clock
        self._state = SessionState.CLOSED
        self._session: Session | None = None
        # Sessions that have ended, but not all that belongs to them.
        self._ending: list[Session] = []
        self._session_id = 0
        self._granted_timeout_ms = options.session_timeout_ms
        self._calls = Calls(options.max_in_flight, self._send, self._failure)
        self._watches = Watches()
        self._listeners: list[Callable[[SessionState], None]] = []
        self._starting: Promise[None] | None = None
        self._closing: Promise[None] | None = None

    # ------------------------------------------------------------------------------------------ the session

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._granted_timeout_ms

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def start(self) -> Promise[None]:
        if self._session is not None:
            raise RuntimeError("the session has been started already")
        session = self._session = self._new_session(self)
        promise = self._starting = Promise()
        self._enter(SessionState.CONNECTING)
        timeout_ms = self._options.connection_timeout_ms or self._options.session_timeout_ms
        deadline_ns = self._clock.monotonic_ns() + timeout_ms * NS_PER_MS
        self._timers.set((self, "start"), deadline_ns, partial(self._start_timed_out, timeout_ms))
        session.start()
        return promise

    def close(self) -> Promise[None]:
        if self._closing is not None:
            return self._closing
        session = self._session
        if session is None:
            self._leave(SessionState.CLOSED)
            if not self._ending:
                return Promise.of(None)
        closing = self._closing = Promise()
        deadline_ns = self._clock.monotonic_ns() + CLOSE_TIMEOUT_MS * NS_PER_MS
        self._timers.set((self, "close"), deadline_ns, self._closed)
        if session is not None:
            if self._state is SessionState.CONNECTED:
                # What was called before is carried out before.
                self._calls.send_all()
            else:
                self._calls.fail_all(ZooKeeperCode.CONNECTION_LOSS)
            session.close()
        return closing

    # ----------------------------------------------------------------------------------------------- reads

    def get(self, path: str, watch: Watch | None = None) -> Promise[Znode | None]:
        target = self._path(path)
        # Two requests: only `exists` watches a path without a znode, and only `get` tells the data.  What
        # changes between them has called the watch before the second answer.
        if watch is not None:
            self._call(Exists(target, True), _as_is, partial(self._watches.add_data, path, watch))
        return self._call(GetData(target), _as_is, absent=True)

    def children(self, path: str, watch: Watch | None = None) -> Promise[list[str] | None]:
        seen = partial(self._watches.add_children, path, watch) if watch is not None else None
        return self._call(GetChildren(self._path(path), watch is not None), _sorted_names, seen, absent=True)

    def get_many(self, paths: Sequence[str]) -> Promise[list[Znode | None]]:
        return gather([self.get(path) for path in paths])

    def get_acl(self, path: str) -> Promise[list[Acl]]:
        return self._call(GetAcl(self._path(path)), _as_is)

    def sync(self, path: str) -> Promise[None]:
        return self._call(Sync(self._path(path)), _nothing)

    # ---------------------------------------------------------------------------------------------- writes

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        acl: Sequence[Acl] = OPEN_ACL,
        make_parents: bool = False,
    ) -> Promise[Created]:
        operation = Create(self._path(path), data, ephemeral, sequential, acl)
        if not make_parents:
            return self._create(operation)
        return create_with_parents(self._create, operation)

    def set_data(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Promise[Stat]:
        return self._call(SetData(self._path(path), data, version), _as_is)

    def delete(self, path: str, version: int = ANY_VERSION) -> Promise[None]:
        return self._call(Delete(self._path(path), version), _nothing)

    def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Promise[Stat]:
        return self._call(SetAcl(self._path(path), acl, version), _as_is)

    def transact(self, operations: Sequence[Operation]) -> Promise[list[OperationResult]]:
        if not operations:
            return Promise.of([])
        absolute = [
            self._with_acl(replace(operation, path=self._path(operation.path))) for operation in operations
        ]

        def results(answer: Sequence[OperationResult]) -> list[OperationResult]:
            return [self._created(each) if isinstance(each, Created) else each for each in answer]

        return self._call(Multi(absolute), results)

    def _create(self, operation: Create) -> Promise[Created]:
        return self._call(self._with_acl(operation), self._created)

    def _with_acl(self, operation: OperationT) -> OperationT:
        """A new znode without an ACL of its own gets the one that belongs to its path."""
        security = self._options.security
        if security is None or not isinstance(operation, Create) or operation.acl is not OPEN_ACL:
            return operation
        return replace(operation, acl=security.acl_of(self._unchroot(operation.path)))

    def _created(self, created: Created) -> Created:
        return Created(self._unchroot(created.path), created.stat)

    # ------------------------------------------------------------------------------- what a session reports

    def connected(self, session: Session) -> None:
        if session is not self._session:
            return
        self._session_id = session.session_id
        self._granted_timeout_ms = session.granted_timeout_ms
        self._calls.open()
        if self._starting is not None and self._options.create_chroot and self._chroot:
            made = make_path(self._create, self._chroot)
            made.then(lambda _: self._started(), self._start_failed)
        else:
            self._started()

    def disconnected(self, session: Session) -> None:
        if session is self._session:
            self._calls.shut()
            self._calls.fail_waiting(ZooKeeperCode.CONNECTION_LOSS)
            self._enter(SessionState.CONNECTING)

    def watch_fired(self, session: Session, kind: WatchKind, path: str) -> None:
        if session is self._session and self._closing is None:
            self._watches.fire(kind, self._unchroot(path))

    def ended(self, session: Session, why: SessionState) -> None:
        if session.is_over and session in self._ending:
            self._ending.remove(session)
        if self._closing is not None:
            if not self._ending and (self._session is None or self._session.is_over):
                self._closed()
        elif session is self._session:
            starting = self._starting
            self._leave(why)
            if starting is not None:
                starting.fail(ZooKeeperError(_FAILED_STATES[why]))

    # ---------------------------------------------------------------------------------------------- states

    def _started(self) -> None:
        if self._session is None:
            return
        starting, self._starting = self._starting, None
        self._timers.cancel((self, "start"))
        self._enter(SessionState.CONNECTED)
        if starting is not None:
            starting.set(None)

    def _start_failed(self, error: BaseException) -> None:
        """The chroot could not be created."""
        if isinstance(error, ZooKeeperError) and error.code is ZooKeeperCode.CONNECTION_LOSS:
            return  # The next connection tries it again.
        starting = self._starting
        self._abandon()
        if starting is not None:
            starting.fail(error)

    def _start_timed_out(self, timeout_ms: int) -> None:
        starting = self._starting
        self._abandon()
        if starting is not None:
            starting.fail(ConnectionTimeout(self._options.connect, timeout_ms))

    def _abandon(self) -> None:
        session = self._session
        self._leave(SessionState.CLOSED)
        if session is not None:
            session.close()

    def _closed(self) -> None:
        closing, self._closing = self._closing, None
        self._leave(SessionState.CLOSED)
        if closing is not None:
            closing.set(None)

    def _leave(self, state: SessionState) -> None:
        """The session is over: nothing of it is answered any more."""
        session, self._session = self._session, None
        if session is not None and not session.is_over:
            self._ending.append(session)
        self._starting = None
        self._timers.cancel((self, "start"))
        self._timers.cancel((self, "close"))
        self._watches = Watches()
        self._calls.shut()
        self._state = state
        self._calls.fail_all(_FAILED_STATES[state])
        self._tell(state)

    def _enter(self, state: SessionState) -> None:
        if self._state is not state:
            self._state = state
            self._tell(state)

    def _tell(self, state: SessionState) -> None:
        call_each(partial(listener, state) for listener in list(self._listeners))

    # ----------------------------------------------------------------------------------------------- calls

    def _call(
        self,
        request: Request,
        decode: Callable[[Any], T],
        seen: Callable[[], None] | None = None,
        *,
        absent: bool = False,
    ) -> Promise[T]:
        """`seen` is called when the answer arrives; `absent`: that there is no znode is no error."""
        call = Call(request, decode, seen, absent=absent)
        failed = _FAILED_STATES.get(self._state)
        if self._closing is not None:
            failed = ZooKeeperCode.SESSION_EXPIRED
        if failed is None and request_bytes(request) > REQUEST_BYTES_MAX:
            failed = ZooKeeperCode.BAD_ARGUMENTS
        if failed is not None:
            call.promise.fail(ZooKeeperError(failed, self._unchroot(request.path)))
            return call.promise
        return self._calls.add(call)

    def _send(self, call: Call[Any]) -> None:
        if self._session is not None:
            self._session.call(call.request, partial(self._calls.answered, call))

    def _failure(self, error: ZooKeeperError) -> ZooKeeperError:
        return ZooKeeperError(error.code, self._unchroot(error.path))

    def _path(self, path: str) -> str:
        if not path.startswith("/"):
            raise ValueError(f"the path of a znode begins with a slash: {path!r}")
        return (self._chroot + path).rstrip("/") or "/"

    def _unchroot(self, path: str) -> str:
        # The parents of the chroot are created with its own path.
        return path.removeprefix(self._chroot) or "/"


def _as_is(answer: Any) -> Any:
    return answer


def _nothing(_answer: Any) -> None:
    return None


def _sorted_names(answer: Any) -> list[str] | None:
    return None if answer is None else sorted(answer)
