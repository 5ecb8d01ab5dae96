"""kfake, the broker of franz-go for tests in Go: a process that measures itself, built from its Go module."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.registry import Contender

KFAKE = "kfake (Go)"
SOURCE = Path(__file__).resolve().parent / "go" / "kfake"


class KfakeProcess:
    """One process; each command is answered by a line of milliseconds."""

    def __init__(self, folder: Path) -> None:
        program = folder / "kfake"
        subprocess.run(
            ["go", "build", "-o", str(program), "."],
            cwd=SOURCE,
            env={**os.environ, "GOFLAGS": "-mod=readonly"},
            check=True,
        )
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def measure(self, command: str) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        return [float(word) for word in self._process.stdout.readline().split()]

    def start_and_stop(self, brokers: int) -> dict[str, float]:
        start, stop = self.measure(f"start {brokers}")
        return {"start": start, "stop": stop}

    def topics(self) -> float:
        (total,) = self.measure("topics")
        return total

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def kfake(
    folder: Path, stack: ExitStack, measure: Callable[[KfakeProcess], Contender]
) -> Mapping[str, Contender]:
    """The contender of a row, in a process of its own; none without a Go compiler."""
    if shutil.which("go") is None:
        return {}
    process = KfakeProcess(folder)
    stack.callback(process.close)
    return {KFAKE: measure(process)}
