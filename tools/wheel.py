"""Build the wheel, and try it as a user would: `python -m tools.wheel` (`make wheel`).

For each Python from 3.11 at hand, and once more without a compiled engine: a fresh environment, the wheel
with nothing else of this project, a broker, records to it and back, the same from a typed program.  With
`--extras` the extras are installed too, and a user's test runs with the test kit.

`--pages` follows the tutorials and how-tos instead, as a reader who has installed the wheel (`make pages`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.docs.reader import PYTHON_VARIABLE
from tools.ports import free_ports

PROJECT = Path(__file__).resolve().parents[1]
DIST = PROJECT / "dist"
LOWEST = (3, 11)
PATIENCE_S = 1_800
# Without Spark and Java, which are large; the tests run them.
EXTRAS = ("speed", "arrow", "avro", "testing", "security", "zookeeper", "tables")
PROGRAM = """\
import sys
from barnabas.client.serialization import JSON
from barnabas.client.sync import Consumer, Producer

options = {"bootstrap.servers": sys.argv[1]}
with Producer(options, value_serializer=JSON, compression_type="zstd") as producer:
    metadata = producer.send_and_wait("tried", {"n": 1})
with Consumer(options, "tried", auto_offset_reset="earliest", value_deserializer=JSON) as consumer:
    record = consumer.getone(timeout_ms=60_000)
assert record.value == {"n": 1}, record
print("ok", metadata.offset)
"""
# What the pages need beside them: the tutorials have other clients, too.
OF_PAGES = (*EXTRAS, "spark", "java")
OTHER_CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")
PAGES = ("tests/docs/test_pages.py", "-k", "commands_of_a_page or first_page")
# A user's test, which imports what the extras bring.
KIT_TEST = """\
import cryptography, deltalake, duckdb, fastavro, isal, kazoo, pyarrow, pyiceberg
from barnabas.client.sync import Producer
from barnabas.testing import Kafka


def test_a_record_arrives(kafka: Kafka) -> None:
    topic = kafka.topic("greetings")
    Producer({"bootstrap.servers": kafka.bootstrap_servers}).send_and_wait(topic.name, b'"hello"')
    assert topic.records(n=1)[0].json == "hello"
"""


def pythons() -> dict[tuple[int, int], str]:
    """One interpreter for each release from 3.11: on the path, and those of pyenv."""
    names = [f"python3.{minor}" for minor in range(LOWEST[1], 20)]
    candidates = [sys.executable, *(place for name in names if (place := shutil.which(name)))]
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates += [str(path) for path in sorted(versions.glob("*/bin/python"))]
    found: dict[tuple[int, int], str] = {}
    for candidate in candidates:
        done = subprocess.run(
            [candidate, "-c", "import sys; print(*sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            major, minor = map(int, done.stdout.split())
            if (major, minor) >= LOWEST:
                found.setdefault((major, minor), candidate)
    return dict(sorted(found.items()))


def run(*command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """The output; raises SystemExit with it if the command fails."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"$ {' '.join(command)}\n{done.stdout}\nended with {done.returncode}")
    return done.stdout


def environment(python: str, folder: Path) -> Path:
    run(python, "-m", "venv", str(folder))
    return folder / "bin" / "python"


def build(python: str, folder: Path, *, compiled: bool) -> Path:
    """The wheel, built with nothing of this environment."""
    into = folder / ("compiled" if compiled else "plain")
    switch = {"BARNABAS_COMPILE": "1" if compiled else "0"}
    run(
        python,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(into),
        str(PROJECT),
        env=switch,
    )
    (wheel,) = into.glob("barnabas-*.whl")
    return wheel


def attempt(python: str, wheel: Path, folder: Path, extras: tuple[str, ...]) -> str:
    """Install the wheel into a fresh environment, and use it where nothing else of the project is."""
    own = environment(python, folder / "venv")
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    run(str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
    barnabas = str(own.with_name("barnabas"))
    state = {"BARNABAS_STATE": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    assert run(barnabas, "--version", env=state).startswith("barnabas ")
    engine = next(line for line in run(barnabas, "doctor", env=state).splitlines() if " engine " in line)
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    for server in served(barnabas, state):
        run(barnabas, "topic", "create", "tried", "-b", server, env=state)
        assert run(str(own), "program.py", server, env=state, cwd=folder) == "ok 0\n"
        assert run(barnabas, "consume", "tried", "-b", server, "--value-only", env=state) == '{"n":1}\n'
    if "testing" in extras:
        (folder / "test_kit.py").write_text(KIT_TEST, "utf-8")
        assert "1 passed" in run(str(own), "-m", "pytest", "-q", "test_kit.py", env=state, cwd=folder)
    return re.sub(r"\s+", " ", engine).strip()[:60]


def follow_pages(python: str, folder: Path, chosen: list[str]) -> int:
    """Each page in a folder of its own, with an environment that has the wheel and nothing of the project."""
    wheel = build(python, folder, compiled=True)
    own = environment(python, folder / "venv")
    wanted = [f"{wheel}[{','.join(OF_PAGES)}]", *OTHER_CLIENTS]
    run(str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    command = [sys.executable, "-m", "pytest", "-v", *(chosen or PAGES)]
    return subprocess.run(
        command, cwd=PROJECT, env={**os.environ, PYTHON_VARIABLE: str(own)}, check=False
    ).returncode


def served(barnabas: str, state: Mapping[str, str]) -> Iterator[str]:
    """A broker of this installation, while the caller works with it."""
    (port,) = free_ports(1)
    command = [barnabas, "dev", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **state}) as broker:
        assert broker.stdout is not None
        try:
            assert "listens" in broker.stdout.readline()
            yield f"127.0.0.1:{port}"
        finally:
            broker.send_signal(signal.SIGINT)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the wheel, and try it in fresh environments.")
    parser.add_argument("--only", metavar="3.N", help="only this release of Python")
    parser.add_argument("--extras", action="store_true", help=f"with the extras {', '.join(EXTRAS)} too")
    parser.add_argument(
        "--pages", nargs=argparse.REMAINDER, metavar="TEST", help="follow the pages instead, or these of them"
    )
    options = parser.parse_args()
    found = {version: path for version, path in pythons().items() if options.only in (None, name_of(version))}
    if not found:
        raise SystemExit("there is no Python from 3.11 here")
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="barnabas-wheel-") as place:
        if options.pages is not None:
            return follow_pages(next(iter(found.values())), Path(place), options.pages)
        for version, python in found.items():
            for compiled in (True, False):
                folder = Path(place, f"{name_of(version)}-{compiled}")
                folder.mkdir()
                wheel = build(python, folder, compiled=compiled)
                kept = DIST / wheel.name
                shutil.copy(wheel, kept)
                extras = EXTRAS if options.extras and compiled else ()
                print(
                    f"Python {name_of(version)}: {wheel.name}: {attempt(python, wheel, folder, extras)}",
                    flush=True,
                )
    return 0


def name_of(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main())
