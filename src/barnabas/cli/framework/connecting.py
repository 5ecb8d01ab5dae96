"""From the flags by which every tool is told where the cluster is, to a client that has reached it.

    parser = KafkaParser("barnabas topics", "…")
    add_connection_flags(parser)
    options = parser.parse(arguments)
    with open_admin(parser, options) as admin:
        ...

What lives here: --bootstrap-server, --bootstrap-controller, --command-config and what books of another time
have in their place.  What may not: what a tool does with the cluster.  The client is imported late: help
must not wait for it.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError

if TYPE_CHECKING:
    from barnabas.client.sync import Admin
    from barnabas.client.sync.topics import TopicAdmin

# Without a word about it in --command-config: how long nobody may answer before a tool gives up.  (Later
# calls have default.api.timeout.ms, as everywhere.)
FIRST_CONTACT_MS = 10_000
# Whoever sits before a terminal is told by then what is waited for.
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
    """The flags of a tool that talks to a cluster: `bootstrap_server`, `bootstrap_controller` (if
    `controllers`) and `command_config` (a path) in what it parses.

    `old_broker_list`, `old_zookeeper`: the tool had these in the past (leave out --broker-list where it
    means something else).  They work, with one line on stderr.
    """
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT,...", help="brokers to connect to first")
    if controllers:
        add("--bootstrap-controller", metavar="HOST:PORT,...", help="controllers to connect to instead")
    add(
        *config_flags,
        dest="command_config",
        metavar="FILE",
        help="properties of the client, such as security and time-outs",
    )
    if old_broker_list:
        add("--broker-list", dest="old_broker_list", metavar="HOST:PORT,...", help=SUPPRESS)
    if old_zookeeper:
        add("--zookeeper", dest="old_zookeeper", metavar="HOST:PORT,...", help=SUPPRESS)


def bootstrap_of(parser: ArgumentParser, options: Namespace, missing: str | None = None) -> dict[str, str]:
    """`bootstrap.servers` or `bootstrap.controllers`, as the flags give them; `missing` is what to say if
    none is there."""
    servers = options.bootstrap_server or _servers_of_the_past(parser, options)
    controllers = getattr(options, "bootstrap_controller", None)
    if servers and controllers:
        parser.error("--bootstrap-server and --bootstrap-controller cannot both be given")
    if controllers:
        return {"bootstrap.controllers": _checked(parser, "--bootstrap-controller", controllers)}
    if servers:
        return {"bootstrap.servers": _checked(parser, "--bootstrap-server", servers)}
    either = " or --bootstrap-controller" if hasattr(options, "bootstrap_controller") else ""
    raise UsageError(missing or f"{parser.prog}: --bootstrap-server{either} must be specified")


def _servers_of_the_past(parser: ArgumentParser, options: Namespace) -> str | None:
    brokers: str | None = getattr(options, "old_broker_list", None)
    if brokers:
        _mention(f"{parser.prog}: --broker-list is the old name of --bootstrap-server")
        return brokers
    ensemble: str | None = getattr(options, "old_zookeeper", None)
    if not ensemble:
        return None
    hosts = [place.strip().rpartition(":")[0] or place.strip() for place in _without_chroot(ensemble)]
    brokers = ",".join(f"{host}:{BROKER_PORT}" for host in hosts if host)
    _mention(f"{parser.prog}: tools do not ask ZooKeeper any more: taking --bootstrap-server {brokers}")
    return brokers


def _without_chroot(ensemble: str) -> list[str]:
    return ensemble.partition("/")[0].split(",")


def _mention(line: str) -> None:
    print(line, file=sys.stderr)


def _checked(parser: ArgumentParser, flag: str, places: str) -> str:
    """Places must be HOST:PORT; what is wrong is told by its flag, not by the option of a client."""
    for place in places.split(","):
        host, _, port = place.strip().rpartition(":")
        if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
            parser.error(f"{flag} wants HOST:PORT, several with commas between, not {place.strip()!r}")
    return places


def command_properties(path: str | None) -> dict[str, str]:
    """What a --command-config file says; nothing without one."""
    if path is None:
        return {}
    from barnabas.cli.server.node_file import read_properties
    from barnabas.runtime.disk.folder_disk import FolderDisk

    return read_properties(FolderDisk(), path)


def client_properties(
    parser: ArgumentParser, options: Namespace, missing: str | None = None
) -> dict[str, object]:
    """The properties of a client: those of the file, and where the flags say the cluster is."""
    place = bootstrap_of(parser, options, missing)
    return {**_without_broker_options(command_properties(options.command_config)), **place}


def _without_broker_options(given: dict[str, str]) -> dict[str, str]:
    """A node's own file may serve as --command-config, as add-controller wants it."""
    from barnabas.client.options import is_client_option

    others = [name for name in given if not is_client_option(name)]
    if not others:
        return given
    from barnabas.config import BROKER  # Only needed for such a file, or to refuse a slip.

    of_brokers = {name for name in others if BROKER.option(name) is not None}
    return {name: value for name, value in given.items() if name not in of_brokers}


@contextmanager
def open_admin(
    parser: ArgumentParser,
    options: Namespace,
    missing: str | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Iterator[Admin]:
    """An admin client that has reached the cluster; CommandError (unreachable) if none answers.

    `missing` is what to say if no server is named; `defaults` are properties for what the file leaves open.
    """
    given = client_properties(parser, options, missing)
    patience_ms = FIRST_CONTACT_MS if API_TIMEOUT not in given else None
    from barnabas.client.sync import Admin

    with Admin({**(defaults or {}), **given}) as admin:
        reach(admin, parser.prog, str(next(iter(_places(given)))), patience_ms)
        yield admin


@contextmanager
def open_topic_admin(
    parser: ArgumentParser, options: Namespace, missing: str | None = None
) -> Iterator[TopicAdmin]:
    """The same for tools that ask only about topics: it is there in half the time."""
    given = client_properties(parser, options, missing)
    patience_ms = FIRST_CONTACT_MS if API_TIMEOUT not in given else None
    from barnabas.client.sync.topics import TopicAdmin

    with TopicAdmin(given) as admin:
        reach(admin, parser.prog, str(next(iter(_places(given)))), patience_ms)
        yield admin


def _places(given: dict[str, object]) -> list[object]:
    return [value for name, value in given.items() if name in ("bootstrap.servers", "bootstrap.controllers")]


def reach(
    admin: Admin | TopicAdmin, program: str, places: str, patience_ms: int | None = FIRST_CONTACT_MS
) -> None:
    """Wait until the cluster answers."""
    from barnabas.base.errors import KafkaError
    from barnabas.cli.framework.kafka_errors import exit_code

    try:
        if sys.stderr.isatty() and (patience_ms is None or patience_ms > HINT_AFTER_MS):
            try:
                admin.reach(timeout_ms=HINT_AFTER_MS)
                return
            except KafkaError as error:
                if exit_code(error) is not Exit.UNREACHABLE:
                    raise
            _mention(f"{program}: {places} does not answer yet, trying again (Ctrl+C ends)")
            patience_ms = None if patience_ms is None else patience_ms - HINT_AFTER_MS
        admin.reach(timeout_ms=patience_ms)
    except KafkaError as error:
        if exit_code(error) is not Exit.UNREACHABLE:
            raise
        reason = getattr(error.__cause__, "message", error.message)
        advice = f"is it started, and is {places} what it listens on?"
        raise CommandError(f"{program}: {reason} ({advice})", Exit.UNREACHABLE) from error
