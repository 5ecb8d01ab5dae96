"""How a ZooKeeper server is started: the Java, the jars, and the command line.

ZooKeeper's jars come with PySpark, or with an installed ZooKeeper or Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.runtime.java import NoJavaError, find_java

OLDEST_JAVA = 11
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOG_SETTINGS = Path(__file__).parent / "log4j2.properties"
# As in Kafka's script; KAFKA_HEAP_OPTS and SERVER_JVMFLAGS change it, as they do there and in zkServer.sh.
DEFAULT_HEAP = "-Xmx512M -Xms512M"
# Programs that listen soon matter more here than the last few percent of a server that runs for months.
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Dlog4j2.disableJmx=true",
    "-Djava.awt.headless=true",
)
# The web page for administrators listens at a fixed port, and its libraries are not in the wheel.
# `srvr` tells the mode of a server.
SERVER_OPTIONS = (
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.4lw.commands.whitelist=srvr,ruok,isro",
)
_JARS = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j*-impl-*.jar",
    "snappy-java-*.jar",
    "metrics-core-*.jar",
    "commons-io-*.jar",
)
# TLS between servers and towards clients needs these.
_NETTY = "netty-*.jar"
_HOMES = (("ZOOKEEPER_HOME", "lib"), ("KAFKA_HOME", "libs"))
_COMMON_PLACES = ("/usr/share/zookeeper/lib", "/opt/zookeeper/lib", "/opt/kafka/libs")


class NoZooKeeperError(CommandError):
    """There is no ZooKeeper to run, or no Java to run it on; the message says what to install."""

    def __init__(self, message: str) -> None:
        super().__init__(f"barnabas: {message}", Exit.NOT_FOUND)


def java() -> Path:
    try:
        return find_java("ZooKeeper", OLDEST_JAVA)
    except NoJavaError as error:
        raise NoZooKeeperError(str(error)) from error


def class_path() -> list[Path]:
    """The jars of an installation that the environment names, PySpark's, or those in a common place."""
    for folder in _folders():
        if any(folder.glob("zookeeper-*.jar")):
            return _jars(folder)
    raise NoZooKeeperError(
        "there is no ZooKeeper here: let PyPI bring its jars: pip install 'barnabas[spark]', or set "
        "ZOOKEEPER_HOME to the folder of an installed one"
    )


def command_line(
    config: str | Path, *, jvm_options: Sequence[str] = (), heap: str | None = None
) -> list[str]:
    """The command that runs a server in the foreground; it logs to its standard output."""
    options = heap if heap is not None else os.environ.get("KAFKA_HEAP_OPTS", DEFAULT_HEAP)
    given = f"{options} {os.environ.get('SERVER_JVMFLAGS', '')}".split()
    return [
        str(java()),
        *JVM_OPTIONS,
        *SERVER_OPTIONS,
        f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}",
        *jvm_options,
        *given,
        "-cp",
        os.pathsep.join(str(jar) for jar in class_path()),
        MAIN_CLASS,
        str(config),
    ]


def _folders() -> list[Path]:
    folders = [Path(os.environ[variable]) / folder for variable, folder in _HOMES if os.environ.get(variable)]
    spec = find_spec("pyspark")
    if spec is not None and spec.submodule_search_locations:
        folders.append(Path(spec.submodule_search_locations[0]) / "jars")
    return [*folders, *map(Path, _COMMON_PLACES)]


def _jars(folder: Path) -> list[Path]:
    """PySpark has hundreds, and Java opens each that is named; an installation has what it needs."""
    if folder.parent.name != "pyspark":
        return sorted(folder.glob("*.jar"))
    return sorted({jar for pattern in (*_JARS, _NETTY) for jar in folder.glob(pattern)})
