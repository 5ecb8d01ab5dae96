"""The interactive metadata shell: a prompt, history, completion with Tab."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from types import ModuleType

from barnabas.base.errors import KafkaError
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.metadata_shell.nodes import Folder, Node
from barnabas.cli.metadata_shell.paths import components
from barnabas.cli.metadata_shell.shell_commands import Shell, report_error

PROMPT = ">> "
BANNER = "[ Kafka Metadata Shell ]"


def run_interactive(shell: Shell, reload: Callable[[], Node] | None = None) -> None:
    """Runs commands until `exit` or the end of the input; Ctrl+C discards the line.

    `reload` returns the present tree of a running quorum, for each command.
    """
    line_editor = _line_editor(shell)
    print(BANNER)
    while not shell.has_exited:
        try:
            line = input(PROMPT)
        except KeyboardInterrupt:
            print("^C")
            continue
        except EOFError:
            if line_editor is not None:
                print()
            return
        if reload is not None and line.strip():
            try:
                shell.root = reload()
            except (CommandError, KafkaError) as error:
                report_error(f"{error}; this is the metadata as it was last read", Exit.UNREACHABLE)
        _run_line(shell, line)


def _run_line(shell: Shell, line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError as error:
        report_error(f"{error}", Exit.USAGE)
        return
    if words:
        shell.remember(line.strip())
        shell.run(words)


def _line_editor(shell: Shell) -> ModuleType | None:
    """readline, configured, if there is a terminal and the system provides it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        import readline
    except ImportError:
        return None

    def complete(text: str, number: int) -> str | None:
        matches = candidates(shell, readline.get_line_buffer()[: readline.get_endidx()])
        return matches[number] if number < len(matches) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    return readline


def candidates(shell: Shell, line: str) -> list[str]:
    """The completions of the last word of a line: commands for the first word, else paths."""
    words = line.split(" ")
    last = words[-1]
    if len([word for word in words if word]) <= 1 and last == line.strip():
        return [name for name in shell.known() if name.startswith(last)]
    if words[0] == "man":
        return [name for name in shell.known() if name.startswith(last)]
    return _paths(shell, last)


def _paths(shell: Shell, start: str) -> list[str]:
    before, slash, name = start.rpartition("/")
    node = shell.root
    for part in components(before + slash, shell.working_folder):
        child = node.child(part) if isinstance(node, Folder) else None
        if child is None:
            return []
        node = child
    if not isinstance(node, Folder):
        return []
    return [
        f"{before}{slash}{child_name}" + ("/" if isinstance(child, Folder) else "")
        for child_name, child in node.children()
        if child_name.startswith(name)
    ]
