"""Replays recorded sessions with barnabas' tools and compares: `replay(session, places, differences)`.

The commands run in this process, through the same entry point as any command line.  Both streams are captured
in order, as in the recording.
"""

from __future__ import annotations

import difflib
import io
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from barnabas.cli.framework.exits import Exit
from barnabas.cli.main import main
from tests.cli.sessions.actors import Actors
from tests.cli.sessions.differences import Differences
from tests.cli.sessions.sessions import Command, Places, Session, read_session
from tools.ports import free_ports
from tools.raw_broker import BrokerProcess

SESSIONS = Path(__file__).parents[2] / "data" / "cli" / "sessions"
# An upper bound for commands that are retried until the cluster settles.
SETTLING_S = 120
PAUSE_S = 0.2


def session(name: str) -> Session:
    return read_session(SESSIONS / f"{name}.txt")


@contextmanager
def own_broker(folder: Path, settings: dict[str, str]) -> Iterator[Places]:
    """A broker in a separate process with a reachable controller; its log must not contain errors."""
    port, controller_port = free_ports(2)
    files = folder / "files"
    files.mkdir()
    chosen = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://localhost:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "controller.quorum.voters": f"1@localhost:{controller_port}",
        **settings,
    }
    broker = BrokerProcess(folder, *(w for k, v in chosen.items() for w in ("--override", f"{k}={v}")))
    with broker:
        yield Places(f"localhost:{port}", f"localhost:{controller_port}", files)
    assert not broker.faults, "\n".join(broker.faults)


def run_ours(words: list[str], stdin: bytes = b"") -> tuple[int, str, str]:
    """The exit code, both streams in order, and stderr."""
    both = io.StringIO()
    errors = io.StringIO()
    with (
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        mock.patch.object(sys, "stdout", _Stream(both)),
        mock.patch.object(sys, "stderr", _Stream(both, errors)),
    ):
        code = main(words)
    return code, both.getvalue(), errors.getvalue()


class _Stream(io.TextIOWrapper):
    """A text stream, with bytes below it, that writes to one place or to two."""

    def __init__(self, *places: io.StringIO) -> None:
        super().__init__(_Bytes(*places), encoding="utf-8", write_through=True)


class _Bytes(io.BytesIO):
    def __init__(self, *places: io.StringIO) -> None:
        super().__init__()
        self._places = places

    def write(self, data: object) -> int:
        text = bytes(data)  # type: ignore[call-overload]
        for place in self._places:
            place.write(text.decode(errors="replace"))
        return len(text)


def replay(recorded: Session, places: Places, differences: Differences) -> None:
    """Runs all commands; reports differences at the end, with both outputs."""
    with Actors(places.server) as actors:
        faults = faults_of(recorded, places, differences, actors)
    assert not faults, "\n\n".join(faults)


def faults_of(recorded: Session, places: Places, differences: Differences, actors: Actors) -> list[str]:
    recorded.write_files(places.files)
    faults = []
    for part in recorded.parts:
        if isinstance(part, str):
            actors.act(part)
            continue
        fault = fault_of(part, places, differences)
        deadline = time.monotonic() + SETTLING_S
        while fault and part.settles and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            fault = fault_of(part, places, differences)
        if fault:
            faults.append(f"{recorded.name}: $ {part.line}\n{fault}")
    return faults


def fault_of(command: Command, places: Places, differences: Differences) -> str:
    """The difference from the recorded output; empty if there is none."""
    assert command.exit is not None, f"not recorded yet: {command.line}"
    code, both, errors = run_ours(command.words(places), command.input)
    if differences.is_absent(command.line):
        return "" if code == Exit.USAGE and "unknown command" in errors else f"the tool exists: {both}"
    kafka = "\n".join(command.output)
    wanted_code = differences.exit_of_ours(command.line, kafka, command.exit)
    wanted, unordered = differences.output_of_ours(command.line, kafka)
    seen = places.normalise("\n".join(differences.without_advice(both.splitlines())))
    seen = differences.without_random(command.line, seen)
    faults = []
    if code != wanted_code:
        faults.append(f"ended with {code}, not {wanted_code} (Apache Kafka: {command.exit})")
    if _shaken(wanted.rstrip("\n"), unordered) != _shaken(seen.rstrip("\n"), unordered):
        faults += difflib.ndiff(wanted.splitlines(), seen.splitlines())
    if code and not errors and not differences.is_report(command.line):
        faults.append("failed, and said nothing on stderr")
    return "\n".join(faults)


def _shaken(text: str, unordered: bool | str) -> object:
    if not unordered:
        return text
    if unordered == "lines":
        return sorted(text.splitlines())
    return sorted(sorted(re.findall(r"[^\s,\[\]]+", line)) for line in text.splitlines())
