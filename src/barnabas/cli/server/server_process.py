"""A server process: the event loop, its interfaces, signals, and the lifecycle from start to exit code.

Shared by `server-start` and `dev`; command lines and configuration files belong there.  It does not use

asyncio: the reactor is all a broker needs, and fewer imports make it start faster.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from barnabas.base.units import NS_PER_MS
from barnabas.broker.metrics.http_page import serve_metrics
from barnabas.broker.network.ports import CannotListenError, taking
from barnabas.broker.network.socket_options import network_limits
from barnabas.broker.server import Broker
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.server.garbage import collect_as_usual
from barnabas.cli.server.running_servers import (
    STATE_VARIABLE,
    Registration,
    ServerInfo,
    state_folder,
    unusable_folder,
)
from barnabas.config.errors import ConfigError
from barnabas.config.node.node import Node
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.open_files import raise_limit, share
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers
from barnabas.runtime.network.host_name import canonical_host_name
from barnabas.runtime.network.network import Address
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.runtime.random import SystemRandom
from barnabas.storage.failure import explain
from barnabas.storage.refused import StorageRefused

logger = logging.getLogger(__name__)

# The default of server.max.startup.time.ms.
NO_LIMIT = 2**63 - 1
# Stops a node like SIGTERM, but without a controlled shutdown: if the whole cluster stops, no broker is left
# to take over its leaderships.
STOP_ALONE = signal.SIGUSR1
# Signals within this time count as one: timeout(1) and terminals signal a process and its process group.
SAME_SIGNAL_NS = 500_000_000


class ServerProcess:
    """One node in this process, from start to stop."""

    def __init__(
        self,
        node: Node,
        on_listening: Callable[[ServerInfo], None],
        *,
        config: str | None = None,
        log: str | None = None,
        metrics_at: Address | None = None,
        is_dev: bool = False,
    ) -> None:
        self._node = node
        self._on_listening = on_listening
        self._config = config
        self._log = log
        self._metrics_at = metrics_at
        self._is_dev = is_dev
        self._reactor = Reactor()
        self._reactor.on_error = _log_fault
        self._threads = ThreadWorkers()
        workers = LoopWorkers(self._threads, self._reactor.post)
        shares = share(raise_limit())
        limits = replace(network_limits(node.settings), connections_below=shares.connections_below)
        self._network = TcpNetwork(self._reactor, limits=limits, workers=workers)
        self._disk = FolderDisk(open_files_max=shares.files)
        self._clock = SystemClock()
        self._registration: Registration | None = None
        self._failure: BaseException | None = None
        self._is_stopping = False
        self._stop_requested_ns: int | None = None
        self._has_stopped = False
        try:
            self._broker = Broker(
                node,
                disk=self._disk,
                clock=self._clock,
                random=SystemRandom(),
                loop=self._reactor,
                network=self._network,
                workers=workers,
                host_name=canonical_host_name,
            )
        except BaseException:
            self._close()
            raise
        self._broker.on_fatal = self._fail
        self._broker.metrics.gauge(
            "longest_stall_seconds",
            "longest time since the last look for which the loop served no socket",
            lambda: self._reactor.take_longest_stall_ns() / 1e9,
        )

    def run(self) -> int:
        """Serves until a signal or a fatal error.  Raises CommandError if the node could not start."""
        signals = [signal.SIGTERM, signal.SIGINT, STOP_ALONE]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            # A closed terminal stops the node cleanly, except under nohup.
            signals.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._on_signal) for number in signals}
        try:
            self._start()
            while not self._has_stopped:
                self._reactor.serve(None)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._close()
        if self._failure is not None:
            raise _explained(self._failure) from self._failure
        return Exit.OK

    def _start(self) -> None:
        for warning in self._node.warnings:
            logger.warning("%s", warning)
        limit_ms: int = self._node.settings["server.max.startup.time.ms"]
        if limit_ms < NO_LIMIT:
            deadline_ns = self._clock.monotonic_ns() + limit_ms * NS_PER_MS
            self._reactor.timers.set((self, "start"), deadline_ns, self._start_timed_out)
        try:
            self._open_metrics()
            self._broker.start().then(lambda _: self._started(), self._fail)
        except Exception as error:
            self._fail(error)

    def _open_metrics(self) -> None:
        """Called first, so that no client is served by a node that then fails because this port is in use."""
        if self._metrics_at is not None:
            with taking(self._metrics_at, "--metrics"):
                serve_metrics(
                    self._network,
                    *self._metrics_at,
                    self._broker.metrics,
                    clock=self._clock,
                    timers=self._reactor.timers,
                )

    def _start_timed_out(self) -> None:
        if not self._is_stopping:
            limit_ms = self._node.settings["server.max.startup.time.ms"]
            limit = f"server.max.startup.time.ms={limit_ms}"
            self._fail(
                CommandError(f"barnabas: the start took longer than {limit}; raise it, or look for the cause")
            )

    def _started(self) -> None:
        self._reactor.timers.cancel((self, "start"))
        info = self._info()
        try:
            self._registration = Registration(self._disk, info)
        except OSError as error:
            self._fail(CommandError(f"barnabas: {unusable_folder(error, state_folder(), STATE_VARIABLE)}"))
            return
        collect_as_usual()
        self._on_listening(info)

    def _info(self) -> ServerInfo:
        node = self._node
        return ServerInfo(
            pid=os.getpid(),
            node_id=node.node_id,
            roles=sorted(node.roles),
            cluster_id=self._broker.cluster_id,
            started_ms=self._clock.wall_ms(),
            listeners={listener.name: str(listener.address) for listener in self._broker.listeners.values()},
            config=self._config,
            log=self._log,
            metrics=None if self._metrics_at is None else str(self._metrics_at),
            log_dirs=list(node.log_dirs),
            is_dev=self._is_dev,
        )

    def aside(self, call: Callable[[], None], failed: Callable[[BaseException], None]) -> None:
        """Make a call that may block on a thread, for example one to this very node."""

        def ended(_: None, error: BaseException | None) -> None:
            if error is not None:
                failed(error)

        self._threads.submit(call, ended)

    # Stopping --------------------------------------------------------------------------------------------

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == STOP_ALONE:
            self._reactor.post(self._broker.lifecycle.stop)
            if self._is_stopping:
                return
        now_ns = self._clock.monotonic_ns()
        if self._stop_requested_ns is None:
            self._stop_requested_ns = now_ns
        elif now_ns - self._stop_requested_ns >= SAME_SIGNAL_NS:
            # A second request does not wait for the draining.
            os._exit(Exit.INTERRUPTED)
        if self._failure is not None:
            # It is stopping already because of a failure: a stop request need not wait any longer.
            self._reactor.post(self._stopped)
        if self._is_stopping:
            return
        self._is_stopping = True
        self._reactor.post(self._stop)

    def _fail(self, error: BaseException) -> None:
        """The broker cannot start or continue: stops it, then reports the error."""
        if self._failure is None:
            self._failure = error
            self._is_stopping = True
            self._reactor.post(self._stop)

    def _stop(self) -> None:
        self._broker.stop().then(lambda _: self._stopped(), self._stop_failed)

    def _stop_failed(self, error: BaseException) -> None:
        logger.error("the node did not stop cleanly", exc_info=error)
        self._failure = self._failure or error
        self._stopped()

    def _stopped(self) -> None:
        self._has_stopped = True
        self._reactor.interrupt()

    def _close(self) -> None:
        if self._registration is not None:
            self._registration.remove()
        self._network.close()
        self._threads.close()
        self._reactor.close()


def _explained(failure: BaseException) -> CommandError:
    """One line for the user."""
    if isinstance(failure, CommandError):
        return failure
    if _is_out_of_files(failure):
        return CommandError("barnabas: too many open files; raise the limit (ulimit -n) and start again")
    if isinstance(failure, ConfigError | StorageRefused | CannotListenError):
        return CommandError(f"barnabas: {failure}")
    if isinstance(failure, OSError):
        path = f"{failure.filename}: " if failure.filename else ""
        return CommandError(f"barnabas: {path}{explain(failure)}")
    return CommandError(f"barnabas: the server failed: {failure}")


def _is_out_of_files(failure: BaseException | None) -> bool:
    """Whether EMFILE or ENFILE is in the chain of causes."""
    while failure is not None:
        if isinstance(failure, OSError) and failure.errno in (errno.EMFILE, errno.ENFILE):
            return True
        failure = failure.__cause__
    return False


def _log_fault(error: Exception) -> None:
    logger.error("unhandled error on the event loop", exc_info=error)
