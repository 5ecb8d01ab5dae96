"""Records the expected output of the command line's sessions with Apache Kafka's tools.

`python -m tools.record_sessions topics configs …` runs the commands of tests/data/cli/sessions/NAME.txt, one
broker of Apache Kafka 4.1.0 for each file, and rewrites the file with the output.  It needs the
oracle, a script that fetches and runs Apache Kafka; `BARNABAS_ORACLE` is its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cli.sessions.actors import Actors
from tests.cli.sessions.differences import Differences
from tests.cli.sessions.sessions import Command, Places, Session, read_session
from tools.ports import free_oracle_base

PROJECT = Path(__file__).resolve().parents[1]
SESSIONS = PROJECT / "tests" / "data" / "cli" / "sessions"
ORACLE = Path(os.environ.get("BARNABAS_ORACLE", PROJECT.parent / "shared" / "oracle" / "kafka"))
VERSION = "4.1.0"
TOOL_TIMEOUT_S = 120
# How often a command is run before its output is recorded, so that the cluster can settle.
SETTLING_ATTEMPTS = 3


def oracle(*arguments: str) -> list[str]:
    return [str(ORACLE), "-k", VERSION, *arguments]


@contextmanager
def apache_kafka(folder: Path, settings: dict[str, str]) -> Iterator[Places]:
    """A running broker, stopped at the end of the context."""
    base = free_oracle_base()
    files = folder / "files"
    files.mkdir()
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    home = str(folder / "kafka")
    subprocess.run(oracle("up", "--dir", home, "--port", str(base), *chosen), check=True, capture_output=True)
    try:
        yield Places(f"localhost:{base + 1}", f"localhost:{base + 101}", files)
    finally:
        subprocess.run(oracle("down", "--dir", home, "--kill"), check=True, capture_output=True)


def run(command: Command, places: Places) -> tuple[int, str]:
    """The exit code of Apache Kafka's tool, and both output streams in order."""
    name, *arguments = command.words(places)
    done = subprocess.run(
        oracle("tool", name, *arguments),
        input=command.input,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")


def record(session: Session, differences: Differences) -> None:
    with tempfile.TemporaryDirectory(prefix="barnabas-sessions-") as name:
        folder = Path(name)
        with apache_kafka(folder, session.settings) as places, Actors(places.server) as actors:
            session.write_files(places.files)
            for part in session.parts:
                if isinstance(part, str):
                    actors.act(part)
                    continue
                for _ in range(SETTLING_ATTEMPTS if part.settles else 1):
                    part.exit, text = run(part, places)
                plain = "\n".join(differences.without_java(text.splitlines()))
                part.output = places.normalise(plain).splitlines()
                print(f"[{part.exit}] {part.line}", file=sys.stderr)


def main(names: Sequence[str]) -> int:
    differences = Differences()
    for name in names:
        path = SESSIONS / f"{name}.txt"
        session = read_session(path)
        record(session, differences)
        path.write_text(session.text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
