"""One session with a real ensemble: a kazoo client, and the one place where its thread meets the loop.

Contains what runs on kazoo's connection thread.  All that it learns is posted to the loop in the order in
which it was read from the socket: answers, watches, states.  kazoo's own queues of callbacks and their
threads are not used.  Importing this imports kazoo.

What kazoo does by itself and must not: after an expired session it opens another one (here its thread ends);
after a lost connection it forgets its watches (here they are set again, before any other request).
"""

from __future__ import annotations

import logging
import secrets
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, ZookeeperError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, KazooState, KeeperState
from kazoo.retry import KazooRetry

from barnabas.base.log_text import shown
from barnabas.runtime.tls.context import Tls
from barnabas.runtime.zookeeper.client import SessionState, WatchKind, ZooKeeperError
from barnabas.runtime.zookeeper.kazoo_requests import (
    SET_WATCHES_BYTES,
    SetWatches,
    answer_of,
    code_of,
    kazoo_request,
)
from barnabas.runtime.zookeeper.requests import Exists, Request
from barnabas.runtime.zookeeper.security import (
    NO_ZOOKEEPER_SECURITY,
    DigestExchange,
    DigestLogin,
    LoginRefusedError,
    ZooKeeperSecurity,
)
from barnabas.runtime.zookeeper.session import Answered, SessionListener

Post = Callable[[Callable[[], None]], None]

# Between two rounds over all servers; kazoo doubles the first one up to the longest.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0

_KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.DATA_CHANGED,
    EventType.CHILD: WatchKind.CHILDREN_CHANGED,
}

# kazoo warns of every attempt that fails; the states tell the same once.
logger = logging.getLogger(__name__)
_kazoo_logger = logging.getLogger("barnabas.runtime.zookeeper.kazoo")
_kazoo_logger.setLevel(logging.ERROR)


class Reply:
    """What kazoo sets with the answer to a request, in place of its AsyncResult."""

    __slots__ = ("_answered", "_post", "_request", "_seen")

    def __init__(
        self, post: Post, request: Request, answered: Answered, seen: Callable[[Any], None] | None = None
    ) -> None:
        self._post = post
        self._request = request
        self._answered = answered
        self._seen = seen

    def set(self, value: Any) -> None:
        if self._seen is not None:
            self._seen(value)
        self._post(partial(self._tell, value))

    def set_exception(self, error: BaseException) -> None:
        self._post(partial(self._answered, None, ZooKeeperError(code_of(error), self._request.path)))

    def _tell(self, value: Any) -> None:
        try:
            answer = answer_of(self._request, value)
        except ZooKeeperError as error:
            self._answered(None, error)
        else:
            self._answered(answer, None)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """One thread, for the connection; watches go where answers go."""

    def __init__(
        self,
        fired: Callable[[Any], None],
        ended: Callable[[], None],
        connect_timeout_s: float,
        tls: Tls | None,
    ) -> None:
        super().__init__()
        self._tls = tls
        self._failed_with: set[str] = set()
        self._fired = fired
        self._ended = ended
        self._connect_timeout_s = connect_timeout_s

    def start(self) -> None:
        """There are no workers."""

    def stop(self) -> None:
        """There are no workers."""

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception:
                _kazoo_logger.exception("the connection to ZooKeeper has ended for this error")
            finally:
                self._ended()

        thread = threading.Thread(target=run, name="zookeeper", daemon=True)
        thread.start()
        return thread

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        # kazoo waits for a host that does not answer as long as a session lasts.
        kwargs["timeout"] = min(kwargs["timeout"], self._connect_timeout_s)
        sock = super().create_connection(*args, **kwargs)
        return sock if self._tls is None else self._secured(self._tls, sock, kwargs["hostname"])

    def _secured(self, tls: Tls, sock: Any, host: str) -> ssl.SSLSocket:
        try:
            secured = tls.context.wrap_socket(sock, server_hostname=host)
            refusal = tls.refuses(secured)
            if refusal is not None:
                secured.close()
                raise ssl.SSLError(refusal)
        except OSError as error:
            sock.close()
            if str(error) not in self._failed_with:
                # kazoo tries again and again; a reason is told once.
                self._failed_with.add(str(error))
                logger.warning("the TLS handshake with ZooKeeper at %s failed: %s", host, shown(str(error)))
            raise
        return secured

    def select(self, rlist: Any, *args: Any, **kwargs: Any) -> Any:
        # What TLS has decrypted already does not make a socket ready.
        ready = [one for one in rlist if isinstance(one, ssl.SSLSocket) and one.pending()]
        return (ready, [], []) if ready else super().select(rlist, *args, **kwargs)

    def dispatch_callback(self, callback: Any) -> None:
        self._fired(callback.args[0])


class KazooSession:
    """A session from its first connection to its end; there is another object for the next session."""

    def __init__(
        self,
        servers: list[tuple[str, int]],
        session_timeout_ms: int,
        listener: SessionListener,
        post: Post,
        security: ZooKeeperSecurity | None = None,
    ) -> None:
        security = security or NO_ZOOKEEPER_SECURITY
        self._listener = listener
        self._post = post
        self._logs_in = security.login is not None
        self.granted_timeout_ms = 0
        self.session_id = 0
        # Whether kazoo's thread has ended: then there is nothing left to wait for.
        self.is_over = False
        # On kazoo's thread: paths with a watch that had no znode, and all watches of a lost connection.
        self._absent: set[str] = set()
        self._lost_data: list[str] = []
        self._lost_children: list[str] = []
        connect_timeout_s = session_timeout_ms / 1000 / len(servers)
        self._client = KazooClient(
            hosts=",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers),
            timeout=session_timeout_ms / 1000,
            handler=_Handler(
                self._fired,
                self._thread_ended,
                connect_timeout_s,
                None if security.tls is None else Tls(security.tls, server=False),
            ),
            connection_retry=KazooRetry(
                max_tries=-1, delay=FIRST_PAUSE_S, max_delay=LONGEST_PAUSE_S, backoff=2, max_jitter=0.4
            ),
            logger=_kazoo_logger,
            # That there is a login; `_log_in` takes the place of kazoo's own, which needs another package.
            sasl_options=None if security.login is None else {"mechanism": "DIGEST-MD5"},
        )
        self._client.add_listener(self._state_changed)
        connection = self._client._connection
        connection._invoke = partial(self._invoke, connection._invoke)
        if security.login is not None:
            connection._authenticate_with_sasl = partial(self._log_in, security.login)

    # ----------------------------------------------------------------------------------------- on the loop

    def start(self) -> None:
        self._client.start_async()

    def call(self, request: Request, answered: Answered) -> None:
        seen = (
            partial(self._exists_seen, request.path)
            if isinstance(request, Exists) and request.watch
            else None
        )
        self._client._call(kazoo_request(request, self._watched), Reply(self._post, request, answered, seen))

    def close(self) -> None:
        """End the session, once what was queued is answered; `ended` follows."""
        self._client._stopped.set()
        self._client._queue.append((serialization.CloseInstance, None))
        self._wake()

    # ---------------------------------------------------------------------------------- on kazoo's thread

    def _invoke(
        self, invoke: Callable[..., Any], timeout: float, request: Any, xid: int | None = None
    ) -> Any:
        """kazoo does not keep the timeout that the ensemble grants."""
        answer = invoke(timeout, request, xid=xid)
        if isinstance(request, serialization.Connect):
            granted = answer[0].time_out
            if granted > 0:
                self.granted_timeout_ms = granted
        return answer

    def _connected(self) -> None:
        self.session_id = self._client._session_id
        self._set_watches_again()
        self._post(partial(self._listener.connected, self))

    def _log_in(self, login: DigestLogin, host: str, timeout: float) -> None:
        exchange = DigestExchange(login, secrets.token_hex(16))
        try:
            challenge = self._exchange_token(1, b"", timeout)
            exchange.check(self._exchange_token(2, exchange.answer(challenge), timeout))
        except (LoginRefusedError, ConnectionDropped, ZookeeperError) as error:
            # A server drops the connection of a client that it does not log in.
            why = str(error) if isinstance(error, LoginRefusedError) else "the user or the password is wrong"
            logger.warning("the login of %s at ZooKeeper failed: %s", shown(login.user), shown(why))
            raise AuthFailedError(why) from error
        self._connected()

    def _exchange_token(self, xid: int, token: bytes, timeout: float) -> bytes:
        connection = self._client._connection
        connection._submit(serialization.SASL(token), timeout, xid)
        header, data, offset = connection._read_header(timeout)
        if header.err:
            raise LoginRefusedError(f"ZooKeeper answered with the error {header.err}")
        answer, _ = serialization.SASL.deserialize(data, offset)
        return answer or b""

    def _state_changed(self, state: str) -> None:
        client = self._client
        if state == KazooState.CONNECTED:
            # A login comes next, and ends with this.
            if not self._logs_in:
                self._connected()
        elif state == KazooState.SUSPENDED:
            # kazoo forgets them after this.
            self._lost_data = sorted(client._data_watchers)
            self._lost_children = sorted(client._child_watchers)
            self._post(partial(self._listener.disconnected, self))
        elif client._state == KeeperState.EXPIRED_SESSION:
            self._stop(SessionState.EXPIRED)
        elif client._state == KeeperState.AUTH_FAILED:
            self._stop(SessionState.AUTH_FAILED)

    def _stop(self, why: SessionState) -> None:
        # Otherwise kazoo would open another session.
        self._client._stopped.set()
        self._post(partial(self._listener.ended, self, why))

    def _set_watches_again(self) -> None:
        """Before anything that is queued: a read must not see a change whose watch has not been called."""
        client = self._client
        data, children = self._lost_data, self._lost_children
        self._lost_data, self._lost_children = [], []
        self._absent.intersection_update(data)
        for path in data:
            client._data_watchers[path].add(self._watched)
        for path in children:
            client._child_watchers[path].add(self._watched)
        requests = list(_requests_to_watch(client.last_zxid, data, self._absent, children))
        for request in reversed(requests):
            client._queue.appendleft((request, _NoReply()))
            self._wake()

    def _wake(self) -> None:
        """Tell kazoo's thread of one more request in its queue."""
        sender = self._client._connection._write_sock
        if sender is not None:
            sender.send(b"\0")

    def _exists_seen(self, path: str, stat: Any) -> None:
        if stat is None:
            self._absent.add(path)
        else:
            self._absent.discard(path)

    def _watched(self, _event: Any) -> None:
        """kazoo wants a function for each watch; `_fired` gets its events."""

    def _fired(self, event: Any) -> None:
        kind = _KINDS.get(event.type)
        if kind is not None:
            self._absent.discard(event.path)
            self._post(partial(self._listener.watch_fired, self, kind, event.path))

    def _thread_ended(self) -> None:
        self._post(self._close)

    # ----------------------------------------------------------------------------------------- on the loop

    def _close(self) -> None:
        self.is_over = True
        self._client.close()
        self._listener.ended(self, SessionState.EXPIRED)


def _requests_to_watch(
    zxid: int, data: Iterable[str], absent: set[str], children: Iterable[str]
) -> Iterator[SetWatches]:
    """The watches in as many requests as their size demands."""
    lists: tuple[list[str], list[str], list[str]] = ([], [], [])
    size = 0
    kinds = [(1 if path in absent else 0, path) for path in data] + [(2, path) for path in children]
    for kind, path in kinds:
        lists[kind].append(path)
        size += len(path.encode()) + 4
        if size >= SET_WATCHES_BYTES:
            yield SetWatches(zxid, *lists)
            lists, size = ([], [], []), 0
    if size:
        yield SetWatches(zxid, *lists)


class _NoReply:
    """Watches that could not be set are set again with the next connection."""

    def set(self, value: Any) -> None:
        """They are set."""

    def set_exception(self, error: BaseException) -> None:
        """The connection has been lost again."""
