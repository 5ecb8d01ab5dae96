"""The connection flags of every tool, and a client that has reached the cluster.

    parser = KafkaParser("barnabas topics", "…")
    add_connection_flags(parser)
    options = parser.parse(arguments)
    with open_admin(parser, options) as admin:
        ...

Contains --bootstrap-server, --bootstrap-controller, --command-config and the flags of older releases that
they replaced.  The client is imported lazily, so that help is fast.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.text.terminal import tell

if TYPE_CHECKING:
    from barnabas.client.sync import Admin
    from barnabas.client.sync.topics import TopicAdmin

# How long a tool waits for the first response, unless --command-config sets default.api.timeout.ms.  (Later
# calls always use default.api.timeout.ms.)
FIRST_CONTACT_MS = 10_000
# On a terminal, the tool reports after this time what it waits for.
HINT_AFTER_MS = 2_000
API_TIMEOUT = "default.api.timeout.ms"
BROKER_PORT = 9092


def add_connection_flags(
    parser: ArgumentParser,
    *,
    controllers: bool = False,
    config_flags: Sequence[str] = ("--command-config",),
    old_broker_list: bool = False,
    old_zookeeper: bool = False,
) -> None:
    """Adds the flags of a tool that connects to a cluster: `bootstrap_server`, `bootstrap_controller` (if
    `controllers`) and `command_config` (a path) in the parsed options.

    `old_broker_list`, `old_zookeeper`: older releases of the tool had these flags (not for tools where
    --broker-list means something else).  They work, with a warning on stderr.
    """
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT,...", help="brokers to connect to first")
    if controllers:
        add("--bootstrap-controller", metavar="HOST:PORT,...", help="controllers to connect to instead")
    add(
        *config_flags,
        dest="command_config",
        metavar="FILE",
        help="properties file of the client, for example security and timeouts",
    )
    if old_broker_list:
        add("--broker-list", dest="old_broker_list", metavar="HOST:PORT,...", help=SUPPRESS)
    if old_zookeeper:
        add("--zookeeper", dest="old_zookeeper", metavar="HOST:PORT,...", help=SUPPRESS)


def bootstrap_of(parser: ArgumentParser, options: Namespace, missing: str | None = None) -> dict[str, str]:
    """`bootstrap.servers` or `bootstrap.controllers` from the flags; `missing` is the error message without
    them."""
    servers = options.bootstrap_server or _servers_of_old_flags(parser, options)
    controllers = getattr(options, "bootstrap_controller", None)
    if servers and controllers:
        parser.error("--bootstrap-server and --bootstrap-controller cannot both be given")
    if controllers:
        return {"bootstrap.controllers": _checked(parser, "--bootstrap-controller", controllers)}
    if servers:
        return {"bootstrap.servers": _checked(parser, "--bootstrap-server", servers)}
    either = " or --bootstrap-controller" if hasattr(options, "bootstrap_controller") else ""
    raise UsageError(missing or f"{parser.prog}: --bootstrap-server{either} must be specified")


def _servers_of_old_flags(parser: ArgumentParser, options: Namespace) -> str | None:
    brokers: str | None = getattr(options, "old_broker_list", None)
    if brokers:
        _warn(f"{parser.prog}: --broker-list is the old name of --bootstrap-server")
        return brokers
    ensemble: str | None = getattr(options, "old_zookeeper", None)
    if not ensemble:
        return None
    hosts = [server.strip().rpartition(":")[0] or server.strip() for server in _without_chroot(ensemble)]
    brokers = ",".join(f"{host}:{BROKER_PORT}" for host in hosts if host)
    _warn(f"{parser.prog}: tools no longer use ZooKeeper: using --bootstrap-server {brokers}")
    return brokers


def _without_chroot(ensemble: str) -> list[str]:
    return ensemble.partition("/")[0].split(",")


def _warn(line: str) -> None:
    tell(line)


def _checked(parser: ArgumentParser, flag: str, servers: str) -> str:
    """Checks that servers are HOST:PORT, so that errors name the flag instead of a client property."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
            parser.error(f"{flag} must be HOST:PORT[,HOST:PORT...], not {server.strip()!r}")
    return servers


def command_properties(path: str | None) -> dict[str, str]:
    """The properties of a --command-config file; empty without one."""
    if path is None:
        return {}
    from barnabas.cli.server.node_file import read_properties
    from barnabas.runtime.disk.folder_disk import FolderDisk

    return read_properties(FolderDisk(), path)


def client_properties(
    parser: ArgumentParser, options: Namespace, missing: str | None = None
) -> dict[str, object]:
    """The properties of a client: those of the file, and the bootstrap servers of the flags."""
    bootstrap = bootstrap_of(parser, options, missing)
    return {**_without_broker_options(command_properties(options.command_config)), **bootstrap}


def _without_broker_options(given: dict[str, str]) -> dict[str, str]:
    """A node's configuration file may serve as --command-config, as add-controller requires."""
    from barnabas.client.options import is_client_option

    others = [name for name in given if not is_client_option(name)]
    if not others:
        return given
    from barnabas.config import BROKER  # Only needed for such a file, or to report an unknown option.

    of_brokers = {name for name in others if BROKER.option(name) is not None}
    return {name: value for name, value in given.items() if name not in of_brokers}


@contextmanager
def open_admin(
    parser: ArgumentParser,
    options: Namespace,
    missing: str | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Iterator[Admin]:
    """An admin client that has reached the cluster; raises CommandError (unreachable) if no server responds.

    `missing` is the error message if no server is given; the file may override the `defaults`.
    """
    given = client_properties(parser, options, missing)
    patience_ms = FIRST_CONTACT_MS if API_TIMEOUT not in given else None
    from barnabas.client.sync import Admin

    with Admin({**(defaults or {}), **given}) as admin:
        reach(admin, parser.prog, str(next(iter(_bootstrap_servers(given)))), patience_ms)
        yield admin


@contextmanager
def open_topic_admin(
    parser: ArgumentParser, options: Namespace, missing: str | None = None
) -> Iterator[TopicAdmin]:
    """The same for tools that only need topics: it starts in half the time."""
    given = client_properties(parser, options, missing)
    patience_ms = FIRST_CONTACT_MS if API_TIMEOUT not in given else None
    from barnabas.client.sync.topics import TopicAdmin

    with TopicAdmin(given) as admin:
        reach(admin, parser.prog, str(next(iter(_bootstrap_servers(given)))), patience_ms)
        yield admin


def _bootstrap_servers(given: dict[str, object]) -> list[object]:
    return [value for name, value in given.items() if name in ("bootstrap.servers", "bootstrap.controllers")]


def reach(
    admin: Admin | TopicAdmin, program: str, servers: str, patience_ms: int | None = FIRST_CONTACT_MS
) -> None:
    """Wait until the cluster responds."""
    from barnabas.base.errors import KafkaError
    from barnabas.cli.framework.kafka_errors import exit_code

    try:
        if sys.stderr.isatty() and (patience_ms is None or patience_ms > HINT_AFTER_MS):
            try:
                admin.reach(timeout_ms=HINT_AFTER_MS)
                return
            except KafkaError as error:
                if exit_code(error) not in (Exit.UNREACHABLE, Exit.TIMED_OUT):
                    raise
            _warn(f"{program}: {servers} does not respond yet, retrying (Ctrl+C to stop)")
            patience_ms = None if patience_ms is None else patience_ms - HINT_AFTER_MS
        admin.reach(timeout_ms=patience_ms)
    except KafkaError as error:
        if exit_code(error) is Exit.TIMED_OUT:
            raise CommandError(
                f"{program}: what listens on {servers} does not answer (is it a Kafka broker?)",
                Exit.TIMED_OUT,
            ) from error
        if exit_code(error) is not Exit.UNREACHABLE:
            raise
        reason = getattr(error.__cause__, "message", error.message)
        advice = f"is it running, and does it listen on {servers}?"
        raise CommandError(f"{program}: {reason} ({advice})", Exit.UNREACHABLE) from error
