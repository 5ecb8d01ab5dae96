"""Which cluster a friendly command talks to, and whether a broker listens there.

The first of these that is given: --bootstrap-server, --context, $BARNABAS_BOOTSTRAP, $BARNABAS_CONTEXT, the
context chosen with `barnabas context use`, the broker on this machine (the one on port 9092, else the one
that runs longest), localhost:9092.
"""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.text.terminal import tell
from barnabas.cli.friendly.target.contexts import Context, Contexts

if TYPE_CHECKING:
    from barnabas.cli.server.running_servers import ServerInfo

BOOTSTRAP_VARIABLE = "BARNABAS_BOOTSTRAP"
CONTEXT_VARIABLE = "BARNABAS_CONTEXT"
DEFAULT_PORT = "9092"
DEFAULT_BOOTSTRAP = f"localhost:{DEFAULT_PORT}"


def resolve_bootstrap(options: Namespace, program: str = "barnabas") -> str:
    """The bootstrap servers by the rule above; sets them, and the context's --command-config, in the options.

    Where several brokers on this machine could be meant, a line on stderr names the one that is used.
    """
    named = getattr(options, "context", None)
    if options.bootstrap_server and named:
        raise UsageError(f"{program}: give --bootstrap-server or --context, not both")
    if not options.bootstrap_server and not named:
        options.bootstrap_server = os.environ.get(BOOTSTRAP_VARIABLE)
    if not options.bootstrap_server:
        context = Contexts().find(named or os.environ.get(CONTEXT_VARIABLE) or None)
        if context is not None:
            _take(options, context)
        else:
            options.bootstrap_server = _local_broker(program) or DEFAULT_BOOTSTRAP
    options.bootstrap_server = ",".join(with_port(server) for server in options.bootstrap_server.split(","))
    servers: str = options.bootstrap_server
    return servers


def _take(options: Namespace, context: Context) -> None:
    options.bootstrap_server = context.bootstrap_servers
    if not getattr(options, "command_config", None):
        options.command_config = context.command_config


def with_port(server: str) -> str:
    """`host` means port 9092; anything else is left for the check of addresses."""
    server = server.strip()
    if server.startswith("["):
        return f"{server}:{DEFAULT_PORT}" if server.endswith("]") else server
    return f"{server}:{DEFAULT_PORT}" if server and ":" not in server else server


def _local_broker(program: str) -> str | None:
    from barnabas.cli.server.running_servers import running_servers
    from barnabas.runtime.disk.folder_disk import FolderDisk

    try:
        servers = running_servers(FolderDisk())
    except OSError:
        return None
    brokers = [info for info in servers if "broker" in info.roles and info.listeners]
    if not brokers:
        return None
    # A broker that is started later must not change which one is meant.
    brokers.sort(key=lambda info: (address_of(info).rpartition(":")[2] != DEFAULT_PORT, info.started_ms))
    chosen = brokers[0]
    clusters = {info.cluster_id for info in brokers}
    if len(clusters) > 1:
        tell(
            f"{program}: {len(clusters)} clusters run on this machine, using the broker at "
            f"{address_of(chosen)}; choose with -b HOST:PORT, see barnabas status"
        )
    return address_of(chosen)


def address_of(info: ServerInfo) -> str:
    return info.listeners.get("PLAINTEXT") or next(iter(info.listeners.values()))


# Whether a broker is there ----------------------------------------------------------------------------------


def check_target(program: str, options: Namespace, security_protocol: str) -> None:
    """Fails at once where waiting cannot help: nothing listens on this machine, or something else does.

    A broker elsewhere may be starting, or its host may be; the client waits for it as usual.
    """
    if getattr(options, "is_checked", False):
        return
    options.is_checked = True
    servers: str = options.bootstrap_server
    if "," in servers:
        return
    from barnabas.cli.friendly.target.greeting import Greeting, greet

    host, _, port = servers.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        return
    host = host.strip("[]")
    found = greet(host, int(port))
    if found is Greeting.REFUSED and host in ("localhost", "127.0.0.1", "::1"):
        flag = "" if port == DEFAULT_PORT else f" --port {port}"
        raise CommandError(
            f"{program}: nothing listens on {servers}; start a broker with barnabas dev{flag}, or name "
            "another with -b HOST:PORT",
            Exit.UNREACHABLE,
        )
    if "SSL" in security_protocol.upper():
        return
    if found is Greeting.TLS:
        raise CommandError(
            f"{program}: {servers} expects TLS; set security.protocol=SSL (or SASL_SSL) in a file and give "
            "it with --command-config",
            Exit.UNREACHABLE,
        )
    if found is Greeting.STRANGER:
        raise CommandError(
            f"{program}: what listens on {servers} is not a Kafka broker; check host and port",
            Exit.UNREACHABLE,
        )
    if found is Greeting.SILENT:
        tell(
            f"{program}: {servers} accepts connections but does not answer as a Kafka broker does; still "
            "waiting (Ctrl+C to stop)"
        )
