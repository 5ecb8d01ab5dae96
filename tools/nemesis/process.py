"""One process on a host: started, killed, paused; what it prints is in a file."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_S = 60


class Process:
    """A command that can be started again.  `command` is known once it is configured."""

    def __init__(self, prefix: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        self.is_paused = False
        self.process: subprocess.Popen[bytes] | None = None
        self.command: Sequence[str] = ()
        self._prefix = prefix
        self._environment = {**os.environ, **environment}

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._prefix, *self.command],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)
            self.is_paused = False

    def pause(self) -> None:
        self.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)
        self.is_paused = False

    def stop(self) -> None:
        """As by Ctrl+C; by kill -9 if that takes too long."""
        self.send_signal(signal.SIGTERM)
        if self.process is not None:
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def send_signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.is_up:
            self.process.send_signal(number)
