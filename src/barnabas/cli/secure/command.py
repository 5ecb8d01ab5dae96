"""`barnabas secure init DIR`: certificates, users and configurations of a secured cluster."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.framework.subcommands import Subcommand, Tool
from barnabas.cli.secure.layout import (
    ADMIN,
    NODE_USER,
    NodePlan,
    Secrets,
    client_properties,
    format_script,
    node_properties,
    plan_nodes,
)
from barnabas.metadata.scram import DEFAULT_ITERATIONS, SALT_BYTES, ScramMechanism, salted_password
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.random import Random, SystemRandom, random_uuid

PROGRAM = "barnabas secure"
DEFAULT_PORT, LAST_PORT = 9092, 65_000
MAX_NODES = 9
# Browsers and Java accept no server certificate for longer than about this.
DEFAULT_DAYS, MAX_DAYS = 397, 3650
PASSWORD_BYTES = 18
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}")


def _declare_init(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", help="where to write; created, and empty before")
    add(
        "--nodes",
        type=whole_number(1, MAX_NODES),
        metavar="N",
        help="nodes on this machine, with ports of their own (3)",
    )
    add("--hosts", metavar="HOST,...", help="the host of each node, instead of --nodes")
    add("--users", default="", metavar="NAME,...", help="users besides `admin`; they need ACLs")
    add(
        "--port",
        type=whole_number(1, LAST_PORT),
        default=DEFAULT_PORT,
        metavar="PORT",
        help="first port (9092)",
    )
    add(
        "--days",
        type=whole_number(1, MAX_DAYS),
        default=DEFAULT_DAYS,
        metavar="DAYS",
        help=f"how long the nodes' certificates are valid ({DEFAULT_DAYS})",
    )
    add("--target", metavar="PATH", help="where DIR will lie on the hosts, if not where it is written")


def init(parser: ArgumentParser, options: Namespace) -> int:
    """Writes all files; nothing is written if anything is wrong."""
    from barnabas.cli.secure.certificates import Authority

    folder = Path(options.folder).absolute()
    target = str(folder) if options.target is None else options.target.rstrip("/")
    hosts = _hosts(options)
    users = _users(options.users)
    random = SystemRandom()
    authority = Authority(SystemClock())
    secrets = Secrets({user: _password(random) for user in (NODE_USER, ADMIN, *users)}, _password(random))
    salted = {user: _salted(password, random) for user, password in secrets.users.items()}
    nodes = plan_nodes(hosts, options.port, target)
    cluster_id = str(random_uuid(random))
    _make_folder(folder)
    _write(folder / "ca.key", authority.pem.key)
    for node in nodes:
        own = folder / f"node-{node.number}"
        issued = authority.issue(f"node-{node.number}", (node.host,), options.days)
        own.mkdir(mode=0o700)
        _write(own / "node.pem", issued.key + issued.certificate)
        _write(own / "ca.pem", authority.pem.certificate)
        _write(own / "server.properties", node_properties(node, nodes, secrets))
        _write(own / "format.sh", format_script(node, cluster_id, salted))
    clients = folder / "clients"
    clients.mkdir(mode=0o700)
    _write(clients / "ca.pem", authority.pem.certificate)
    for user in (ADMIN, *users):
        _write(clients / f"{user}.properties", client_properties(user, nodes, secrets, f"{target}/clients"))
    _tell(folder, nodes, target)
    return Exit.OK


def _tell(folder: Path, nodes: Sequence[NodePlan], target: str) -> None:
    print(f"Wrote the files of {len(nodes)} nodes to {folder}.")
    print(f"Keep {folder / 'ca.key'} in a safe place, away from the nodes.  Then, for each node:")
    for node in nodes:
        print(f"  sh {node.folder}/format.sh && barnabas server-start {node.folder}/server.properties")
    print("Try it:")
    servers = f"{nodes[0].host}:{nodes[0].port}"
    config = f"{target}/clients/admin.properties"
    print(f"  barnabas topics --bootstrap-server {servers} --command-config {config} --list")


def _hosts(options: Namespace) -> list[str]:
    if options.hosts is None:
        return ["localhost"] * (options.nodes or 3)
    if options.nodes is not None:
        raise UsageError("--hosts and --nodes exclude each other: each host is a node")
    hosts = [host.strip() for host in options.hosts.split(",")]
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise UsageError(f"--hosts: {host!r} is not the name or the address of a host")
    if len(hosts) > MAX_NODES:
        raise UsageError(f"--hosts: {len(hosts)} nodes, and {MAX_NODES} are the most")
    return hosts


def _users(text: str) -> list[str]:
    users = [user.strip() for user in text.split(",") if user.strip()]
    for user in users:
        if not _NAME.fullmatch(user) or user in (NODE_USER, ADMIN) or users.count(user) > 1:
            raise UsageError(
                f"--users: {user!r} cannot be used: a new name of letters, digits, dots and dashes"
            )
    return users


def _password(random: Random) -> str:
    return random.bytes(PASSWORD_BYTES).hex()


def _salted(password: str, random: Random) -> tuple[bytes, bytes]:
    salt = random.bytes(SALT_BYTES)
    return salt, salted_password(ScramMechanism.SCRAM_SHA_512, password, salt, DEFAULT_ITERATIONS)


def _make_folder(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(
            f"{folder} is not an empty folder; name a new one, so that no keys are overwritten"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write(path: Path, text: str) -> None:
    """Readable by its owner only, from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


SUBCOMMANDS = {
    "init": Subcommand("write certificates, users and configurations of a new cluster", _declare_init, init),
}
run = Tool(PROGRAM, "Make the files of a secured cluster.", SUBCOMMANDS).run
