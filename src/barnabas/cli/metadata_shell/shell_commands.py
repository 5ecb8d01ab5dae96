"""The commands of the metadata shell.

Contains the commands and their output; reading lines belongs in `interactive`, reading files in
`image_loader`.  Results go to stdout, errors to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from barnabas.cli.framework.exits import Exit
from barnabas.cli.metadata_shell.columns import in_columns
from barnabas.cli.metadata_shell.nodes import Folder, Leaf, Node, lines_of
from barnabas.cli.metadata_shell.paths import FoundNode, find

MAX_HISTORY = 10_000


@dataclass(slots=True)
class Shell:
    """A tree and the working folder.  `width` is that of the screen, or None."""

    root: Node
    interactive: bool = False
    width: int | None = None
    working_folder: str = "/"
    history: list[str] = field(default_factory=list)
    dropped: int = 0
    has_exited: bool = False

    def remember(self, line: str) -> None:
        self.history.append(line)
        if len(self.history) > MAX_HISTORY:
            del self.history[0]
            self.dropped += 1

    def run(self, words: Sequence[str]) -> Exit:
        """Runs one command; trailing empty words, left by completion, are ignored."""
        given = list(words)
        while given and not given[-1]:
            given.pop()
        if not given:
            return Exit.OK
        name, *arguments = given
        known = self.known()
        if name not in known:
            choices = ", ".join(f"'{choice}'" for choice in known)
            return report_error(f"invalid choice: '{name}' (choose from {choices})", Exit.USAGE)
        command = COMMANDS[name]
        for word in arguments:
            if word.startswith("-") and word != "-":
                return report_error(f"unrecognized arguments: '{word}'", Exit.USAGE)
        if len(arguments) < command.min_arguments:
            return report_error("too few arguments", Exit.USAGE)
        if command.max_arguments is not None and len(arguments) > command.max_arguments:
            return report_error(f"unrecognized arguments: '{arguments[command.max_arguments]}'", Exit.USAGE)
        return command.call(self, arguments)

    def known(self) -> list[str]:
        return [
            name for name, command in COMMANDS.items() if self.interactive or not command.interactive_only
        ]

    def find_nodes(self, path: str) -> list[FoundNode]:
        return find(self.root, path, self.working_folder)

    def _each(
        self, command: str, targets: Sequence[str], message: str
    ) -> Iterator[tuple[str, list[FoundNode]]]:
        for target in targets:
            nodes = self.find_nodes(target)
            if not nodes:
                report_error(f"{command}: {target}: {message}")
            yield target, nodes

    # The commands ----------------------------------------------------------------------------------------

    def cat(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        for target, nodes in self._each("cat", targets, "No such file or directory."):
            worst = worst if nodes else Exit.NOT_FOUND
            for found in nodes:
                if isinstance(found.node, Leaf):
                    print(found.node.text)
                else:
                    worst = report_error(f"cat: {target}: Is a directory", Exit.FAILED)
        return worst

    def tree(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        for _, nodes in self._each("tree", targets, "No such file or directory."):
            worst = worst if nodes else Exit.NOT_FOUND
            for found in nodes:
                for line in lines_of(found.node):
                    print(line)
        return worst

    def find(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        for target, nodes in self._each("find", _or_working_folder(targets), "no such file or directory."):
            worst = worst if nodes else Exit.NOT_FOUND
            for found in nodes:
                # The path printed is the pattern as typed, as in Apache Kafka's shell.
                for line in _below(target, found.node):
                    print(line)
        return worst

    def ls(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        files: list[str] = []
        folders: list[tuple[str, list[str]]] = []
        for _, nodes in self._each("ls", _or_working_folder(targets), "no such file or directory."):
            worst = worst if nodes else Exit.NOT_FOUND
            for found in nodes:
                if isinstance(found.node, Folder):
                    folders.append((found.name, found.node.sorted_names()))
                else:
                    files.append(found.name)
        self._list("", files)
        with_headings = bool(files) or len(folders) > 1
        for number, (name, names) in enumerate(folders):
            gap = "\n" if files or number else ""
            self._list(f"{gap}{name}:\n" if with_headings else "", names)
        return worst

    def _list(self, intro: str, names: list[str]) -> None:
        if names:
            sys.stdout.write(intro)
            for line in in_columns(names, self.width):
                print(line)

    def cd(self, targets: Sequence[str]) -> Exit:
        target = targets[0] if targets else "/"
        nodes = self.find_nodes(target)
        if not nodes:
            return report_error(f"cd: {target}: no such directory.", Exit.NOT_FOUND)
        for found in nodes:
            if not isinstance(found.node, Folder):
                return report_error(f"cd: {target}: not a directory.", Exit.FAILED)
            self.working_folder = found.absolute
        return Exit.OK

    def pwd(self, _: Sequence[str]) -> Exit:
        print(self.working_folder)
        return Exit.OK

    def show_history(self, given: Sequence[str]) -> Exit:
        count = len(self.history)
        if given:
            if not (given[0].isascii() and given[0].isdecimal()):
                return report_error(
                    f"argument numEntriesToShow: could not convert '{given[0]}' to Integer"
                    f' (For input string: "{given[0]}")',
                    Exit.USAGE,
                )
            count = min(count, int(given[0]))
        first = len(self.history) - count
        for number, line in enumerate(self.history[first:], self.dropped + first):
            print(f"{number:5d}  {line}")
        return Exit.OK

    def man(self, given: Sequence[str]) -> Exit:
        command = COMMANDS.get(given[0])
        if command is None:
            return report_error(
                f"man: unknown command {given[0]}. Type help to get a list of commands.", Exit.USAGE
            )
        print(f"{given[0]}: {command.summary}\n\nusage: {given[0]} {command.usage}".rstrip())
        return Exit.OK

    def help(self, _: Sequence[str]) -> Exit:
        print("The metadata of a cluster as a tree; see `man COMMAND`:\n")
        for name in self.known():
            print(f"  {name:<8} {COMMANDS[name].summary}")
        return Exit.OK

    def exit(self, _: Sequence[str]) -> Exit:
        self.has_exited = True
        return Exit.OK


@dataclass(frozen=True, slots=True)
class Command:
    """A command, its help, and the number of its arguments."""

    call: Callable[[Shell, Sequence[str]], Exit]
    summary: str
    usage: str = ""
    min_arguments: int = 0
    max_arguments: int | None = 0
    interactive_only: bool = False


COMMANDS = {
    "cat": Command(Shell.cat, "Show the contents of metadata files.", "PATH...", 1, None),
    "cd": Command(Shell.cd, "Set the current working directory.", "[PATH]", 0, 1, interactive_only=True),
    "exit": Command(Shell.exit, "Exit the metadata shell.", interactive_only=True),
    "find": Command(Shell.find, "Search for nodes in the directory hierarchy.", "[PATH...]", 0, None),
    "help": Command(Shell.help, "Display this help message.", interactive_only=True),
    "history": Command(Shell.show_history, "Print command history.", "[COUNT]", 0, 1, interactive_only=True),
    "ls": Command(Shell.ls, "List metadata nodes.", "[PATH...]", 0, None),
    "man": Command(
        Shell.man, "Show the help text for a specific command.", "COMMAND", 1, 1, interactive_only=True
    ),
    "pwd": Command(Shell.pwd, "Print the current working directory.", interactive_only=True),
    "tree": Command(
        Shell.tree, "Show the contents of metadata nodes in a tree structure.", "PATH...", 1, None
    ),
}


def report_error(line: str, code: Exit = Exit.FAILED) -> Exit:
    sys.stdout.flush()
    print(line, file=sys.stderr)
    return code


def _or_working_folder(targets: Sequence[str]) -> list[str]:
    return [target for target in targets if target] or ["."]


def _below(path: str, node: Node) -> Iterator[str]:
    yield path
    if isinstance(node, Folder):
        for name, child in node.children():
            child_path = f"{path}{name}" if path == "/" else f"{path}/{name}"
            if child is None:
                yield child_path
            else:
                yield from _below(child_path, child)
