"""Apache Kafka beside ours, where the oracle is at hand: one node with its own start script's settings."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ORACLE = Path(os.environ.get("BARNABAS_ORACLE", PROJECT.parent / "shared" / "oracle" / "kafka"))
VERSION = "4.1.0"
APACHE = f"Apache Kafka {VERSION}"
NODE = "broker-1"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# A broker listens on the base port + 1, its controller on + 101.
PORT_BASES = range(24_000, 60_000, 211)


class ApacheServer:
    """A KRaft node, broker and controller in one, in a folder of its own."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._base = free_port_base()
        self._is_made = False

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._base + 1

    @property
    def rss_bytes(self) -> int:
        pid = int((self.home / NODE / "pid").read_text().split()[0])
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES

    def start(self) -> None:
        if self._is_made:
            self._call("start", "--dir", str(self.home), NODE)
            return
        self._is_made = True
        given = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        place = ("--dir", str(self.home), "--mode", "kraft", "--port", str(self._base))
        self._call("up", *place, "--as-shipped", *given)

    def stop(self) -> None:
        self._call("stop", "--dir", str(self.home), NODE)

    def kill(self) -> None:
        self._call("stop", "--dir", str(self.home), NODE, "--kill")

    def end(self) -> None:
        """Whatever state it is in."""
        subprocess.run(
            [ORACLE, "-k", VERSION, "down", "--dir", self.home, "--kill"], capture_output=True, check=False
        )

    def _call(self, *words: str) -> None:
        done = subprocess.run([ORACLE, "-k", VERSION, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{words[0]} of {APACHE} failed: {done.stdout[-500:]}{done.stderr[-2000:]}")


def free_port_base() -> int:
    for base in PORT_BASES:
        try:
            for port in (base + 1, base + 101):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise RuntimeError("no free ports")
