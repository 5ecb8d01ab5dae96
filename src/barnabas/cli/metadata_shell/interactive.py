"""The metadata shell with somebody who types: a prompt, history, completion with Tab."""

from __future__ import annotations

import shlex
import sys
from types import ModuleType

from barnabas.cli.framework.exits import Exit
from barnabas.cli.metadata_shell.nodes import Folder
from barnabas.cli.metadata_shell.paths import components
from barnabas.cli.metadata_shell.shell_commands import Shell, wrong

PROMPT = ">> "
BANNER = "[ Kafka Metadata Shell ]"


def converse(shell: Shell) -> None:
    """Read commands until `exit` or the end of input; Ctrl+C gives up the line, not the shell."""
    line_editor = _line_editor(shell)
    print(BANNER)
    while not shell.over:
        try:
            line = input(PROMPT)
        except KeyboardInterrupt:
            print("^C")
            continue
        except EOFError:
            if line_editor is not None:
                print()
            return
        _obey(shell, line)


def _obey(shell: Shell, line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError as error:
        wrong(f"{error}", Exit.USAGE)
        return
    if words:
        shell.remember(line.strip())
        shell.run(words)


def _line_editor(shell: Shell) -> ModuleType | None:
    """readline, set up, where there is a terminal and the system has it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        import readline
    except ImportError:
        return None

    def complete(text: str, number: int) -> str | None:
        found = candidates(shell, readline.get_line_buffer()[: readline.get_endidx()])
        return found[number] if number < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    return readline


def candidates(shell: Shell, line: str) -> list[str]:
    """What the last word of a line may become: a command if it is the first, else a path."""
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
        f"{before}{slash}{found}" + ("/" if isinstance(child, Folder) else "")
        for found, child in node.children()
        if found.startswith(name)
    ]
