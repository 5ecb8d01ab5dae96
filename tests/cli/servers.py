"""Server processes for the tests of the commands that start and stop them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from barnabas.cli.main import main
from tools.ports import free_ports

PATIENCE_S = 300


class Site:
    """The folders of a machine: configuration, data, state and logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.controller_port = free_ports(2)
        self.config = folder / "server.properties"
        self.data = folder / "data"
        self.write()

    def write(self, **overrides: str) -> None:
        given = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.data),
            **{name.replace("_", "."): value for name, value in overrides.items()},
        }
        self.config.write_text("".join(f"{name}={value}\n" for name, value in given.items()), "utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "barnabas", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def format(self) -> None:
        assert main(["storage", "format", "-t", "IbvkabpoSYqtPFrap8D0hg", "-c", str(self.config)]) == 0

    def start(self, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run("server-start", "-daemon", str(self.config), *options)
