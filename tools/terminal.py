"""Records what the commands show in a terminal of 80 columns.

`python -m tools.terminal` types the commands of tests/data/cli/terminal/NAME.txt into tmux, each session in a
window of its own, and rewrites the files with what the windows show; names after it choose files.  A file is
played from top to bottom with brokers and state folder of its own.  tests/cli/terminal replays them.

    = title                       a new session, in a new window
    $ command                     is typed; then follows what the window shows
    $ command  #> TEXT            Ctrl+C is pressed once the window shows TEXT
    $ command  #~                 its lines are data, and may be longer than the window is wide

PORT stands for the port of the broker.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tools.ports import free_ports

PROJECT = Path(__file__).resolve().parents[1]
RECORDED = PROJECT / "tests" / "data" / "cli" / "terminal"
COLUMNS = 80
# So high that nothing scrolls away: a help text has a hundred lines.
LINES = 200
PATIENCE_S = 120
LOOK_AGAIN_S = 0.1
PORT = "PORT"
READY = "ready"


@dataclass
class Typed:
    """One command, what stops it, and the lines that the window showed, as wide as the window or wider."""

    line: str
    until: str = ""
    is_data: bool = False
    shown: list[str] = field(default_factory=list)


@dataclass
class Session:
    title: str
    typed: list[Typed] = field(default_factory=list)


def read_sessions(path: Path) -> list[Session]:
    sessions: list[Session] = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("= "):
            sessions.append(Session(line[2:]))
        elif line.startswith("$ "):
            text, _, until = line[2:].partition("  #> ")
            text, mark, _ = text.partition("  #~")
            sessions[-1].typed.append(Typed(text, until, bool(mark)))
        elif sessions:
            sessions[-1].typed[-1].shown.append(line)
    for session in sessions:
        for typed in session.typed:
            typed.shown = _without_blank_ends(typed.shown)
    return sessions


def write_sessions(path: Path, sessions: list[Session]) -> None:
    lines = []
    for session in sessions:
        lines.append(f"= {session.title}")
        for typed in session.typed:
            mark = "  #~" * typed.is_data + f"  #> {typed.until}" * bool(typed.until)
            lines += [f"$ {typed.line}{mark}", *typed.shown]
        lines.append("")
    path.write_text("\n".join(lines), "utf-8")


class Terminal:
    """A tmux server of its own, whose windows know one environment."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self._folder = folder
        (self.port,) = free_ports(1)
        home = folder / "home"
        home.mkdir()
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "PS1": "$ ",
            "PROMPT_COMMAND": f"{shlex.join(self._tmux('wait-for', '-S', READY))} 2>/dev/null",
            "BARNABAS_STATE": str(folder / "state"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "NO_COLOR": "1",
        }
        # The server ends with its last session.
        self._call("new-session", "-d", "-s", "keep", "cat")

    @contextmanager
    def broker(self) -> Iterator[None]:
        """The one that the commands find."""
        command = [sys.executable, "-m", "barnabas", "dev", "--port", str(self.port)]
        environment = {**os.environ, **self._environment}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            try:
                assert "listens on" in process.stdout.readline()
                yield
            finally:
                process.terminate()

    def run(self, line: str) -> None:
        """A command, outside of the windows."""
        subprocess.run(
            ["/bin/sh", "-c", line],
            check=True,
            capture_output=True,
            env=self._environment,
            timeout=PATIENCE_S,
        )

    def open(self, program: str) -> None:
        """A window with a shell."""
        size = ("-x", str(COLUMNS), "-y", str(LINES))
        values = [f"{name}={value}" for name, value in self._environment.items()]
        shell = f"{shlex.join(['env', '-i', *values])} {program}"
        self._call("new-session", "-d", "-s", "s", *size, "-c", str(self._folder), shell)

    def close(self) -> None:
        self._call("kill-session", "-t", "s")

    def press(self, text: str, key: str) -> None:
        if text:
            self._call("send-keys", "-t", "s", "-l", text)
        self._call("send-keys", "-t", "s", key)

    def await_text(self, text: str, first: int = 0) -> None:
        """In the line with this number, or below it."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(text in line for line in self._lines()[first:]):
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(self._lines()))
            time.sleep(LOOK_AGAIN_S)

    def play(self, session: Session) -> None:
        """Types the commands of a session, and takes down what they show."""
        self.open("bash --norc")
        try:
            self._await_prompt()
            for typed in session.typed:
                self._type(typed)
        finally:
            self.close()

    def _type(self, typed: Typed) -> None:
        before = self._lines()
        # The prompt of the last line stays; what is typed comes behind it.
        above = len(before) - 1
        line = typed.line.replace(PORT, str(self.port))
        self._call("send-keys", "-t", "s", "-l", line)
        self._call("send-keys", "-t", "s", "Enter")
        shown: list[str] | None = None
        if typed.until:
            self.await_text(typed.until, above + 1)
            if typed.line.startswith("barnabas top "):
                # It clears the window.
                above, shown = -1, self._lines()
            self._call("send-keys", "-t", "s", "C-c")
        self._await_prompt()
        after = shown if shown is not None else self._lines()[:-1]
        typed.shown = [self._general(one) for one in _without_blank_ends(after[above + 1 :])]

    def _await_prompt(self) -> None:
        try:
            self._call("wait-for", READY)
        except subprocess.TimeoutExpired:
            raise TimeoutError("\n".join(self._lines())) from None
        # bash prints the prompt behind the command that reported it.
        deadline = time.monotonic() + PATIENCE_S
        while not (lines := self._lines()) or lines[-1][-1:] != "$":
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(lines))
            time.sleep(LOOK_AGAIN_S)

    def _lines(self) -> list[str]:
        """What the window shows; a line that the window has wrapped is one line."""
        shown = self._call("capture-pane", "-p", "-J", "-t", "s")
        return _without_blank_ends([line.rstrip() for line in shown.splitlines()])

    def _general(self, line: str) -> str:
        """Without the number of the port and the name of the folder: as long as before."""
        port = str(self.port)
        line = re.sub(rf"\b{port}\b", PORT.ljust(len(port), "·"), line)
        return line.replace(str(self._folder), "FOLDER".ljust(len(str(self._folder)), "·"))

    def _tmux(self, *arguments: str) -> list[str]:
        return ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            self._tmux(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        return done.stdout

    def end(self) -> None:
        """Stops what runs in the windows."""
        with suppress(subprocess.CalledProcessError):
            self._call("kill-server")


def _without_blank_ends(lines: list[str]) -> list[str]:
    """Blank lines at the end say nothing about a window."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


@contextmanager
def terminal() -> Iterator[Terminal]:
    """In a folder with a short name, as a user's would be."""
    folder = Path(tempfile.mkdtemp(prefix="b-", dir="/tmp"))
    made = Terminal(folder)
    try:
        with made.broker():
            yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def is_wider(line: str) -> bool:
    return len(line) > COLUMNS


def main() -> int:
    chosen = sys.argv[1:]
    for path in sorted(RECORDED.glob("*.txt")):
        if chosen and path.stem not in chosen:
            continue
        sessions = read_sessions(path)
        with terminal() as window:
            for session in sessions:
                print(f"{path.stem}: {session.title}", file=sys.stderr)
                window.play(session)
        write_sessions(path, sessions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
