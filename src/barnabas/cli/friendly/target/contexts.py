"""`barnabas context`: named clusters, one of which commands use by default.

They are kept in contexts.json in the folder of the user's configuration ($XDG_CONFIG_HOME/barnabas).
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from barnabas.cli.framework.arguments import ArgumentParser, did_you_mean
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.subcommands import Subcommand, Tool

PROGRAM = "barnabas context"
FILE = "contexts.json"


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster with a name; `command_config` is the properties file of clients, for example for security."""

    bootstrap_servers: str
    command_config: str | None = None


def config_folder() -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "barnabas")


class Contexts:
    """The file: read once, written as a whole."""

    def __init__(self) -> None:
        self._path = os.path.join(config_folder(), FILE)
        self.current: str | None = None
        self.by_name: dict[str, Context] = {}
        if not os.path.exists(self._path):
            return
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123
                data = json.load(file)
            self.current = data["current"]
            self.by_name = {name: Context(**given) for name, given in data["contexts"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CommandError(
                f"{self._path}: not a file of contexts ({error}); correct or remove it"
            ) from error

    def find(self, name: str | None) -> Context | None:
        """The context of this name; without a name the current one, if there is one."""
        wanted = name or self.current
        if wanted is None:
            return None
        if wanted not in self.by_name:
            raise CommandError(
                f"{PROGRAM}: there is no context {wanted}{did_you_mean(wanted, self.by_name)}; "
                f"see {PROGRAM} list",
                Exit.NOT_FOUND,
            )
        return self.by_name[wanted]

    def save(self) -> None:
        data = {
            "current": self.current,
            "contexts": {name: asdict(context) for name, context in self.by_name.items()},
        }
        from barnabas.runtime.disk.folder_disk import FolderDisk

        disk = FolderDisk()
        disk.make_folder(config_folder())
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        disk.write_atomically(self._path, text.encode(), sync=False)


def _declare_add(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="a name for the cluster")
    add("bootstrap_server", metavar="HOST[:PORT],...", help="brokers to connect to first")
    add("--command-config", metavar="FILE", help="properties file of the client, for example for security")


def _add(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.friendly.target.resolve import with_port

    contexts = Contexts()
    servers = ",".join(map(with_port, options.bootstrap_server.split(",")))
    config = options.command_config and os.path.abspath(options.command_config)
    if config and not os.path.exists(config):
        raise CommandError(f"{parser.prog}: there is no file {config}", Exit.NOT_FOUND)
    contexts.by_name[options.name] = Context(servers, config)
    contexts.current = contexts.current or options.name
    contexts.save()
    return _say(contexts, options.name)


def _say(contexts: Contexts, name: str) -> int:
    used = " (used by default)" if contexts.current == name else ""
    print(f"{name}: {contexts.by_name[name].bootstrap_servers}{used}")
    return Exit.OK


def _declare_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the context")


def _use(parser: ArgumentParser, options: Namespace) -> int:
    contexts = Contexts()
    contexts.find(options.name)
    contexts.current = options.name
    contexts.save()
    return _say(contexts, options.name)


def _declare_unuse(parser: ArgumentParser) -> None:
    """It has no arguments."""


def _unuse(parser: ArgumentParser, options: Namespace) -> int:
    contexts = Contexts()
    contexts.current = None
    contexts.save()
    return Exit.OK


def _remove(parser: ArgumentParser, options: Namespace) -> int:
    contexts = Contexts()
    contexts.find(options.name)
    del contexts.by_name[options.name]
    if contexts.current == options.name:
        contexts.current = None
    contexts.save()
    return Exit.OK


def _declare_list(parser: ArgumentParser) -> None:
    from barnabas.cli.friendly.framework import add_output

    add_output(parser)


def _list(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.friendly.output import Column, Printer

    contexts = Contexts()
    columns = (
        Column("context"),
        Column("is_current", title="USED"),
        Column("bootstrap_servers", title="BROKERS"),
        Column("command_config"),
    )
    Printer(
        options.output, columns, name="context", empty="there is no context; see barnabas context add"
    ).all(
        {"context": name, "is_current": name == contexts.current, **asdict(context)}
        for name, context in sorted(contexts.by_name.items())
    )
    return Exit.OK


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "list": Subcommand("list the contexts", _declare_list, _list),
    "add": Subcommand("add or replace a context", _declare_add, _add),
    "use": Subcommand("use a context by default", _declare_name, _use),
    "unuse": Subcommand("use no context by default", _declare_unuse, _unuse),
    "remove": Subcommand("remove a context", _declare_name, _remove),
}


def _parser(program: str, summary: str) -> ArgumentParser:
    return ArgumentParser(program, summary)


run = Tool(
    PROGRAM, "Name clusters, and choose the one that commands use.", SUBCOMMANDS, make_parser=_parser
).run
