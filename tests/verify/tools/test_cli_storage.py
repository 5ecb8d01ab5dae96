"""Folders that our storage command formats, in the hands of Apache Kafka; and its folders in ours."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.metadata.features import FEATURES, METADATA_VERSIONS, OLDEST_METADATA_VERSION
from tools.ports import free_ports

JAVA = Path(__file__).parents[1] / "java"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
OTHER_CLUSTER = "5L6g3nShT-eMCtK--X86sv"
DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"
READY_TIMEOUT_S = 120
SCRAM = 'SCRAM-SHA-256=[name=alice,password=alice-secret,salt="QSXCR+Q6sek8bf92"]'


def barnabas(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
    )


def write_properties(path: Path, **values: str) -> None:
    path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in values.items()), "utf-8")


def node(folder: Path, *, dynamic: bool = False) -> tuple[Path, int]:
    """The configuration of one combined node in this folder; its file and the clients' port."""
    port, controller = free_ports(2)
    quorum = {"controller_quorum_bootstrap_servers": f"localhost:{controller}"}
    if not dynamic:
        quorum = {"controller_quorum_voters": f"1@localhost:{controller}"}
    write_properties(
        folder / "server.properties",
        process_roles="broker,controller",
        node_id="1",
        listeners=f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        log_dirs=f"{folder}/d1,{folder}/d2",
        offsets_topic_replication_factor="1",
        **quorum,
    )
    return folder / "server.properties", port


@contextmanager
def apache_broker(libs: Path, config: Path, port: int) -> Iterator[Path]:
    """A real broker on a folder that is formatted already; its log file."""
    log = config.with_name("broker.log")
    with log.open("wb") as output:
        command = ["java", "-Xmx512m", f"-Dlog4j.configuration=file:{libs}/log4j1-WARN.properties"]
        command += [f"-Dlog4j2.configurationFile={libs}/log4j2-WARN.properties"]
        command += ["-cp", f"{libs}/*", "kafka.Kafka", str(config)]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            assert process.poll() is None, f"the broker ended:\n{log.read_text('utf-8')[-3000:]}"
            assert time.monotonic() < deadline, (
                f"the broker does not listen:\n{log.read_text('utf-8')[-3000:]}"
            )
            try:
                socket.create_connection(("localhost", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


@pytest.mark.parametrize(("version", "release"), [("4.1.0", "4.1"), ("4.1.0", "3.9"), ("3.9.1", "3.9")])
def test_apache_kafka_starts_on_a_static_quorum_of_ours(
    kafka_libs: Callable[[str], Path],
    kafka_tool: Callable[..., Any],
    tmp_path: Path,
    version: str,
    release: str,
) -> None:  # M-C2
    config, port = node(tmp_path)
    done = barnabas(
        "storage", "format", "-t", CLUSTER, "-c", str(config), "-r", release, "--add-scram", SCRAM
    )
    assert done.returncode == 0, done.stderr
    with apache_broker(kafka_libs(version), config, port) as log:
        server = ("--bootstrap-server", f"localhost:{port}")
        assert CLUSTER in kafka_tool(version, "cluster", "cluster-id", *server).stdout
        shown = kafka_tool(version, "features", *server, "describe").stdout
        finalized = dict(re.findall(r"Feature: (\S+)\t.*FinalizedVersionLevel: (\S+)", shown))
        assert finalized["metadata.version"] == {"4.1": "4.1-IV1", "3.9": "3.9-IV0"}[release]
        if version == "4.1.0":
            expected = {"4.1": ("2", "1", "1"), "3.9": ("0", "0", "0")}[release]
            names = ("transaction.version", "group.version", "eligible.leader.replicas.version")
            assert tuple(finalized[name] for name in names) == expected
        users = kafka_tool(version, "configs", *server, "--describe", "--entity-type", "users").stdout
        assert (
            "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=4096" in users
        )
    assert "ERROR" not in log.read_text("utf-8")
    # What Apache Kafka has made of our folders, ours can read.
    info = barnabas("storage", "info", "-c", str(config))
    assert info.returncode == 0, info.stdout
    metadata = tmp_path / "d1" / "__cluster_metadata-0" / "00000000000000000000.log"
    dumped = barnabas("dump-log", "--cluster-metadata-decoder", "--files", str(metadata))
    assert dumped.returncode == 0, dumped.stderr
    assert '"type":"USER_SCRAM_CREDENTIAL_RECORD"' in dumped.stdout


def test_apache_kafka_starts_on_a_dynamic_quorum_of_ours(
    kafka_libs: Callable[[str], Path], kafka_tool: Callable[..., Any], tmp_path: Path
) -> None:  # M-C2
    config, port = node(tmp_path, dynamic=True)
    done = barnabas("storage", "format", "-t", CLUSTER, "-c", str(config), "--standalone")
    assert done.returncode == 0, done.stderr
    directory = re.search(r"directory.id=(\S+)", (tmp_path / "d1" / "meta.properties").read_text("utf-8"))
    assert directory is not None
    with apache_broker(kafka_libs("4.1.0"), config, port):
        server = ("--bootstrap-server", f"localhost:{port}")
        quorum = kafka_tool("4.1.0", "metadata-quorum", *server, "describe", "--status").stdout
        assert f'CurrentVoters:          [{{"id": 1, "directoryId": "{directory[1]}", "endpoints":' in quorum
        shown = kafka_tool("4.1.0", "features", *server, "describe").stdout
        assert re.search(r"Feature: kraft.version\t.*FinalizedVersionLevel: 1", shown)


@pytest.mark.parametrize("version", ["4.1.0", "3.9.1"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_info_of_folders_that_apache_kafka_formatted(
    kafka_tool: Callable[..., Any], tmp_path: Path, version: str, dynamic: bool
) -> None:
    config, _ = node(tmp_path, dynamic=dynamic)
    more = ["--standalone"] if dynamic else []
    done = kafka_tool(version, "storage", "format", "-t", CLUSTER, "-c", str(config), *more)
    assert done.returncode == 0, done.stderr
    theirs = kafka_tool(version, "storage", "info", "-c", str(config))
    ours = barnabas("storage", "info", "-c", str(config))
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout) != (1, "")
    # Formatting again is refused by both in the same words, but for the folder that they name first.
    refused = barnabas("storage", "format", "-t", CLUSTER, "-c", str(config), *more)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert re.fullmatch(rf"Log directory {tmp_path}/d[12] is already formatted\. Use .*\n", refused.stderr)
    ignored = barnabas("storage", "format", "-t", CLUSTER, "-c", str(config), "-g", *more)
    assert ignored.stdout == "All of the log directories are already formatted.\n"


def test_bootstrap_files_are_byte_for_byte_alike(kafka_tool: Callable[..., Any], tmp_path: Path) -> None:
    """But for times and CRCs, which the dump's fixed texts are cleared of."""
    dumps = []
    voters = f"1@localhost:9999:{DIRECTORY}"
    for name in ("theirs", "ours"):
        folder = tmp_path / name
        folder.mkdir()
        config, _ = node(folder, dynamic=True)
        arguments = (
            "storage",
            "format",
            "-t",
            CLUSTER,
            "-c",
            str(config),
            "-I",
            voters,
            "--add-scram",
            SCRAM,
        )
        done = kafka_tool("4.1.0", *arguments) if name == "theirs" else barnabas(*arguments)
        assert done.returncode == 0, done.stderr
        sizes = {
            str(path.relative_to(folder)): path.stat().st_size
            for path in sorted(folder.rglob("*.checkpoint"))
        }
        files = ",".join(sizes)
        dumped = barnabas("dump-log", "--cluster-metadata-decoder", "--files", files, cwd=folder).stdout
        dumps.append((sizes, re.sub(r"(CreateTime: |crc: |Timestamp\":)\d+", r"\1N", dumped)))
    assert dumps[0] == dumps[1]
    assert len(dumps[0][0]) == 3


def cases() -> list[tuple[str, ...]]:
    """Command lines for both tools, in this order; {dir} is each one's own folder."""
    static, dynamic, broker = "{dir}/static", "{dir}/dynamic", "{dir}/broker"
    form = ("format", "-t", CLUSTER, "-c")
    return [
        ("version-mapping",),
        *(
            ("version-mapping", "-r", release)
            for release in ("3.3", "3.9", "4.0", "4.1-IV0", "4.2-IV1", "2.8", "x")
        ),
        *(
            ("feature-dependencies", "-f", text)
            for text in (
                "metadata.version=7",
                "metadata.version=6",
                "kraft.version=1",
                "foo=1",
                "group.version=9",
            )
        ),
        ("feature-dependencies", "-f", "eligible.leader.replicas.version=1", "-f", "transaction.version=x"),
        ("info", "-c", static),
        *(
            (*form, static, "-f", text)
            for text in ("foo=1", "group.version=9", "group.version=x", "kraft.version=1")
        ),
        (*form, static, "-f", "metadata.version=21", "-r", "3.9"),
        *((*form, static, "-r", text) for text in ("4.2-IV0", "2.8")),
        (*form, static, "-r", "3.9", "-f", "eligible.leader.replicas.version=1"),
        *(
            (*form, static, "-S", text)
            for text in (
                "SCRAM-SHA-256",
                "SCRAM-SHA-1=[name=a]",
                "SCRAM-SHA-256=[nam=e]",
                "SCRAM-SHA-256=[name=a,iterations=1,password=b]",
                "SCRAM-SHA-512=[name=a,iterations=99999,password=b]",
                "SCRAM-SHA-256=[name=a,password=b,what=c]",
            )
        ),
        (*form, static, "-r", "3.4", "-S", SCRAM),
        (*form, static),
        (*form, static, "-g"),
        ("info", "-c", static),
        ("format", "-t", OTHER_CLUSTER, "-c", static, "-g"),
        (*form, dynamic),
        (*form, dynamic, "-s", "-f", "kraft.version=0"),
        (*form, dynamic, "-s", "-r", "3.8"),
        *((*form, dynamic, "-I", text) for text in ("x", "1@h", f"1@h:99999:{DIRECTORY}", "1@h:1:x", ",")),
        (*form, dynamic, "-N", "-f", "kraft.version=1"),
        (*form, broker, "-s"),
        (*form, broker, "-I", f"3@localhost:19093:{DIRECTORY}"),
        ("info", "-c", broker),
    ]


def prepare(folder: Path) -> None:
    folder.mkdir()
    common = {"listeners": "PLAINTEXT://localhost:19092,CONTROLLER://localhost:19093"}
    common |= {
        "controller_listener_names": "CONTROLLER",
        "process_roles": "broker,controller",
        "node_id": "1",
    }
    write_properties(
        folder / "static", log_dirs=f"{folder}/d1", controller_quorum_voters="1@localhost:19093", **common
    )
    bootstrap = {"controller_quorum_bootstrap_servers": "localhost:19093"}
    write_properties(folder / "dynamic", log_dirs=f"{folder}/d2", **bootstrap, **common)
    common |= {"process_roles": "broker", "node_id": "5", "listeners": "PLAINTEXT://localhost:19092"}
    write_properties(
        folder / "broker", log_dirs=f"{folder}/d3", metadata_log_dir=f"{folder}/d4", **bootstrap, **common
    )


def masked(lines: list[str], folder: Path) -> list[str]:
    """Without what differs from run to run.  Folders are formatted in any order: they are compared sorted."""
    text = "\n".join(lines).replace(str(folder), "{dir}")
    return sorted(re.sub(r"directory.id=[\w-]{22}", "directory.id=N", text).splitlines())


def test_both_say_the_same(run_java: Callable[..., str], tmp_path: Path) -> None:
    lists: list[list[tuple[int, list[str]]]] = []
    for name in ("theirs", "ours"):
        folder = tmp_path / name
        prepare(folder)
        commands = [[part.format(dir=folder) for part in case] for case in cases()]
        ended: list[tuple[int, list[str]]] = []
        if name == "theirs":
            lines = "\n".join("\t".join(command) for command in commands) + "\n"
            (tmp_path / "cases").write_text(lines, "utf-8")
            printed = run_java("4.1.0", JAVA / "StorageCases.java", str(tmp_path / "cases"))
            for block in printed.split("=> ")[1:]:
                code, *rest = block.splitlines()
                ended.append(
                    (int(code), masked([line[3:] if line[0] == "!" else line[2:] for line in rest], folder))
                )
        else:
            for command in commands:
                done = barnabas("storage", *command)
                ended.append(
                    (done.returncode, masked((done.stdout + "\n" + done.stderr).splitlines(), folder))
                )
        lists.append(ended)
    theirs, ours = lists
    assert len(theirs) == len(ours) == len(cases())
    for case, expected, found in zip(cases(), theirs, ours, strict=True):
        assert (found[0], [line for line in found[1] if line]) == (
            expected[0],
            [line for line in expected[1] if line],
        ), case


def test_the_table_of_feature_levels(run_java: Callable[..., str]) -> None:
    versions = METADATA_VERSIONS[OLDEST_METADATA_VERSION.level - 1 :]
    expected = [f"metadata.version {v.level} {v} {str(v.stable).lower()}" for v in versions]
    for feature in FEATURES:
        expected.append(f"feature {feature.name} {feature.latest_stable}")
        for level in feature.levels:
            needed = ", ".join(f"{name}={number}" for name, number in level.dependencies.items())
            expected.append(f"level {level.level} {level.default_from} {{{needed}}}")
        expected.append("defaults " + " ".join(str(feature.default_level(version)) for version in versions))
    assert run_java("4.1.0", JAVA / "FeatureLevels.java").splitlines() == expected


def test_ids_are_accepted(kafka_tool: Callable[..., Any], tmp_path: Path) -> None:
    """An id of ours is one that Apache Kafka formats with."""
    drawn = barnabas("storage", "random-uuid").stdout.strip()
    config, _ = node(tmp_path)
    assert kafka_tool("4.1.0", "storage", "format", "-t", drawn, "-c", str(config)).returncode == 0
    assert f"cluster.id={drawn}" in barnabas("storage", "info", "-c", str(config)).stdout
