"""Sessions: command lines and the output of Apache Kafka's tools, recorded by `python -m tools.record_sessions`.

A file under tests/data/cli/sessions is read from top to bottom:

    # a remark
    % set KEY=VALUE              an option that the broker of this session has
    @ plan.json {"version": 1}   a small file; FILES/plan.json names it in commands
    $ topics --bootstrap-server SERVER --list
    what was printed (both streams in the order in which they came)
    [exit 0]
    $~ topics ...                as `$`, but asked again until the output is as recorded
    $ console-producer ...
    < a line of standard input
    & join c-one group.id=g1 topic=orders       what clients do meanwhile (tests/cli/sessions/actors.py)

SERVER and CONTROLLER stand for where the broker listens, SERVERS for all brokers of a cluster, FILES for the
folder of the session.
Values that differ between runs are replaced by a word in <>: ids, times, ports.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

EXIT = re.compile(r"\[exit (\d+)\]")
NORMALISED = (
    (re.compile(r"\b(localhost|127\.0\.0\.1):\d{4,5}\b"), "SERVER"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    # 128 bits in Base64: the last of the 22 characters stands for two of them.
    (re.compile(r"(?<![\w.-])[A-Za-z0-9_-]{21}[AQgw](?![\w.-])"), "<id>"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "<time>"),
    (re.compile(r"(?<=<time>)( {5,}\t)\d+ *(?=\t)"), r"\1<duration>"),
    (re.compile(r"(?<=Epoch: )\d+$|(?<=HighWatermark:          )\d+$", re.M), "<offset>"),
    (re.compile(r"(?<=<id>\t)\d+ *(?=\t)"), "<offset>"),
    (re.compile(r"\b\d+ ms ago *"), "<time> ago"),
    (re.compile(r"(?<=localhost )\d{4,5} *"), "<port> "),
    (re.compile(r'(?<="logDir":)"[^"]*"'), '"<folder>"'),
    (re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,:]\d{3}(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    # Measurements: the format of a number stays, its digits do not.
    (re.compile(r"\b\d+\.\d(?= records/sec)"), "n.n"),
    (re.compile(r"\b\d+\.\d\d(?= (MB/sec|ms ))"), "n.nn"),
    (re.compile(r"(?<=latency: )\d+\.\d{4}(?= ms)"), "n.nnnn"),
    (re.compile(r"\b\d+(?= ms \d\d(\.9)?th)|(?<=th = )\d+"), "n"),
    (re.compile(r"^(\d+\t)\d+\.\d+$", re.M), r"\1n.n"),
    (
        re.compile(
            r"(<time>, <time>, [\d.]+), \d+\.\d{4}, (\d+), \d+\.\d{4}, \d+, \d+, \d+\.\d{4}, \d+\.\d{4}$",
            re.M,
        ),
        r"\1, n.nnnn, \2, n.nnnn, n, n, n.nnnn, n.nnnn",
    ),
)


@dataclass
class Command:
    """One command line of a session with its recorded output."""

    line: str
    settles: bool = False
    stdin: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    exit: int | None = None

    def words(self, places: Places) -> list[str]:
        return [places.fill(word) for word in shlex.split(self.line)]

    @property
    def input(self) -> bytes:
        return "".join(f"{line}\n" for line in self.stdin).encode()

    def text(self) -> str:
        mark = "$~" if self.settles else "$"
        lines = [f"{mark} {self.line}", *(f"< {one}" for one in self.stdin), *self.output]
        return "".join(f"{line}\n" for line in (*lines, f"[exit {self.exit}]"))


@dataclass(frozen=True)
class Places:
    """The addresses of the broker and the folder of a run."""

    server: str
    controller: str
    files: Path
    # All brokers of a cluster.
    servers: str = ""

    def fill(self, text: str) -> str:
        known = {
            "SERVER": self.server,
            "SERVERS": self.servers,
            "CONTROLLER": self.controller,
            "FILES": str(self.files),
        }
        return re.sub(r"\b(SERVERS?|CONTROLLER|FILES)\b", lambda found: known[found[1]], text)

    def normalise(self, text: str) -> str:
        """Replaces values that differ between runs."""
        for known, word in ((str(self.files), "FILES"), (self.controller, "CONTROLLER")):
            text = text.replace(known, word)
        for pattern, word in NORMALISED:
            text = pattern.sub(word, text)
        return text


@dataclass
class Session:
    """A file of commands: its commands and, between them, all other lines unchanged."""

    name: str
    parts: list[Command | str]

    @property
    def commands(self) -> list[Command]:
        return [part for part in self.parts if isinstance(part, Command)]

    @property
    def settings(self) -> dict[str, str]:
        return dict(text.partition("=")[::2] for text in self._after("% set "))

    def write_files(self, folder: Path) -> None:
        for text in self._after("@ "):
            name, _, content = text.partition(" ")
            (folder / name).write_text(f"{content}\n", "utf-8")

    def _after(self, mark: str) -> list[str]:
        lines = [part for part in self.parts if isinstance(part, str)]
        return [line.removeprefix(mark) for line in lines if line.startswith(mark)]

    def text(self) -> str:
        """The file."""
        return "".join(part.text() if isinstance(part, Command) else f"{part}\n" for part in self.parts)


def read_session(path: Path) -> Session:
    parts: list[Command | str] = []
    lines = path.read_text("utf-8").splitlines()
    while lines:
        line = lines.pop(0)
        if line.startswith(("$ ", "$~ ")):
            parts.append(_command(line, lines))
            continue
        assert not line or line[0] in "#%@&", f"{path.name}: what is {line!r}?"
        parts.append(line)
    return Session(path.stem, parts)


def _command(line: str, rest: list[str]) -> Command:
    """A command with its following lines.  A new one has no recorded output yet."""
    mark, _, text = line.partition(" ")
    command = Command(text, settles=mark == "$~")
    while rest and rest[0].startswith("< "):
        command.stdin.append(rest.pop(0)[2:])
    ends = (number for number, one in enumerate(rest) if EXIT.fullmatch(one) or one.startswith(("$ ", "$~ ")))
    end = next(ends, None)
    found = EXIT.fullmatch(rest[end]) if end is not None else None
    if end is not None and found is not None:
        command.output, command.exit = rest[:end], int(found[1])
        del rest[: end + 1]
    return command
