"""The 63 hostile inputs of the suite `hostile`, through TLS, with and without a login, and TLS itself under attack."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from barnabas.client.admin import NewTopic
from barnabas.client.sync import Admin, Producer
from tests.verify.conftest import PROJECT
from tests.verify.security.secured_cluster import PLAIN_MODULE
from tools.ports import free_ports
from tools.tls_tunnel import tunnel

SUITES = Path(os.environ.get("BARNABAS_SUITES", PROJECT.parent / "shared" / "suites"))
PATIENCE_S = 300
_TOTAL = re.compile(r"^(\d+) (\d+)$", re.MULTILINE)
ATTEMPTS = 3
HANDSHAKES = 3_000
ATTACKERS = 8
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://localhost:{controller},PLAINTEXT://localhost:{plain},SSL://localhost:{tls},SASL_SSL://localhost:{sasl}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={folder}/node.pem
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={module} required user_alice="alice-secret";
offsets.topic.replication.factor=1
log.dirs={folder}/data
"""


class Secured(NamedTuple):
    ports: dict[str, int]
    folder: Path
    process: subprocess.Popen[bytes]
    context: ssl.SSLContext

    def options(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"localhost:{self.ports['SASL_SSL']}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="alice-secret";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }

    @property
    def rss_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text("utf-8").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("hostile")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "node.pem")
    controller, plain, tls, sasl = free_ports(4)
    properties = folder / "server.properties"
    text = PROPERTIES.format(
        controller=controller, plain=plain, tls=tls, sasl=sasl, folder=folder, module=PLAIN_MODULE
    )
    properties.write_text(text, "utf-8")
    environment = {**os.environ, "BARNABAS_STATE": str(folder / "state")}
    barnabas = [str(PROJECT / ".venv" / "bin" / "python"), "-m", "barnabas"]
    cluster_id = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties)]
    subprocess.run([*barnabas, "storage", "format", *cluster_id], check=True, env=environment)
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*barnabas, "server-start", str(properties)], stdout=output, stderr=output, env=environment
        )
    one = Secured({"PLAINTEXT": plain, "SSL": tls, "SASL_SSL": sasl}, folder, process, context)
    with Admin(one.options()) as admin:
        admin.create_topics([NewTopic("healthy", 1, 1)])
    yield one
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    written = log.read_text("utf-8", "replace")
    assert " ERROR " not in written
    assert "Traceback" not in written


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_hostile_inputs_are_answered_as_on_a_plain_listener(secured: Secured, listener: str) -> None:
    login = ("alice", "alice-secret") if listener == "SASL_SSL" else None
    with tunnel(("localhost", secured.ports[listener]), secured.context, login) as through:
        # A probe waits 3 s for its answer, through a tunnel whose handshakes take a share of a busy machine: what
        # is only slow is not slow each time.
        for _ in range(ATTEMPTS):
            totals, text = hostile_inputs(secured, through.port)
            if totals == ("63", "0"):
                break
    assert totals == ("63", "0"), text


def hostile_inputs(secured: Secured, port: int) -> tuple[tuple[str, str], str]:
    """How many probes passed and failed, and what was said."""
    done = subprocess.run(
        [str(SUITES / "hostile"), f"127.0.0.1:{port}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "BROKER_PID": str(secured.process.pid), "SUITE_LOGS": str(secured.folder)},
    )
    text = done.stdout + done.stderr + (secured.folder / "hostile.log").read_text("utf-8", "replace")
    return _TOTAL.findall(text)[-1], text


def shake_hands(secured: Secured, count: int) -> int:
    """Handshakes that are finished, and connections that are closed at once."""
    finished = 0
    for _ in range(count):
        with (
            socket.create_connection(("localhost", secured.ports["SSL"]), PATIENCE_S) as plain,
            secured.context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            finished += connection.version() is not None
    return finished


def test_a_flood_of_handshakes_holds_up_nobody(secured: Secured) -> None:
    """As many handshakes as the machine can do, and a producer that goes on meanwhile."""
    before = secured.rss_bytes
    waits: list[float] = []
    done = threading.Event()

    def produce() -> None:
        with Producer(secured.options()) as producer:
            while not done.is_set():
                began = time.monotonic()
                producer.send("healthy", b"x").result()
                waits.append(time.monotonic() - began)

    healthy = threading.Thread(target=produce)
    healthy.start()
    began = time.monotonic()
    with ThreadPoolExecutor(ATTACKERS) as pool:
        share = HANDSHAKES // ATTACKERS
        finished = sum(pool.map(lambda _: shake_hands(secured, share), range(ATTACKERS)))
    taken_s = time.monotonic() - began
    done.set()
    healthy.join(PATIENCE_S)
    print(f"{finished / taken_s:.0f} handshakes/s, {len(waits)} records, longest {1000 * max(waits):.0f} ms")
    assert finished == ATTACKERS * share
    assert len(waits) > taken_s
    assert secured.rss_bytes - before < 64 << 20


def test_half_open_handshakes_hold_up_nobody(secured: Secured) -> None:
    """1,000 connections that send the beginning of a handshake, or nothing."""
    before = secured.rss_bytes
    hello = bytes.fromhex("160301020001")
    held = []
    try:
        for number in range(1_000):
            connection = socket.create_connection(("localhost", secured.ports["SSL"]), PATIENCE_S)
            held.append(connection)
            if number % 2:
                connection.sendall(hello)
        with Producer(secured.options()) as producer:
            assert producer.send("healthy", b"x").result().topic == "healthy"
        assert secured.rss_bytes - before < 64 << 20
    finally:
        for connection in held:
            connection.close()
