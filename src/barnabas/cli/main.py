"""The entry point: finds the tool, runs it, and turns errors into one line and an exit code.

Data goes to stdout, everything else to stderr.  The module of a tool is imported only when it is called, so
that `barnabas --help` is fast.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence

from barnabas import __version__
from barnabas.cli.framework.exits import CommandError, Exit, HelpShownError, code_for, describe

TRACEBACK_VARIABLE = "BARNABAS_TRACEBACK"

# Command: module with `run(arguments) -> int`, and one line of help.
COMMANDS = {
    "acls": ("barnabas.cli.acls.command", "list, add and remove ACLs"),
    "aliases": ("barnabas.cli.aliases.command", "write scripts with Apache Kafka's names"),
    "broker-api-versions": ("barnabas.cli.broker_api_versions", "show the API versions that brokers support"),
    "cluster": ("barnabas.cli.cluster.command", "run a local cluster; list nodes, unregister brokers"),
    "collect": ("barnabas.cli.collect", "write files, the standard input or syslog to a topic"),
    "completion": ("barnabas.cli.friendly.completion", "shell completion, with names from the cluster"),
    "configs": ("barnabas.cli.configs.command", "describe and alter options, quotas and credentials"),
    "console-consumer": ("barnabas.cli.console.console_consumer", "print the records of topics"),
    "console-producer": ("barnabas.cli.console.console_producer", "send lines as records"),
    "consume": ("barnabas.cli.friendly.records.consume", "print records between two positions"),
    "consumer-groups": (
        "barnabas.cli.consumer_groups.command",
        "describe consumer groups, reset their offsets",
    ),
    "consumer-perf-test": ("barnabas.cli.perf.consumer_perf_test", "measure consumer throughput"),
    "context": ("barnabas.cli.friendly.target.contexts", "name clusters, and choose the one to use"),
    "delegation-tokens": ("barnabas.cli.delegation_tokens", "create, renew, expire and describe tokens"),
    "delete-records": ("barnabas.cli.delete_records", "delete the records before an offset"),
    "dev": ("barnabas.cli.server.dev", "run a broker for development, without setup"),
    "demo": ("barnabas.cli.demo.command", "count the logs of many services live, with Spark"),
    "doctor": ("barnabas.cli.doctor.command", "check this installation, this machine and a cluster"),
    "drain": ("barnabas.cli.cluster.drain", "move every replica off a broker"),
    "dump-log": ("barnabas.cli.dump_log.command", "print the contents of log files"),
    "e2e-latency": ("barnabas.cli.perf.e2e_latency", "measure end-to-end latency"),
    "explain": (
        "barnabas.cli.friendly.explain",
        "explain why a group is stuck, or partitions are unwell",
    ),
    "features": ("barnabas.cli.features", "describe and change feature levels"),
    "get-offsets": ("barnabas.cli.get_offsets", "print the offsets of partitions"),
    "group": ("barnabas.cli.friendly.group", "list, show, reset and delete consumer groups"),
    "groups": ("barnabas.cli.groups", "list groups of all types"),
    "leader-election": ("barnabas.cli.leader_election", "elect leaders of partitions"),
    "log-dirs": ("barnabas.cli.log_dirs", "show the log directories of brokers"),
    "logs": ("barnabas.cli.logs", "find the format of log files, turn lines into JSON"),
    "metadata-quorum": (
        "barnabas.cli.metadata_quorum.command",
        "describe the metadata quorum, add and remove voters",
    ),
    "metadata-shell": (
        "barnabas.cli.metadata_shell.command",
        "browse metadata like a file system",
    ),
    "pipeline": ("barnabas.cli.pipeline.command", "run and monitor pipelines of Spark queries"),
    "produce": ("barnabas.cli.friendly.records.produce", "send lines, or records printed by consume"),
    "producer-perf-test": ("barnabas.cli.perf.producer_perf_test", "measure producer throughput"),
    "reassign-partitions": (
        "barnabas.cli.reassign_partitions.command",
        "move replicas to other brokers or log directories",
    ),
    "replica-verification": ("barnabas.cli.replica_verification", "check that replicas have the same data"),
    "restart": ("barnabas.cli.cluster.restart", "restart nodes one after another, without an outage"),
    "secure": ("barnabas.cli.secure.command", "write certificates, users and files for security"),
    "segment": ("barnabas.cli.friendly.segment", "show the segments, batches and records of a log"),
    "server-start": ("barnabas.cli.server.server_start", "run a node from its server.properties"),
    "server-stop": (
        "barnabas.cli.server.server_stop",
        "stop nodes on this machine, and wait for them",
    ),
    "sql": ("barnabas.cli.sql", "run SQL over topics and data folders"),
    "status": ("barnabas.cli.server.status", "show the nodes on this machine: do they respond?"),
    "storage": (
        "barnabas.cli.storage.command",
        "format data folders, look into them",
    ),
    "tail": ("barnabas.cli.friendly.records.tail", "print the last records, then new ones"),
    "timeline": ("barnabas.cli.timeline.command", "show elections, fenced brokers, new leaders, and why"),
    "top": ("barnabas.cli.friendly.top", "show throughput by topic, and lag by group"),
    "topic": ("barnabas.cli.friendly.topic.command", "list, show, create, alter, empty and delete topics"),
    "topics": ("barnabas.cli.topics.command", "create, list, describe, alter and delete topics"),
    "transactions": ("barnabas.cli.transactions.command", "describe transactions, abort hanging ones"),
    "zk-server": ("barnabas.cli.zookeeper.zk_server", "start and stop a ZooKeeper server, show its mode"),
    "zookeeper-server-start": (
        "barnabas.cli.zookeeper.server_start",
        "run Apache ZooKeeper from its properties file",
    ),
    "zookeeper-server-stop": (
        "barnabas.cli.zookeeper.server_stop",
        "stop the ZooKeeper servers on this machine",
    ),
    "zookeeper-shell": ("barnabas.cli.zookeeper.shell", "look at znodes and change them"),
}


# The sections of the help; every command is in one of them.
SECTIONS = (
    ("start here", ("dev", "topic", "produce", "consume", "tail", "explain", "doctor", "demo")),
    ("look and manage", ("group", "top", "sql", "status", "segment", "timeline", "context", "completion")),
    ("logs and pipelines", ("collect", "logs", "pipeline")),
    (
        "nodes and clusters",
        (
            "server-start",
            "server-stop",
            "storage",
            "cluster",
            "restart",
            "drain",
            "secure",
            "metadata-quorum",
            "metadata-shell",
            "dump-log",
            "aliases",
        ),
    ),
    (
        "with Apache Kafka's names and options",
        (
            "topics",
            "console-producer",
            "console-consumer",
            "consumer-groups",
            "groups",
            "configs",
            "acls",
            "get-offsets",
            "delegation-tokens",
            "delete-records",
            "log-dirs",
            "leader-election",
            "reassign-partitions",
            "features",
            "transactions",
            "broker-api-versions",
            "replica-verification",
            "producer-perf-test",
            "consumer-perf-test",
            "e2e-latency",
        ),
    ),
    ("ZooKeeper", ("zookeeper-server-start", "zookeeper-server-stop", "zookeeper-shell", "zk-server")),
)
EXAMPLES = """\
  barnabas dev                      # a broker on localhost:9092; keeps running
  echo hello | barnabas produce greetings --create
  barnabas consume greetings
"""


def help_text() -> str:
    width = max(len(name) for name in COMMANDS)
    parts = []
    for title, names in SECTIONS:
        rows = "\n".join(f"  {name:<{width}}  {COMMANDS[name][1]}" for name in names)
        parts.append(f"{title}:\n{rows}\n")
    sections = "\n".join(parts)
    return (
        "usage: barnabas COMMAND [OPTIONS]\n\n"
        "An event streaming platform, compatible with the Apache Kafka protocol.\n\n"
        f"{sections}\n"
        "options:\n"
        "  -h, --help  show this text; after a command, its options\n"
        "  --version   show the version\n\n"
        f"examples:\n{EXAMPLES}"
    )


def run(arguments: Sequence[str]) -> int:
    """Find the tool and call it."""
    if not arguments:
        sys.stderr.write(help_text())
        return Exit.USAGE
    name, *tool_arguments = arguments
    if name == "help" and tool_arguments:
        name, *tool_arguments = [*tool_arguments, "--help"]
    if name in ("-h", "--help", "-help", "help"):
        sys.stdout.write(help_text())
        return Exit.OK
    if name in ("--version", "-version", "version"):
        print(f"barnabas {__version__}")
        return Exit.OK
    if name not in COMMANDS:
        from barnabas.cli.framework.arguments import did_you_mean
        from barnabas.cli.framework.exits import UsageError

        kind = "option" if name.startswith("-") else "command"
        known = [*COMMANDS, "--help", "--version"]
        raise UsageError(f"barnabas: unknown {kind} {name}{did_you_mean(name, known)}; see barnabas --help")
    tool = importlib.import_module(COMMANDS[name][0])
    code: int = tool.run(tool_arguments)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    open_closed_streams()
    # Names and records may contain characters that the terminal cannot encode; that must not be an error.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe.  Redirect stdout, or Python would report another error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except HelpShownError as shown:
        return int(shown.code)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        line, code = explain(error)
        with contextlib.suppress(OSError):  # The output itself may be what failed.
            sys.stdout.flush()
        from barnabas.cli.framework.text.terminal import tell

        tell(line)
    return int(code)


def open_closed_streams() -> None:
    """Opens the null device for each standard stream that was closed before the start (`>&-`).

    The lowest free descriptors are the missing ones, so no other file can take their place and receive
    the output of a child process or a library.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def explain(error: Exception) -> tuple[str, Exit]:
    """The line to print for an error, and the exit code."""
    if isinstance(error, CommandError):
        return str(error), error.code
    from barnabas.base.errors import KafkaError

    # Before OSError: a timeout of a client is one of those too.
    if isinstance(error, KafkaError):
        from barnabas.cli.framework.kafka_errors import exit_code, sentence

        return f"barnabas: {sentence(error)}", exit_code(error)
    if isinstance(error, OSError):
        return f"barnabas: {describe(error)}", code_for(error)
    text = " ".join(str(error).split())
    advice = f"(a bug in barnabas; set {TRACEBACK_VARIABLE}=1 to see where, and please report it)"
    return f"barnabas: unexpected {type(error).__name__}: {text} {advice}", Exit.FAILED
