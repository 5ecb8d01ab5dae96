"""The tables equal Apache Kafka's own, row by row, in both modes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from barnabas.config import (
    ADMIN,
    BROKER,
    CONSUMER,
    GROUP,
    PRODUCER,
    TOPIC,
    ConfigError,
    Feature,
    Mode,
    OptionTable,
)
from barnabas.config.scopes import BROKER_DYNAMIC, TABLES
from barnabas.config.values.validators import validator_of
from barnabas.config.values.values import format_value

from .recorded import recorded

CASES = [(mode, table) for mode in Mode for table in TABLES if table.scope in recorded("options")[mode.value]]


def name_of(case: Any) -> str:
    return case.scope if isinstance(case, OptionTable) else case.name


@pytest.mark.parametrize(("mode", "table"), CASES, ids=name_of)
def test_every_row_is_apache_kafkas(mode: Mode, table: OptionTable) -> None:
    # M-J1
    theirs = {row["name"]: row for row in recorded("options")[mode.value][table.scope]}
    ours = {
        option.name: {
            "name": option.name,
            "type": option.type,
            "importance": option.importance,
            **({"required": True} if option.required else {"default": option.default}),
            **({"valid": option.valid} if option.valid is not None else {}),
            **({"update_mode": option.update_mode} if option.update_mode != "read-only" else {}),
            **({"server_configs": list(option.synonyms)} if option.synonyms else {}),
            **({"internal": True} if option.internal else {}),
        }
        for option in table.options(mode).values()
        if option.since is None
    }
    assert ours == theirs


@pytest.mark.parametrize(("mode", "table"), CASES, ids=name_of)
def test_every_default_passes_its_own_validator_and_prints_as_it_was(mode: Mode, table: OptionTable) -> None:
    for option in table.options(mode).values():
        default = table.defaults(mode)[option.name]
        validator = validator_of(option)
        if validator is not None and not option.required and default is not None:
            validator(option.name, default)
        assert format_value(option, default) == option.default


def test_defaults_on_which_documents_disagree() -> None:
    # M-J3
    settings = BROKER.parse({"node.id": "1", "process.roles": "broker"})
    assert settings["replica.lag.time.max.ms"] == 30_000
    assert settings["delete.topic.enable"] is True
    assert settings["listeners"] == "PLAINTEXT://:9092"


def test_the_modes_differ_where_the_releases_differ() -> None:
    assert TOPIC.parse({"segment.bytes": "14"}, Mode.ZOOKEEPER)["segment.bytes"] == 14
    with pytest.raises(ConfigError, match="Value must be at least 1048576"):
        TOPIC.parse({"segment.bytes": "14"})
    assert TOPIC.defaults(Mode.KRAFT)["message.timestamp.after.max.ms"] == 3_600_000
    assert TOPIC.defaults(Mode.ZOOKEEPER)["message.timestamp.after.max.ms"] == 2**63 - 1
    assert PRODUCER.defaults()["linger.ms"] == 5


def test_every_row_has_its_own_doc_and_a_feature() -> None:
    for table in (*TABLES, BROKER_DYNAMIC):
        for option in table:
            assert 10 < len(option.doc) < 160, option.name
            assert option.doc.endswith("."), option.name
            assert isinstance(option.effect, Feature)


def test_only_jvm_threads_and_jmx_are_without_effect() -> None:
    without = {option.name for table in TABLES for option in table if option.effect is Feature.NONE}
    name_parts = ("thread", "report", "queued.max.request", "purgatory.purge", "message.format.version")
    # The coordinator appends group records at once, so nothing lingers.
    # The system lets receive buffers of connections grow as needed.
    others = (
        "kafka.metrics.polling.interval.secs",
        "group.coordinator.append.linger.ms",
        "replica.socket.receive.buffer.bytes",
        # Batches keep their format: the oldest Fetch that is served is version 4, which reads it.
        "log.message.downconversion.enable",
        "message.downconversion.enable",
        # There is one group coordinator, and ELR is a matter of KRaft mode.
        "group.coordinator.new.enable",
        "eligible.leader.replicas.enable",
        # The controller appends at once, and connections of brokers are tried as often as they are needed.
        "controller.quorum.append.linger.ms",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        # A failed directory is told until it is heard; nobody stops for not being heard.
        "log.dir.failure.timeout.ms",
        # Snapshots and the log are sent in pieces of replica.fetch.max.bytes.
        "internal.metadata.max.fetch.size.in.bytes",
        # OpenSSL has random numbers and algorithms of its own.
        "ssl.secure.random.implementation",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
    )
    for name in without:
        assert any(part in name for part in name_parts) or name in others, name


def test_names_are_unique_within_a_table() -> None:
    for table in TABLES:
        names = [option.name for option in table]
        assert len(names) == len(set(names)), table.scope


def test_unknown_options_log_a_warning_and_are_accepted() -> None:
    # M-J1
    settings = TOPIC.parse({"segment.byte": "5"})
    assert settings.warnings == ("The topic option segment.byte is not known; it is ignored.",)
    assert settings.given["segment.byte"] == "5"
    with pytest.raises(KeyError, match=r"segment\.byte"):
        settings["segment.byte"]


def test_an_option_of_the_other_mode_says_so() -> None:
    settings = BROKER.parse({"node.id": "1", "process.roles": "broker", "zookeeper.connect": "h:1"})
    assert any("only in ZOOKEEPER mode" in line for line in settings.warnings)


def test_options_without_effect_and_of_unbuilt_features_log_a_warning() -> None:
    given = {"node.id": "1", "process.roles": "broker", "num.io.threads": "3"}
    (line,) = [line for line in BROKER.parse(given).warnings if "num.io.threads" in line]
    assert "has no effect" in line
    (line,) = TOPIC.parse({"remote.storage.enable": "true"}).warnings
    assert "tiered storage is not built" in line
    assert TOPIC.parse({"segment.ms": "1"}).warnings == ()


def test_an_unknown_option_does_not_hide_the_warnings_about_others() -> None:
    given = {"node.id": "1", "process.roles": "broker", "a.b": "x", "num.io.threads": "3", "zz": "y"}
    warned = [line.split(" ")[3] for line in BROKER.parse(given).warnings]
    assert warned == ["a.b", "zz", "num.io.threads"]


def test_options_set_by_a_request_must_exist() -> None:
    with pytest.raises(ConfigError) as caught:
        TOPIC.refuse_unknown(["retention.ms", "retention"])
    assert caught.value.message == "Unknown topic config name: retention"
    with pytest.raises(ConfigError, match="Unknown group config name: x"):
        GROUP.parse_one("x", "1")


def test_a_missing_required_option_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        PRODUCER.parse({})
    assert (
        caught.value.message == 'Missing required configuration "key.serializer" which has no default value.'
    )


def test_a_listener_prefix_stands_for_the_option_behind_it() -> None:
    given = {"node.id": "1", "process.roles": "broker", "listener.name.internal.max.connections": "7"}
    settings = BROKER.parse(given)
    assert settings["listener.name.internal.max.connections"] == 7
    assert settings["max.connections"] == 2**31 - 1
    assert not any("not known" in line for line in settings.warnings)
    bad = given | {"listener.name.internal.max.connections": "-1"}
    with pytest.raises(
        ConfigError, match=r"Invalid value -1 for configuration listener\.name\.internal\.max"
    ):
        BROKER.parse(bad)


def test_importing_the_tables_loads_no_rows() -> None:
    code = (
        "import sys, barnabas.config; loaded = [m for m in sys.modules if m.startswith('barnabas.config.tables.')];"
        "sys.exit(1 if loaded else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settings_do_not_change() -> None:
    given = {"segment.ms": "5"}
    settings = TOPIC.parse(given)
    given["segment.ms"] = "6"
    assert settings.given["segment.ms"] == "5"
    with pytest.raises(AttributeError):
        settings.mode = Mode.ZOOKEEPER  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.given["segment.ms"] = "7"  # type: ignore[index]
    with pytest.raises(TypeError):
        settings.values_by_name["segment.ms"] = 7  # type: ignore[index]
    assert TOPIC.parse({})["segment.ms"] == 604_800_000


def test_clients_take_typed_values() -> None:
    settings = CONSUMER.parse(
        {
            "key.deserializer": bytes,
            "value.deserializer": bytes,
            "max.poll.records": 5,
            "enable.auto.commit": False,
        }
    )
    assert settings["max.poll.records"] == 5
    assert settings["enable.auto.commit"] is False
    assert ADMIN.parse({"bootstrap.servers": ["a:1", "b:2"]})["bootstrap.servers"] == ("a:1", "b:2")
