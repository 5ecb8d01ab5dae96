"""The doctor's look at certificates, names, mechanisms and logins of a configuration."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from barnabas.cli.doctor.findings import Finding, State
from barnabas.cli.doctor.security_checks import examine_config
from tests.cli.conftest import Call

NOW_S = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
DAY_S = 24 * 3600
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f'{PLAIN} required user_alice="alice-secret";'


def config(folder: Path, *names: str, days: int = 365, given: dict[str, str] | None = None) -> str:
    """The file of a node whose certificate has these names."""
    leaf = trustme.CA().issue_cert(
        *(names or ("kafka1.example",)),
        not_before=datetime.fromtimestamp(NOW_S - 30 * DAY_S, UTC),
        not_after=datetime.fromtimestamp(NOW_S + days * DAY_S + 60, UTC),
        common_name="kafka1",
    )
    leaf.private_key_and_cert_chain_pem.write_to_path(folder / "node.pem")
    options = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.voters": "2@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "SAFE://:9092",
        "advertised.listeners": "SAFE://kafka1.example:9092",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SAFE:SSL",
        "inter.broker.listener.name": "SAFE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "log.dirs": str(folder / "data"),
        **(given or {}),
    }
    path = folder / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in options.items()), "utf-8")
    return str(path)


def only(path: str, check: str, now_s: int = NOW_S) -> Finding:
    (found,) = [one for one in examine_config(path, now_s) if one.check == check]
    return found


def certificate(path: str, now_s: int = NOW_S) -> Finding:
    return only(path, "certificate of SAFE", now_s)


@pytest.mark.parametrize("name", ["kafka1.example", "KAFKA1.example", "*.example"])
def test_a_certificate_with_the_advertised_name_is_right(tmp_path: Path, name: str) -> None:
    found = certificate(config(tmp_path, name))
    assert found.state is State.OK, found
    assert "CN=kafka1" in found.found


@pytest.mark.parametrize("name", ["kafka2.example", "example", "*.kafka1.example", "10.0.0.1"])
def test_a_certificate_of_another_name_is_refused_by_clients(tmp_path: Path, name: str) -> None:
    found = certificate(config(tmp_path, name))
    assert found.state is State.BROKEN
    assert "not for kafka1.example" in found.found
    assert "subject alternative names" in found.advice


@pytest.mark.parametrize(("advertised", "state"), [("10.0.0.1", State.OK), ("10.0.0.2", State.BROKEN)])
def test_addresses_are_names_too(tmp_path: Path, advertised: str, state: State) -> None:
    path = config(tmp_path, "10.0.0.1", given={"advertised.listeners": f"SAFE://{advertised}:9092"})
    assert certificate(path).state is state


@pytest.mark.parametrize(
    ("days", "state", "said"),
    [
        (-3, State.BROKEN, "has expired, 3 days ago"),
        (10, State.HINT, "expires in 10 days"),
        (31, State.OK, "CN="),
    ],
)
def test_certificates_end(tmp_path: Path, days: int, state: State, said: str) -> None:
    found = certificate(config(tmp_path, days=days))
    assert found.state is state
    assert said in found.found


def test_a_certificate_may_be_of_the_future(tmp_path: Path) -> None:
    found = certificate(config(tmp_path), now_s=NOW_S - 40 * DAY_S)
    assert (found.state, found.advice) == (State.BROKEN, "check the clock of this machine")


def test_a_key_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    found = certificate(config(tmp_path, given={"ssl.keystore.location": "/nowhere/node.pem"}))
    assert found.state is State.BROKEN
    assert "/nowhere/node.pem" in found.found


SASL = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SAFE:SASL_SSL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
PLAIN_OPTION = "listener.name.safe.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("given", "state", "said"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN", PLAIN_OPTION: USERS}, State.OK, "PLAIN"),
        (
            {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", PLAIN_OPTION: USERS},
            State.OK,
            "SCRAM-SHA-256",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN"}, State.BROKEN, "nobody can log in by PLAIN"),
        (
            {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER", PLAIN_OPTION: USERS},
            State.BROKEN,
            "no login module",
        ),
    ],
)
def test_somebody_must_be_able_to_log_in(
    tmp_path: Path, given: dict[str, str], state: State, said: str
) -> None:
    found = only(config(tmp_path, given={**SASL, **given}), "logins of SAFE")
    assert found.state is state, found
    assert said in found.found


def test_passwords_in_plain_text_are_a_hint(tmp_path: Path) -> None:
    given = {**SASL, "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SAFE:SASL_PLAINTEXT"}
    path = config(tmp_path, given={**given, "sasl.enabled.mechanisms": "PLAIN", PLAIN_OPTION: USERS})
    assert only(path, "logins of SAFE").state is State.HINT


def test_mechanisms_that_do_not_match_are_what_the_node_itself_would_say(
    tmp_path: Path, barnabas: Call
) -> None:
    path = config(tmp_path, given={**SASL, "sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    found = only(path, "configuration")
    assert found.state is State.BROKEN
    assert "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms" in found.found
    answer = barnabas("doctor", "--config", path, "-o", "json", "--folder", str(tmp_path))
    assert answer.code == 1
    assert "must be included" in answer.out
