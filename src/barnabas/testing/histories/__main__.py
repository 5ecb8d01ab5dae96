"""`python -m barnabas.testing.histories FILE`: check a history of JSON lines (jsonl.py).

The exit code is 0 if there is no anomaly, 1 if there is one, and 2 if the file is no history.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from barnabas.testing.histories.checker import check
from barnabas.testing.histories.facts import HistoryError
from barnabas.testing.histories.jsonl import read_events


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.histories", description=__doc__)
    parser.add_argument("file", type=Path, help="the history")
    options = parser.parse_args(arguments)
    try:
        with options.file.open(encoding="utf-8") as lines:
            report = check(read_events(lines))
    except (HistoryError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in report.lines()))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
