"""A local cluster for tests: commands as a user types them, in a folder and a state folder of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from barnabas.cli.main import main
from tests.cli.conftest import CommandResult

PATIENCE_S = 120


class LocalCluster:
    """`cluster.run("up")`: barnabas cluster up, in this folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cluster"
        self.environment = {
            "BARNABAS_STATE": str(folder / "state"),
            "BARNABAS_CLUSTER": str(self.folder),
        }

    def barnabas(self, *arguments: str, given: str = "") -> CommandResult:
        """Runs a command in this process, which saves its imports."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment),
            mock.patch.object(sys, "stdin", io.StringIO(given)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main(arguments)
        return CommandResult(code, out.getvalue(), err.getvalue())

    def start(self, *arguments: str) -> CommandResult:
        """Runs a command that starts nodes: they are forked, which this process with its threads must not be."""
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", "cluster", *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def run(self, *arguments: str) -> CommandResult:
        return self.barnabas("cluster", *arguments)

    def status(self) -> dict[Any, dict[str, Any]]:
        lines = self.run("status", "-o", "jsonl").out.splitlines()
        return {row["node"]: row for row in map(json.loads, lines)}

    def timeline(self, *arguments: str) -> list[dict[str, Any]]:
        done = self.barnabas("timeline", "-o", "jsonl", *arguments)
        assert done.code == 0, done.err
        return [json.loads(line) for line in done.out.splitlines()]

    @property
    def layout(self) -> dict[str, Any]:
        layout: dict[str, Any] = json.loads((self.folder / "cluster.json").read_text("utf-8"))
        return layout

    def controller(self, node_id: int) -> str:
        ports = {node["id"]: node["controller_port"] for node in self.layout["nodes"]}
        return f"127.0.0.1:{ports[node_id]}"

    @property
    def servers(self) -> str:
        nodes = self.layout["nodes"]
        return ",".join(f"127.0.0.1:{node['broker_port']}" for node in nodes if node["broker_port"])
