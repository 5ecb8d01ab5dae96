"""`barnabas completion`: shell completion of commands, flags, and names from the cluster.

    source <(barnabas completion bash)

It knows bash, zsh and fish.  The script runs `barnabas completion reply -- WORDS…`; the last word is the one
being typed.  Errors are ignored there: an error message would garble the command line.
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
# Short, because the user waits at the keyboard.
PATIENCE_MS = 1_500
BASH = """\
_barnabas() {
    local IFS=$'\\n'
    COMPREPLY=($(barnabas completion reply -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != *= ]] && compopt +o nospace
}
complete -o nospace -o default -F _barnabas barnabas
"""

ZSH = """\
#compdef barnabas
_barnabas() {
    local -a offers
    offers=("${(@f)$(barnabas completion reply -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -- "${(@)offers:#}"
}
compdef _barnabas barnabas
"""
FISH = """\
function __barnabas_offers
    set -l words (commandline -opc) (commandline -ct)
    barnabas completion reply -- $words[2..-1] 2>/dev/null
end
complete -c barnabas -f -a '(__barnabas_offers)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
HOW = """\
bash: add to ~/.bashrc              source <(barnabas completion bash)
zsh:  add to ~/.zshrc, below compinit  source <(barnabas completion zsh)
fish: once                          barnabas completion fish > ~/.config/fish/completions/barnabas.fish
"""

# Where names from the cluster are completed: values of these flags, and arguments of these commands.
TOPIC_FLAGS = frozenset({"--topic", "-t"})
GROUP_FLAGS = frozenset({"--group", "-g"})
BOOTSTRAP_FLAGS = frozenset({"--bootstrap-server", "-b"})
TOPIC_COMMANDS = frozenset({"topic", "produce", "consume", "tail"})
GROUP_COMMANDS = frozenset({"group", "explain"})


class _Parsing(Exception):
    """Raised when a command is about to parse its command line."""

    def __init__(self, parser: ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


def run(arguments: Sequence[str]) -> int:
    name, *words = arguments or [""]
    if name == "reply":
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            sys.stdout.writelines(
                f"{offer}\n" for offer in offers(whole_words(words[1:] if words[:1] == ["--"] else words))
            )
        return Exit.OK
    parser = ArgumentParser(
        PROGRAM, "Print a script that completes command lines, with names from the cluster.", HOW
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    options = parser.parse(arguments)
    sys.stdout.write(SCRIPTS[options.shell])
    return Exit.OK


def whole_words(words: Sequence[str]) -> list[str]:
    """bash splits words at `:` and `=`: `localhost`, `:`, `9092` is one word, `--topic`, `=`, `t`
    are two."""
    joined: list[str] = []
    for word in words:
        if joined and (word == ":" or joined[-1].endswith(":")):
            joined[-1] += word
        elif word != "=":
            joined.append(word)
    return joined if words and words[-1] != "=" else [*joined, ""]


def offers(words: Sequence[str]) -> list[str]:
    """The completions of the last word."""
    from barnabas.cli.main import COMMANDS

    *before, current = words or [""]
    if not before:
        return _starting_with(current, [*COMMANDS, "--help", "--version"])
    command = before[0]
    if command not in COMMANDS:
        return []
    tool = importlib.import_module(COMMANDS[command][0])
    subcommands = list(getattr(tool, "SUBCOMMANDS", ()))
    if subcommands and len(before) == 1:
        return _starting_with(current, [*subcommands, "--help"])
    parser = parser_of(tool.run, before[1:2] if subcommands else [])
    return _starting_with(current, _candidates(parser, command, before, current))


def _starting_with(current: str, candidates: Iterable[str]) -> list[str]:
    return sorted({candidate for candidate in candidates if candidate.startswith(current)})


def _candidates(
    parser: ArgumentParser | None, command: str, before: Sequence[str], current: str
) -> Iterable[str]:
    flag = before[-1]
    action = parser._option_string_actions.get(flag) if parser is not None else None
    if action is not None and action.nargs != 0:
        if action.choices is not None:
            return [str(choice) for choice in action.choices]
        if flag in TOPIC_FLAGS:
            return names_of("topic", before)
        return names_of("group", before) if flag in GROUP_FLAGS else []
    if current.startswith("-"):
        return (
            [] if parser is None else [option for option in parser._option_string_actions if len(option) > 2]
        )
    if command in TOPIC_COMMANDS and before[1:2] != ["create"]:
        return names_of("topic", before)
    return names_of("group", before) if command in GROUP_COMMANDS else []


def parser_of(run_tool: Callable[[list[str]], int], arguments: Sequence[str]) -> ArgumentParser | None:
    """The parser of a command, caught just before it parses its command line."""

    def catch(parser: ArgumentParser, given: object) -> None:
        raise _Parsing(parser)

    before = ArgumentParser.parse
    setattr(ArgumentParser, "parse", catch)  # noqa: B010
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
    """The topics or groups of the cluster; empty if it does not respond at once."""
    from argparse import Namespace

    from barnabas.cli.friendly.framework import resolve_bootstrap
    from barnabas.client.sync import Admin

    given = next((value for flag, value in pairwise(words) if flag in BOOTSTRAP_FLAGS), None)
    server = resolve_bootstrap(Namespace(bootstrap_server=given))
    with Admin(
        bootstrap_servers=server, default_api_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS
    ) as admin:
        if kind == "topic":
            return list(admin.list_topics(timeout_ms=PATIENCE_MS))
        return [group.group_id for group in admin.list_groups(timeout_ms=PATIENCE_MS).groups]
