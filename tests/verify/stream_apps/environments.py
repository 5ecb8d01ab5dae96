"""Dependencies of stream applications beyond barnabas and Apache Kafka's broker, kept for the next run.

Fetches Kafka Streams' jars and an environment with Quix Streams, once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = Path(__file__).resolve().parents[3]
KEPT = Path(os.environ.get("BARNABAS_VERIFY_CACHE", Path.home() / ".cache" / "barnabas-verify"))
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
QUIX_STREAMS = "quixstreams==3.28.1"
FASTSTREAM = "faststream[kafka]==0.7.4"


def streams_jars() -> Path:
    """The folder of Kafka Streams' jars."""
    jars = KEPT / "streams-4.1.0"
    if not (jars / "complete").exists():
        pom = HERE / "streams-pom.xml"
        _run("mvn", "-q", "-B", "-f", str(pom), COPY_GOAL, f"-DoutputDirectory={jars}")
        (jars / "complete").touch()
    return jars


def quix_python() -> Path:
    """A Python with Quix Streams; it wants versions of its own of what we test with."""
    folder = KEPT / QUIX_STREAMS.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", QUIX_STREAMS)
        (folder / "complete").touch()
    return python


def example_python(framework: str) -> Path:
    """A Python for one of the examples in examples/testing: this one, or one with the framework, pytest, and what
    barnabas itself needs."""
    packages = {"faststream": FASTSTREAM, "quix_streams": QUIX_STREAMS}.get(framework)
    if packages is None:
        return Path(sys.executable)
    folder = KEPT / f"example-{framework}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
        wanted = [packages, *project["dependencies"], *project["optional-dependencies"]["testing"]]
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
        (folder / "complete").touch()
    return python


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-3000:]}"
