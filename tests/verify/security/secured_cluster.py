"""One KRaft cluster of Apache Kafka's nodes and ours in which every listener is SASL_SSL, with ACLs.

Apache Kafka's nodes have their keys in PKCS12 stores, ours in PEM files; one authority has issued all of them.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from tests.verify.quorum.mixed_cluster import APACHE, OURS, MixedCluster, wait_for
from tools.ports import free_oracle_base

STORE_PASSWORD = "store-secret"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = ("admin", "alice")
_LEADER = re.compile(r"LeaderId:\s*(\d+)")


def password_of(user: str) -> str:
    return f"{user}-secret"


def write_key(folder: Path, name: str, leaf: trustme.LeafCert) -> None:
    """The same key as a PEM file, in PKCS #8 as Java wants it, and as a PKCS12 store."""
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{name}.pem").write_bytes(pem + b"".join(each.bytes() for each in leaf.cert_chain_pems))
    first, *others = [load_pem_x509_certificate(each.bytes()) for each in leaf.cert_chain_pems]
    protection = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    data = pkcs12.serialize_key_and_certificates(b"node", key, first, others, protection)  # type: ignore[arg-type]
    (folder / f"{name}.p12").write_bytes(data)


def key_options(folder: Path, name: str, kind: str) -> dict[str, str]:
    """Whom to trust, and the node's own key in the form that its kind gets."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    if kind == OURS:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / f"{name}.pem"), **trust}
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / f"{name}.p12"),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        **trust,
    }


def node_options(folder: Path, number: int, kind: str, port: int) -> dict[str, str]:
    users = " ".join(f'user_{user}="{password_of(user)}"' for user in USERS)
    jaas = f'{PLAIN_MODULE} required username="admin" password="{password_of("admin")}" {users};'
    controller = number > 100
    return {
        "listeners": f"{'CONTROLLER' if controller else 'SAFE'}://localhost:{port}",
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,SAFE:SASL_SSL",
        **({} if controller else {"inter.broker.listener.name": "SAFE"}),
        "sasl.enabled.mechanisms": "PLAIN" if controller else "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "listener.name.safe.plain.sasl.jaas.config": jaas,
        "listener.name.safe.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.safe.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "ssl.client.auth": "required" if controller else "none",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "connection.failed.authentication.delay.ms": "10",
        **key_options(folder, f"node-{number}", kind),
    }


def issue(authority: trustme.CA, folder: Path, name: str, node: str) -> None:
    """A key and a certificate of this node, as stores of this name; all of a node have the same subject."""
    write_key(folder, name, authority.issue_cert("localhost", common_name=node, organization_unit_name=node))


class SecuredCluster(MixedCluster):
    """The nodes, and clients that log in."""

    authority: trustme.CA

    def renew(self, number: int) -> None:
        """A new certificate, put in place while the broker runs (KIP-226)."""
        issue(self.authority, self.home, f"renewed-{number}", f"node-{number}")
        ending = "pem" if self.kind_of(number) == OURS else "p12"
        path = self.home / f"renewed-{number}.{ending}"
        change = f"listener.name.safe.ssl.keystore.location={path}"
        entity = ("--entity-type", "brokers", "--entity-name", str(number))
        code, text = self.secured_tool(APACHE, "configs", number, "--alter", *entity, "--add-config", change)
        assert code == 0, text

    def certificate_of(self, number: int) -> str:
        """What a broker shows to its clients."""
        return ssl.get_server_certificate(("localhost", self.members[number].port))

    def bootstrap_of(self, *numbers: int) -> str:
        return ",".join(f"localhost:{self.members[number].port}" for number in numbers)

    def client_options(self, user: str, mechanism: str = "PLAIN") -> dict[str, str]:
        """By Apache Kafka's names."""
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password_of(user)}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.home / "ca.pem"),
        }

    def librdkafka_options(self, user: str, mechanism: str = "PLAIN") -> dict[str, Any]:
        brokers = [member.number for member in self.brokers()]
        return {
            "bootstrap.servers": self.bootstrap_of(*brokers),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password_of(user),
            "ssl.ca.location": str(self.home / "ca.pem"),
        }

    def client_file(self, user: str, mechanism: str = "PLAIN") -> str:
        path = self.home / f"{user}-{mechanism}.properties"
        options = self.client_options(user, mechanism)
        path.write_text("".join(f"{name}={value}\n" for name, value in options.items()), "utf-8")
        return str(path)

    def secured_tool(
        self, kind: str, name: str, number: int, *args: str, user: str = "admin"
    ) -> tuple[int, str]:
        """A tool of either kind, pointed at one broker."""
        connection = [
            "--bootstrap-server",
            self.bootstrap_of(number),
            "--command-config",
            self.client_file(user),
        ]
        return self.try_tool(kind, name, *connection, *args)

    def active_controller(self) -> int:
        """As our tool tells it."""

        def look() -> int | None:
            for member in self.brokers():
                if member.runs:
                    code, text = self.secured_tool(
                        OURS, "metadata-quorum", member.number, "describe", "--status"
                    )
                    match = _LEADER.search(text)
                    if code == 0 and match is not None and int(match[1]) in self.members:
                        return int(match[1])
            return None

        return wait_for("an active controller", look)


@contextmanager
def secured_cluster(
    oracle: Callable[..., Any],
    version: str,
    home: Path,
    kinds: Mapping[int, str],
    settings: Mapping[str, str],
) -> Iterator[SecuredCluster]:
    """A new cluster of these nodes, running; it is down when this ends."""
    home.mkdir(parents=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(home / "ca.pem")
    cluster = SecuredCluster(oracle, version, home, free_oracle_base(), False, settings)
    cluster.authority = authority
    try:
        for number, kind in kinds.items():
            issue(authority, home, f"node-{number}", f"node-{number}")
            cluster.add(number, kind, **node_options(home, number, kind, cluster.port + number))
        for number in kinds:
            member = cluster.members[number]
            cluster.configure(member, cluster.controllers())
            cluster.format(member, cluster.controllers())
        cluster.start(*kinds)
        cluster.active_controller()
        yield cluster
    finally:
        cluster.down()


__all__ = ["APACHE", "OURS", "SecuredCluster", "secured_cluster"]
