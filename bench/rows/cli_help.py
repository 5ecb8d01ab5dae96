"""How long a person waits for `barnabas --help`: it must import next to nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping

from bench.registry import OURS, Contender, Workbench, row


@row("cli-help", "barnabas --help (may take 150 ms)", unit="ms", higher_is_better=False)
def cli_help(_bench: Workbench) -> Mapping[str, Contender]:
    return {
        OURS: lambda: milliseconds("-m", "barnabas", "--help"),
        "Python alone": lambda: milliseconds("-c", "pass"),
    }


def milliseconds(*arguments: str) -> float:
    start = time.monotonic_ns()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return (time.monotonic_ns() - start) / 1e6
