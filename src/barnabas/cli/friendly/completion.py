"""`barnabas completion`: what a shell asks when Tab is pressed: commands, flags, and names from the cluster.

    source <(barnabas completion bash)

The script asks `barnabas completion reply -- WORDS…`, whose last word is the one that is being typed.
Whatever goes wrong there, nothing is offered: nobody wants an error in the middle of a command line.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import Exit, UsageError

PROGRAM = "barnabas completion"
SHELLS = ("bash",)
# Whoever waits for names waits at the keyboard.
PATIENCE_MS = 1_500
BASH = """\
_barnabas() {
    local IFS=$'\\n'
    COMPREPLY=($(barnabas completion reply -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != *= ]] && compopt +o nospace
}
complete -o nospace -o default -F _barnabas barnabas
"""

# Where a name of the cluster is meant: flags of any command, and the place of words of the friendly ones.
TOPIC_FLAGS = frozenset({"--topic", "-t"})
GROUP_FLAGS = frozenset({"--group", "-g"})
BOOTSTRAP_FLAGS = frozenset({"--bootstrap-server", "-b"})
TOPIC_WORDS = frozenset({"topic", "produce", "consume", "tail"})
GROUP_WORDS = frozenset({"group", "explain"})


class _Parsing(Exception):
    """A command is about to read its command line."""

    def __init__(self, parser: ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


def run(arguments: Sequence[str]) -> int:
    name, *rest = arguments or [""]
    if name == "reply":
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            sys.stdout.writelines(
                f"{one}\n" for one in offers(whole_words(rest[1:] if rest[:1] == ["--"] else rest))
            )
        return Exit.OK
    parser = ArgumentParser(
        PROGRAM, "Print a script that completes command lines: source <(barnabas completion bash)."
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash")
    parser.parse(arguments)
    sys.stdout.write(BASH)
    return Exit.OK


def whole_words(words: Sequence[str]) -> list[str]:
    """bash takes `:` and `=` for words of their own: `localhost`, `:`, `9092` is one, `--topic`, `=`, `t`
    are two."""
    joined: list[str] = []
    for word in words:
        if joined and (word == ":" or joined[-1].endswith(":")):
            joined[-1] += word
        elif word != "=":
            joined.append(word)
    return joined if words and words[-1] != "=" else [*joined, ""]


def offers(words: Sequence[str]) -> list[str]:
    """What may stand in place of the last word."""
    from barnabas.cli.main import COMMANDS

    *before, current = words or [""]
    if not before:
        return _beginning(current, [*COMMANDS, "--help", "--version"])
    command = before[0]
    if command not in COMMANDS:
        return []
    tool = importlib.import_module(COMMANDS[command][0])
    subcommands = list(getattr(tool, "SUBCOMMANDS", ()))
    if subcommands and len(before) == 1:
        return _beginning(current, [*subcommands, "--help"])
    parser = parser_of(tool.run, before[1:2] if subcommands else [])
    return _beginning(current, _candidates(parser, command, before, current))


def _beginning(current: str, candidates: Iterable[str]) -> list[str]:
    return sorted({one for one in candidates if one.startswith(current)})


def _candidates(
    parser: ArgumentParser | None, command: str, before: Sequence[str], current: str
) -> Iterable[str]:
    flag = before[-1]
    action = parser._option_string_actions.get(flag) if parser is not None else None
    if action is not None and action.nargs != 0:
        if action.choices is not None:
            return [str(one) for one in action.choices]
        if flag in TOPIC_FLAGS:
            return names_of("topic", before)
        return names_of("group", before) if flag in GROUP_FLAGS else []
    if current.startswith("-"):
        return [] if parser is None else [one for one in parser._option_string_actions if len(one) > 2]
    if command in TOPIC_WORDS and before[1:2] != ["create"]:
        return names_of("topic", before)
    return names_of("group", before) if command in GROUP_WORDS else []


def parser_of(run_tool: Callable[[list[str]], int], arguments: Sequence[str]) -> ArgumentParser | None:
    """The parser of a command, caught just before it reads its command line."""

    def caught(parser: ArgumentParser, given: object) -> None:
        raise _Parsing(parser)

    before = ArgumentParser.parse
    setattr(ArgumentParser, "parse", caught)  # noqa: B010
    try:
        run_tool(list(arguments))
    except _Parsing as parsing:
        return parsing.parser
    except UsageError:
        return None
    finally:
        setattr(ArgumentParser, "parse", before)  # noqa: B010
    return None


def names_of(kind: str, words: Sequence[str]) -> list[str]:
    """Topics or groups that the cluster has now; none if it does not answer at once."""
    from argparse import Namespace

    from barnabas.cli.friendly.framework import settle_bootstrap
    from barnabas.client.sync import Admin

    given = next((value for flag, value in pairwise(words) if flag in BOOTSTRAP_FLAGS), None)
    place = settle_bootstrap(Namespace(bootstrap_server=given))
    with Admin(
        bootstrap_servers=place, default_api_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS
    ) as admin:
        if kind == "topic":
            return list(admin.list_topics(timeout_ms=PATIENCE_MS))
        return [one.group_id for one in admin.list_groups(timeout_ms=PATIENCE_MS).groups]
