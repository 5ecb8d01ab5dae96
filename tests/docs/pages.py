"""Pages of the documentation as programs: their files and their commands, in the order of the page.

A fence with the language `console` is run: lines that start with `$ ` are commands, the others are their output.
`…` stands for anything, on a line of its own also for several lines.  A fence after `<!-- file: NAME -->` is
written to that file.  A fence with the language `sh` shows commands that take long or keep running, which
are run on request.  Fences in other languages are only shown.

A page about several hosts has their names before the `$`, and `workerN$ ` for a command that is typed on worker1,
worker2 and worker3; its files are `HOST:/PATH`.  `make verify PART=cluster` follows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
PROMPT = re.compile(r"(worker\w)?\$ ")
ANYTHING = "…"


@dataclass(frozen=True)
class Written:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass
class Command:
    """A line that the reader types, and its output."""

    line: str
    printed: list[str] = field(default_factory=list)
    # Where it is typed, on a page about several hosts.
    host: str = ""

    def prints(self, lines: list[str]) -> bool:
        """Whether the output matches the page."""
        return _match(self.printed, lines)


@dataclass(frozen=True)
class Shown:
    """A line that a reader may type; the page does not show its output."""

    line: str


def is_like(expected: str, line: str) -> bool:
    """Compares one line with one of the page."""
    return re.fullmatch(".*".join(map(re.escape, expected.split(ANYTHING))), line) is not None


def _match(expected: list[str], lines: list[str]) -> bool:
    if not expected:
        return not lines
    if expected[0] == ANYTHING:
        return any(_match(expected[1:], lines[skipped:]) for skipped in range(len(lines) + 1))
    return bool(lines) and is_like(expected[0], lines[0]) and _match(expected[1:], lines[1:])


def steps(page: str) -> list[Written | Command | Shown]:
    found: list[Written | Command | Shown] = []
    for fence in FENCE.finditer(page):
        if fence["file"]:
            found.append(Written(fence["file"], fence["text"]))
        elif fence["language"] == "console":
            found += commands(fence["text"])
        elif fence["language"] == "sh":
            lines = fence["text"].replace("\\\n", "").splitlines()
            found += [Shown(line) for line in lines if line]
    return found


def commands(text: str) -> list[Command]:
    found: list[Command] = []
    for line in text.splitlines():
        prompt = PROMPT.match(line)
        if prompt:
            found.append(Command(line[prompt.end() :], host=prompt[1] or ""))
        else:
            found[-1].printed.append(line)
    return found


def pages(docs: Path) -> list[Path]:
    """The pages with commands to run on this host."""
    return sorted(path for path in docs.rglob("*.md") if "```console\n$ " in path.read_text("utf-8"))
