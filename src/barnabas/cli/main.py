"""The entry point: finds the tool, runs it, and turns whatever happens into one line and an exit code.

Data goes to stdout, everything else to stderr.  A tool's module is imported only when it is called, so
that `barnabas --help` answers at once.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence

from barnabas import __version__
from barnabas.cli.framework.exits import CommandError, Exit, HelpShownError, code_for, describe, one_line

TRACEBACK_VARIABLE = "BARNABAS_TRACEBACK"

# Name of the command: module with `run(arguments) -> int`, and one line for the help.
COMMANDS = {
    "acls": ("barnabas.cli.acls.command", "show and change rules of access"),
    "aliases": ("barnabas.cli.aliases.command", "write scripts with the names of Apache Kafka's"),
    "broker-api-versions": ("barnabas.cli.broker_api_versions", "show which requests brokers understand"),
    "cluster": ("barnabas.cli.cluster", "look at the cluster: its id, its nodes"),
    "collect": ("barnabas.cli.collect", "follow files, the standard input or syslog into a topic"),
    "completion": ("barnabas.cli.friendly.completion", "complete command lines, with names of the cluster"),
    "configs": ("barnabas.cli.configs.command", "show and change options, quotas and credentials"),
    "console-consumer": ("barnabas.cli.console.console_consumer", "print the records of topics"),
    "console-producer": ("barnabas.cli.console.console_producer", "send lines as records"),
    "consume": ("barnabas.cli.friendly.records.consume", "print records, from a place to a place"),
    "consumer-groups": (
        "barnabas.cli.consumer_groups.command",
        "look at groups of consumers, reset their offsets",
    ),
    "consumer-perf-test": ("barnabas.cli.perf.consumer_perf_test", "measure how fast records are read"),
    "delete-records": ("barnabas.cli.delete_records", "delete the records before an offset"),
    "dev": ("barnabas.cli.server.dev", "run one broker for development; nothing to set up"),
    "doctor": ("barnabas.cli.doctor.command", "check this installation and say what to do next"),
    "dump-log": ("barnabas.cli.dump_log.command", "print what is in the files of a log"),
    "e2e-latency": ("barnabas.cli.perf.e2e_latency", "measure the way of a record from end to end"),
    "explain": ("barnabas.cli.friendly.explain", "say why the consumers of a group get nothing"),
    "features": ("barnabas.cli.features", "look at feature levels, and change them"),
    "get-offsets": ("barnabas.cli.get_offsets", "print offsets of partitions"),
    "group": ("barnabas.cli.friendly.group", "list, show, reset and delete consumer groups"),
    "groups": ("barnabas.cli.groups", "list groups of all kinds"),
    "leader-election": ("barnabas.cli.leader_election", "elect leaders of partitions anew"),
    "log-dirs": ("barnabas.cli.log_dirs", "show the folders of brokers and what lies in them"),
    "metadata-quorum": (
        "barnabas.cli.metadata_quorum.command",
        "look at the metadata quorum, and change who votes",
    ),
    "metadata-shell": (
        "barnabas.cli.metadata_shell.command",
        "walk through metadata like through a tree of files",
    ),
    "pipeline": ("barnabas.cli.pipeline.command", "run pipelines of Spark queries, and look at them"),
    "produce": ("barnabas.cli.friendly.records.produce", "send lines, or records that consume printed"),
    "producer-perf-test": ("barnabas.cli.perf.producer_perf_test", "measure how fast records are written"),
    "reassign-partitions": (
        "barnabas.cli.reassign_partitions.command",
        "move replicas to other brokers or folders",
    ),
    "segment": ("barnabas.cli.friendly.segment", "look into the files of a log, for people"),
    "server-start": ("barnabas.cli.server.server_start", "run a node as its server.properties says"),
    "server-stop": (
        "barnabas.cli.server.server_stop",
        "stop nodes on this machine, and wait until they have",
    ),
    "status": ("barnabas.cli.server.status", "show the nodes on this machine, and whether they answer"),
    "storage": (
        "barnabas.cli.storage.command",
        "format data folders, look into them, look up feature levels",
    ),
    "tail": ("barnabas.cli.friendly.records.tail", "print the last records, then those that come"),
    "top": ("barnabas.cli.friendly.top", "show what moves: records a second by topic, lag by group"),
    "topic": ("barnabas.cli.friendly.topic.command", "list, show, create, change, empty and delete topics"),
    "topics": ("barnabas.cli.topics.command", "create, list, describe, alter and delete topics"),
    "transactions": ("barnabas.cli.transactions.command", "look at transactions, and end those that hang"),
}


def help_text() -> str:
    width = max(len(name) for name in COMMANDS)
    rows = "\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in sorted(COMMANDS.items()))
    return (
        "usage: barnabas COMMAND [OPTIONS]\n\n"
        "An event streaming platform, compatible with the Apache Kafka protocol.\n\n"
        f"commands:\n{rows}\n\n"
        "options:\n"
        "  -h, --help  show this text; after a command, its options\n"
        "  --version   show the version\n"
    )


def run(arguments: Sequence[str]) -> int:
    """Find the tool and call it."""
    if not arguments:
        sys.stderr.write(help_text())
        return Exit.USAGE
    name, *rest = arguments
    if name in ("-h", "--help", "-help"):
        sys.stdout.write(help_text())
        return Exit.OK
    if name in ("--version", "-version"):
        print(f"barnabas {__version__}")
        return Exit.OK
    if name not in COMMANDS:
        from barnabas.cli.framework.arguments import did_you_mean
        from barnabas.cli.framework.exits import UsageError

        kind = "option" if name.startswith("-") else "command"
        known = [*COMMANDS, "--help", "--version"]
        raise UsageError(f"barnabas: unknown {kind} {name}{did_you_mean(name, known)}; see barnabas --help")
    tool = importlib.import_module(COMMANDS[name][0])
    code: int = tool.run(rest)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    open_closed_streams()
    # A name or a record may hold what the terminal cannot show; that must not end the output.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough.  Python would complain at exit, when it flushes once more.
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
        with contextlib.suppress(OSError):  # Where the output goes may be what failed.
            sys.stdout.flush()
        print(one_line(line), file=sys.stderr)
    return int(code)


def open_closed_streams() -> None:
    """Give a stream that was closed before we started (`>&-`) the null device: nobody wants its text.

    The lowest free descriptors are the missing ones, so no file of ours can take their place and receive
    what a child or a library prints.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def explain(error: Exception) -> tuple[str, Exit]:
    """The line to show for an error, and the code to end with."""
    if isinstance(error, CommandError):
        return str(error), error.code
    from barnabas.base.errors import KafkaError

    # Before the system's own errors: a time-out of a client is one of those too.
    if isinstance(error, KafkaError):
        from barnabas.cli.framework.kafka_errors import exit_code, sentence

        return f"barnabas: {sentence(error)}", exit_code(error)
    if isinstance(error, OSError):
        return f"barnabas: {describe(error)}", code_for(error)
    text = " ".join(str(error).split())
    advice = f"(a fault of barnabas; set {TRACEBACK_VARIABLE}=1 to see where, and please report it)"
    return f"barnabas: unexpected {type(error).__name__}: {text} {advice}", Exit.FAILED
