"""The storage command: lookups, formatting, and every error."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.view import batches
from barnabas.protocol.json_form import to_json
from barnabas.protocol.record_frame import read_metadata_record
from tests.cli.conftest import Call

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
OTHER_CLUSTER = "5L6g3nShT-eMCtK--X86sv"
A = "JEXY6aqzQY-32P5TStzaFg"
B = "MvDxzVmcRsaTz33bUuRU6A"

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:19093",
    "listeners": "PLAINTEXT://localhost:19092,CONTROLLER://localhost:19093",
    "controller.listener.names": "CONTROLLER",
}
DYNAMIC = {key: value for key, value in COMBINED.items() if key != "controller.quorum.voters"} | {
    "controller.quorum.bootstrap.servers": "localhost:19093"
}
BROKER_ONLY = {
    "process.roles": "broker",
    "node.id": "5",
    "controller.quorum.bootstrap.servers": "localhost:19093",
    "listeners": "PLAINTEXT://localhost:19092",
    "controller.listener.names": "CONTROLLER",
}
LEGACY = {"broker.id": "5", "zookeeper.connect": "localhost:2181"}


@pytest.fixture
def configured(tmp_path: Path) -> Any:
    """Writes a configuration whose log.dirs are folders of this test; returns its path."""

    def write(options: dict[str, str], *folders: str, **more: str) -> str:
        dirs = ",".join(str(tmp_path / folder) for folder in folders or ("data",))
        given = options | {"log.dirs": dirs} | {key.replace("_", "."): value for key, value in more.items()}
        path = tmp_path / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in given.items()), "utf-8")
        return str(path)

    return write


def properties(folder: Path) -> dict[str, str]:
    lines = (folder / "meta.properties").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def features(folder: Path) -> dict[str, int]:
    """The features in bootstrap.checkpoint."""
    found = {}
    for batch in batches((folder / "bootstrap.checkpoint").read_bytes()):
        assert batch.crc_ok()
        for record in () if batch.is_control else batch.records():
            assert record.value is not None
            message, version = read_metadata_record(record.value)
            content = to_json(message, version)
            if "featureLevel" in content:
                found[content["name"]] = content["featureLevel"]
    return found


# --------------------------------------------------------------------- lookups


def test_random_uuid_prints_another_id_each_time(barnabas: Call) -> None:
    ids = {barnabas("storage", "random-uuid").out for _ in range(20)}
    assert len(ids) == 20
    assert all(str(Uuid.parse(text.strip())) == text.strip() for text in ids)


def test_version_mapping(barnabas: Call) -> None:
    latest = barnabas("storage", "version-mapping")
    assert latest.code == 0
    assert latest.out == (
        "metadata.version=27 (4.1-IV1)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\n"
        "eligible.leader.replicas.version=1\nshare.version=0\nstreams.version=0\n"
    )
    older = barnabas("storage", "version-mapping", "--release-version", "3.9")
    assert older.out.startswith("metadata.version=21 (3.9)\nkraft.version=1\ntransaction.version=0\n")


def test_feature_dependencies(barnabas: Call) -> None:
    result = barnabas(
        "storage",
        "feature-dependencies",
        "-f",
        "metadata.version=27",
        "-f",
        "kraft.version=1",
        "-f",
        "share.version=1",
    )
    assert result.code == 0
    assert result.out == (
        "metadata.version=27 (4.1-IV1) has no dependencies.\n"
        "kraft.version=1 requires:\n    metadata.version=21 (3.9-IV0)\nshare.version=1 has no dependencies.\n"
    )


@pytest.mark.trap
@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ("version-mapping", "-r", "2.8"),
            1,
            "Unknown release version '2.8'. Supported versions are: 3.3-IV3 to 4.1-IV1",
        ),
        (("feature-dependencies", "-f", "foo=1"), 1, "Unknown feature: foo"),
        (
            ("feature-dependencies", "-f", "group.version=9"),
            1,
            "Feature level 9 is not supported for feature group.version",
        ),
        (
            ("feature-dependencies", "-f", "group.version=x"),
            1,
            "Invalid version format: x for feature group.version",
        ),
        (("feature-dependencies", "-f", "metadata.version=5"), 1, "Unknown metadata.version 5"),
        (
            ("feature-dependencies", "-f", "group.version"),
            2,
            "barnabas storage feature-dependencies: group.version has no level; write NAME=LEVEL",
        ),
        (
            ("feature-dependencies",),
            2,
            (
                "barnabas storage feature-dependencies: the following arguments are required: --feature/-f; "
                "see barnabas storage feature-dependencies --help"
            ),
        ),
        (
            ("frmat",),
            2,
            "barnabas storage: unknown command frmat (did you mean format?); see barnabas storage --help",
        ),
        (
            ("random-uuid", "x"),
            2,
            "barnabas storage random-uuid: unexpected argument 'x'; see barnabas storage random-uuid --help",
        ),
        (("info", "-c", "nowhere.properties"), 5, None),
        (("format", "-t", CLUSTER, "-c", "nowhere.properties"), 5, None),
        (("format", "-c", "x"), 2, None),
        (("format", "-c", "x", "-t", "y", "-s", "-N"), 2, None),
    ],
)
def test_refusals_are_one_line_with_a_code(
    barnabas: Call,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: Any,
    code: int,
    line: str | None,
) -> None:
    """Trap 24: exit code 0 on failure, the most common CLI bug."""
    monkeypatch.chdir(tmp_path)
    result = barnabas("storage", *arguments)
    assert result.code == code
    assert result.err.count("\n") == 1
    if line is not None:
        assert result.err == line + "\n"


def test_storage_alone_shows_its_commands_and_is_a_usage_error(barnabas: Call) -> None:
    result = barnabas("storage")
    assert (result.code, result.out) == (2, "")
    assert "version-mapping" in result.err


# --------------------------------------------------------------------- format


def test_a_static_quorum(barnabas: Call, configured: Callable[..., str], tmp_path: Path) -> None:  # M-C2
    config = configured(COMBINED, "d1", "d2")
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", config)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        f"Formatting metadata directory {tmp_path}/d1 with metadata.version 4.1-IV1.\n"
        f"Formatting data directory {tmp_path}/d2 with metadata.version 4.1-IV1.\n"
    )
    ids = set()
    for name in ("d1", "d2"):
        found = properties(tmp_path / name)
        assert {key: found[key] for key in ("version", "node.id", "cluster.id")} == {
            "version": "1",
            "node.id": "1",
            "cluster.id": CLUSTER,
        }
        ids.add(Uuid.parse(found["directory.id"]))
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == [
            "bootstrap.checkpoint",
            "meta.properties",
        ]
        assert features(tmp_path / name) == {
            "metadata.version": 27,
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "transaction.version": 2,
        }
    assert len(ids) == 2


def test_a_standalone_controller_votes_for_itself(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    config = configured(DYNAMIC)
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", config, "--standalone")
    assert result.code == 0
    assert result.out == (
        f"Formatting dynamic metadata voter directory {tmp_path}/data with metadata.version 4.1-IV1.\n"
    )
    snapshot = tmp_path / "data" / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    shown = barnabas("dump-log", "--cluster-metadata-decoder", "--files", str(snapshot))
    assert shown.code == 0
    directory = properties(tmp_path / "data")["directory.id"]
    assert 'KRaftVersion {"version":0,"kRaftVersion":1}' in shown.out
    assert (
        f'"voters":[{{"voterId":1,"voterDirectoryId":"{directory}","endpoints":'
        '[{"name":"CONTROLLER","host":"localhost","port":19093}]'
    ) in shown.out


@pytest.mark.parametrize(
    ("listeners", "host"),
    [
        ("CONTROLLER://:19093", "localhost"),
        ("CONTROLLER://0.0.0.0:19093", "localhost"),
        ("CONTROLLER://node-7.example:19093", "node-7.example"),
    ],
)
def test_the_endpoint_of_a_standalone_controller(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path, listeners: str, host: str
) -> None:
    config = configured(DYNAMIC | {"process.roles": "controller", "listeners": listeners})
    assert barnabas("storage", "format", "-t", CLUSTER, "-c", config, "-s").code == 0
    snapshot = tmp_path / "data" / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    assert (
        f'"host":"{host}","port":19093'
        in barnabas("dump-log", "--deep-iteration", "--files", str(snapshot)).out
    )


def test_initial_controllers_give_each_voter_its_directory(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    voters = f"1@localhost:19093:{A},2@localhost:19193:{B}"
    config = configured(DYNAMIC)
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", config, "-I", voters)
    assert result.out.startswith("Formatting dynamic metadata voter directory ")
    assert properties(tmp_path / "data")["directory.id"] == A


def test_a_broker_learns_the_voters_and_has_a_directory_of_its_own(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    config = configured(BROKER_ONLY, "data", metadata_log_dir=str(tmp_path / "meta"))
    voters = f"1@localhost:19093:{A}"
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", config, "--initial-controllers", voters)
    assert sorted(result.out.splitlines()) == [
        f"Formatting data directory {tmp_path}/data with metadata.version 4.1-IV1.",
        f"Formatting dynamic metadata directory {tmp_path}/meta with metadata.version 4.1-IV1.",
    ]
    assert properties(tmp_path / "meta")["directory.id"] != A
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()
    assert (tmp_path / "meta" / "__cluster_metadata-0").exists()


def test_no_initial_controllers_writes_no_voters(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(DYNAMIC), "-N")
    assert result.out == f"Formatting metadata directory {tmp_path}/data with metadata.version 4.1-IV1.\n"
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()


def test_a_release_and_single_levels_can_be_chosen(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    result = barnabas(
        "storage", "format", "-t", CLUSTER, "-c", configured(COMBINED), "-r", "3.9", "-f", "group.version=1"
    )
    assert result.out == f"Formatting metadata directory {tmp_path}/data with metadata.version 3.9-IV0.\n"
    assert features(tmp_path / "data") == {"metadata.version": 21, "group.version": 1}


def test_unstable_levels_when_the_configuration_allows_them(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    config = configured(COMBINED | {"unstable.feature.versions.enable": "true"})
    assert barnabas("storage", "format", "-t", CLUSTER, "-c", config).code == 0
    assert features(tmp_path / "data")["metadata.version"] == 29


def test_scram_credentials_are_in_the_bootstrap_records(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    scram = 'SCRAM-SHA-256=[name=alice,password=alice-secret,salt="QSXCR+Q6sek8bf92"]'
    assert barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED), "-S", scram).code == 0
    path = tmp_path / "data" / "bootstrap.checkpoint"
    shown = barnabas("dump-log", "--cluster-metadata-decoder", "--files", str(path))
    assert (
        '{"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"alice","mechanism":1,'
        '"salt":"QSXCR+Q6sek8bf92","storedKey":"ArdmYP/RDYTQ2MI+ePOpDWJdBUuJG/vxi6XT6kw9ni0=",'
        '"serverKey":"wng7EJOsDMWHYjwNCtSUo0dQF+EU+8CEHFSySyP/5NI=","iterations":4096}}'
    ) in shown.out


def test_any_text_is_a_cluster_id_but_an_unusual_one_is_warned_of(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    result = barnabas("storage", "format", "-t", "mine", "-c", configured(COMBINED))
    assert result.code == 0
    assert "The cluster id 'mine' is not an id of 22 characters" in result.err
    assert properties(tmp_path / "data")["cluster.id"] == "mine"


def test_a_formatted_folder_is_left_alone(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    config = configured(COMBINED, "d1", "d2")
    barnabas("storage", "format", "-t", CLUSTER, "-c", config)
    before = (tmp_path / "d1" / "meta.properties").read_bytes()
    again = barnabas("storage", "format", "-t", CLUSTER, "-c", config)
    assert (again.code, again.out) == (1, "")
    assert again.err == (
        f"Log directory {tmp_path}/d1 is already formatted. "
        "Use --ignore-formatted to ignore this directory and format the others.\n"
    )
    ignored = barnabas("storage", "format", "-t", CLUSTER, "-c", config, "--ignore-formatted")
    assert (ignored.code, ignored.out) == (0, "All of the log directories are already formatted.\n")
    (tmp_path / "d2" / "meta.properties").unlink()
    rest = barnabas("storage", "format", "-t", CLUSTER, "-c", config, "-g")
    assert rest.out == f"Formatting data directory {tmp_path}/d2 with metadata.version 4.1-IV1.\n"
    assert (tmp_path / "d1" / "meta.properties").read_bytes() == before


def test_folders_of_another_cluster_or_node_are_refused(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED))
    path = tmp_path / "data" / "meta.properties"
    result = barnabas("storage", "format", "-t", OTHER_CLUSTER, "-c", configured(COMBINED), "-g")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"Invalid cluster.id in: {path}. Expected {OTHER_CLUSTER}, but read {CLUSTER}\n"
    other = COMBINED | {"node.id": "2", "controller.quorum.voters": "2@localhost:19093"}
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(other), "-g")
    assert result.code == 1
    assert result.err.startswith(f"Stored node id 1 doesn't match previous node id 2 in {path}. If you moved")


def test_a_copied_folder_is_refused(barnabas: Call, configured: Callable[..., str], tmp_path: Path) -> None:
    barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED, "d1"))
    (tmp_path / "d2").mkdir()
    (tmp_path / "d2" / "meta.properties").write_bytes((tmp_path / "d1" / "meta.properties").read_bytes())
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED, "d1", "d2", "d3"), "-g")
    assert result.code == 1
    assert "has the same directory.id" in result.err
    assert not (tmp_path / "d3").exists()


def test_an_unreadable_folder_is_left_out_and_ends_with_1(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "d1").mkdir()
    (tmp_path / "d1" / "meta.properties").write_text("version=9\n", "utf-8")
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED, "d2", "d1"))
    assert result.code == 1
    assert result.out == (
        f"I/O error trying to read log directory {tmp_path}/d1. Ignoring...\n"
        f"Formatting metadata directory {tmp_path}/d2 with metadata.version 4.1-IV1.\n"
    )
    assert "has version 9" in result.err
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED, "d1"))
    assert result.code == 1
    assert result.err.endswith("No available log directories to format.\n")


def test_a_folder_that_cannot_be_created_is_one_line(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED, "file/data"))
    assert result.code == 1
    assert result.err.startswith(f"Error while writing {tmp_path}/file/data/bootstrap.checkpoint: ")
    assert result.err.count("\n") == 1


def test_a_file_instead_of_a_folder_is_refused_before_anything_is_written(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED, "a", "file"))
    assert (result.code, result.out, result.err) == (1, "", f"{tmp_path}/file is not a directory\n")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (COMBINED, "bootstrap.checkpoint"),
        (COMBINED, "meta.properties"),
        (DYNAMIC, "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"),
    ],
)
def test_the_file_that_cannot_be_written_is_named(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path, options: Any, name: str
) -> None:
    (tmp_path / "data" / f"{name}.tmp").mkdir(parents=True)
    standalone = ("-s",) if options is DYNAMIC else ()
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(options), *standalone)
    assert result.code == 1
    assert result.err == f"Error while writing {tmp_path}/data/{name}: Is a directory\n"
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_a_full_disk_leaves_no_partial_file(configured: Callable[..., str], tmp_path: Path) -> None:
    config = configured(COMBINED)
    program = (
        "import resource, sys; from barnabas.cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["storage", "format", "-t", CLUSTER, "-c", config]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"Error while writing {tmp_path}/data/bootstrap.checkpoint: File too large\n"
    assert list((tmp_path / "data").iterdir()) == []


def test_a_cluster_id_of_two_lines_does_not_break_the_message(
    barnabas: Call, configured: Callable[..., str]
) -> None:
    barnabas("storage", "format", "-t", CLUSTER, "-c", configured(COMBINED))
    result = barnabas("storage", "format", "-t", "two\nlines", "-c", configured(COMBINED))
    assert result.code == 1
    assert "Expected two\\nlines, but read" in result.err
    assert len(result.err.splitlines()) == 2  # The other line warns of the unusual id.


KRAFT_FLAGS = "--standalone, --initial-controllers, or --no-initial-controllers"


@pytest.mark.parametrize(
    ("options", "arguments", "line"),
    [
        (
            LEGACY,
            (),
            (
                "The kafka configuration file appears to be for a legacy cluster. "
                "Formatting is only supported for clusters in KRaft mode."
            ),
        ),
        (
            DYNAMIC,
            (),
            (
                "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
                "--standalone, --initial-controllers, or --no-initial-controllers."
            ),
        ),
        (BROKER_ONLY, ("-s",), "You can only use --standalone on a controller."),
        (DYNAMIC, ("-I", "x"), "No @ found in dynamic voter string."),
        (
            COMBINED,
            ("-f", "foo=1"),
            (
                "Unsupported feature: foo. Supported features are: eligible.leader.replicas.version, group.version, "
                "kraft.version, share.version, streams.version, transaction.version"
            ),
        ),
        (COMBINED, ("-f", "group.version=9"), "No feature:group.version with feature level 9"),
        (COMBINED, ("-f", "group.version=-1"), "No feature:group.version with feature level -1"),
        (COMBINED, ("-f", "streams.version=1"), "No feature:streams.version with feature level 1"),
        (
            COMBINED,
            ("-f", "group.version=x"),
            "Can't parse feature=level string group.version=x: unable to parse x as a short.",
        ),
        (
            COMBINED,
            ("-f", "group.version"),
            "Can't parse feature=level string group.version: equals sign not found.",
        ),
        (
            COMBINED,
            ("-f", "kraft.version=1"),
            (
                f"Cannot set kraft.version to 1 unless one of the flags {KRAFT_FLAGS} is used. For dynamic controllers "
                f"support, try using one of {KRAFT_FLAGS}."
            ),
        ),
        (
            DYNAMIC,
            ("-s", "-f", "kraft.version=0"),
            (
                f"Cannot set kraft.version to 0 if one of the flags {KRAFT_FLAGS} is used. For dynamic controllers "
                "support, try removing the --feature flag for kraft.version."
            ),
        ),
        (
            COMBINED,
            ("-f", "metadata.version=21", "-r", "3.9"),
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
        ),
        (COMBINED, ("-r", "4.2-IV0"), "metadata.version 4.2-IV0 is not yet stable."),
        (COMBINED, ("-f", "metadata.version=28"), "metadata.version 4.2-IV0 is not yet stable."),
        (
            COMBINED,
            ("-r", "2.8"),
            "Version 2.8 is not a valid version. The minimum version is 3.3-IV3 and the maximum version is 4.2-IV1",
        ),
        (
            COMBINED,
            ("-f", "metadata.version=99"),
            "No MetadataVersion with feature level 99. Valid feature levels are from 7 to 29.",
        ),
        (
            COMBINED,
            ("-r", "3.9", "-f", "eligible.leader.replicas.version=1"),
            "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
        ),
        (
            DYNAMIC,
            ("-s", "-r", "3.8"),
            "kraft.version could not be set to 1 because it depends on metadata.version level 21",
        ),
        (
            COMBINED,
            ("-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"),
            "SCRAM is only supported in metadata.version 3.5-IV2 or later.",
        ),
        (COMBINED, ("-S", "SCRAM-SHA-1=[name=a]"), "The add-scram mechanism SCRAM-SHA-1 is not supported."),
    ],
)
def test_each_error_has_the_message_of_apache_kafka(
    barnabas: Call, configured: Callable[..., str], tmp_path: Path, options: Any, arguments: Any, line: str
) -> None:
    result = barnabas("storage", "format", "-t", CLUSTER, "-c", configured(options), *arguments)
    assert (result.code, result.out, result.err) == (1, "", line + "\n")
    assert not (tmp_path / "data").exists()


def test_an_empty_cluster_id_is_a_usage_error(barnabas: Call, configured: Callable[..., str]) -> None:
    result = barnabas("storage", "format", "-t", " ", "-c", configured(COMBINED))
    assert result.code == 2
    assert "random-uuid" in result.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("node.id=x\n", "server.properties: "),
        ("log.dirs=\\u12\n", "server.properties: line 1: "),
        ("process.roles=nothing\nnode.id=1\n", "server.properties: "),
    ],
)
def test_a_bad_configuration_is_one_line_that_names_the_file(
    barnabas: Call, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "server.properties"
    path.write_text(content, "utf-8")
    for command in (("info",), ("format", "-t", CLUSTER)):
        result = barnabas("storage", *command, "-c", str(path))
        assert result.code == 1
        assert message in result.err
        assert result.err.count("\n") == 1


def test_a_configuration_of_a_gigabyte_is_not_read(barnabas: Call, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    result = barnabas("storage", "info", "-c", str(path))
    assert result.code == 1
    assert "at most 4194304" in result.err


def test_security_that_is_not_built_does_not_keep_a_folder_from_being_formatted(
    barnabas: Call, configured: Callable[..., str]
) -> None:
    secured = COMBINED | {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    assert barnabas("storage", "format", "-t", CLUSTER, "-c", configured(secured)).code == 0


# --------------------------------------------------------------------- info


def test_an_unknown_option_is_warned_of(barnabas: Call, configured: Callable[..., str]) -> None:  # M-J1
    config = configured(COMBINED, num_partitoins="3")
    done = barnabas("storage", "info", "-c", config)
    assert f"{config}: The broker option num.partitoins is not known; it is ignored." in done.err


def test_info_of_a_formatted_node(barnabas: Call, configured: Callable[..., str], tmp_path: Path) -> None:
    config = configured(COMBINED, "d1", "d2")
    barnabas("storage", "format", "-t", CLUSTER, "-c", config)
    result = barnabas("storage", "info", "-c", config)
    assert result.code == 0
    directory = properties(tmp_path / "d1")["directory.id"]
    assert result.out == (
        f"Found log directories:\n  {tmp_path}/d1\n  {tmp_path}/d2\n\n"
        f"Found metadata: {{cluster.id={CLUSTER}, directory.id={directory}, node.id=1, version=1}}\n\n"
    )


def test_info_reads_folders_of_apache_kafka(
    barnabas: Call, configured: Callable[..., str], data: Path, tmp_path: Path
) -> None:
    with tarfile.open(data / "golden-logs.tar.gz") as archive:
        for name, mode in (("kraft", "kraft-4.1.0"), ("zk", "zk-3.9.1")):
            (tmp_path / name).mkdir()
            source = archive.extractfile(f"{mode}/data/meta.properties")
            assert source is not None
            (tmp_path / name / "meta.properties").write_bytes(source.read())
    result = barnabas("storage", "info", "-c", configured(COMBINED, "kraft"))
    assert result.code == 0
    assert re.search(
        r"Found metadata: \{cluster.id=\S+, directory.id=\S+, node.id=1, version=1\}\n\n$", result.out
    )
    result = barnabas("storage", "info", "-c", configured(LEGACY, "zk"))
    assert result.code == 0
    assert re.search(r"Found metadata: \{broker.id=1, cluster.id=\S+, version=0\}\n\n$", result.out)
    result = barnabas("storage", "info", "-c", configured(COMBINED, "zk"))
    assert result.code == 1
    assert "in KRaft mode, but the directories are formatted for legacy mode." in result.out
    result = barnabas("storage", "info", "-c", configured(LEGACY, "kraft"))
    assert result.code == 1
    assert (
        "for a legacy cluster, but the directories are formatted for a cluster in KRaft mode." in result.out
    )


def test_info_reports_every_problem(barnabas: Call, configured: Callable[..., str], tmp_path: Path) -> None:
    for name, content in {
        "a": f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n",
        "b": f"version=1\nnode.id=1\ncluster.id={OTHER_CLUSTER}\n",
        "c": f"version=1\nnode.id=2\ncluster.id={CLUSTER}\n",
        "d": "version=9\n",
        "e": None,
    }.items():
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / "meta.properties").write_text(content, "utf-8")
    (tmp_path / "f").write_text("", "utf-8")
    result = barnabas("storage", "info", "-c", configured(COMBINED, *"abcdefg"))
    assert result.code == 1
    lines = result.out.splitlines()
    start = lines.index("Found problems:")
    assert lines[start + 1 :] == [
        "  Mismatched cluster IDs between storage directories.",
        "  Mismatched node IDs between storage directories.",
        f"  Error loading {tmp_path}/d/meta.properties: has version 9, only the versions 0 and 1 are known",
        f"  {tmp_path}/e is not formatted.",
        f"  {tmp_path}/f is not a directory",
        f"  {tmp_path}/g does not exist",
        "",
    ]


def test_info_of_unformatted_folders(barnabas: Call, configured: Callable[..., str], tmp_path: Path) -> None:
    result = barnabas("storage", "info", "-c", configured(COMBINED))
    assert (result.code, result.out) == (1, f"Found problem:\n  {tmp_path}/data does not exist\n\n")
