"""Apache Kafka for comparison, if the oracle is available: one node with the settings of its start script."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.processes import cpu_seconds, rss_bytes
from tools.ports import free_oracle_base

PROJECT = Path(__file__).resolve().parents[1]
ORACLE = Path(os.environ.get("BARNABAS_ORACLE", PROJECT.parent / "shared" / "oracle" / "kafka"))
VERSION = "4.1.0"
APACHE = f"Apache Kafka {VERSION}"
NODE = "broker-1"
STOP_PATIENCE_S = 120


class ApacheServer:
    """A KRaft node with both roles, in its own folder."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        self.home = home
        self.data = home / NODE / "data"
        self._settings = settings
        self._base = free_oracle_base()
        self._command: list[str] = []
        self._launched: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._base + 1

    @property
    def pid(self) -> int:
        if self._launched is not None:
            return self._launched.pid
        return int((self.home / NODE / "pid").read_text("utf-8").split()[0])

    @property
    def rss_bytes(self) -> int:
        return rss_bytes(self.pid)

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def start(self) -> None:
        if self._command:
            self._call("start", "--dir", str(self.home), NODE)
            return
        settings = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        options = ("--dir", str(self.home), "--mode", "kraft", "--port", str(self._base))
        self._call("up", *options, "--as-shipped", *settings)
        line = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        self._command = [os.fsdecode(word) for word in line.split(b"\0") if word]

    def launch(self) -> None:
        """Runs the oracle's command directly: the startup of the oracle would be measured too."""
        with (self.home / NODE / "server.log").open("ab") as log:
            self._launched = subprocess.Popen(self._command, stdout=log, stderr=log)

    def stop(self) -> None:
        self._end("stop", signal.SIGTERM)

    def kill(self) -> None:
        self._end("stop", signal.SIGKILL, "--kill")

    def end(self) -> None:
        """Stops the server in any state."""
        if self._launched is not None:
            self.kill()
        subprocess.run(
            [ORACLE, "-k", VERSION, "down", "--dir", self.home, "--kill"], capture_output=True, check=False
        )

    def _end(self, subcommand: str, number: signal.Signals, *options: str) -> None:
        if self._launched is None:
            self._call(subcommand, "--dir", str(self.home), NODE, *options)
            return
        process, self._launched = self._launched, None
        process.send_signal(number)
        process.wait(STOP_PATIENCE_S)

    def _call(self, *arguments: str) -> None:
        done = subprocess.run(
            [ORACLE, "-k", VERSION, *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(
                f"{arguments[0]} of {APACHE} failed: {done.stdout[-500:]}{done.stderr[-2000:]}"
            )
