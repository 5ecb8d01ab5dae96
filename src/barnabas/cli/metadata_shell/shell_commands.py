"""The commands of the metadata shell.

What lives here: what a line of words does to the shell, and what it prints.  What may not: reading lines
(`interactive`) and files (`loading`).  What is found goes to stdout, what is wrong to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from barnabas.cli.framework.exits import Exit
from barnabas.cli.metadata_shell.columns import in_columns
from barnabas.cli.metadata_shell.nodes import Folder, Leaf, Node, lines_of
from barnabas.cli.metadata_shell.paths import Place, find

MOST_HISTORY = 10_000


@dataclass(slots=True)
class Shell:
    """A tree, and where in it one is.  `width` is that of the screen, None if there is none."""

    root: Node
    interactive: bool = False
    width: int | None = None
    working_folder: str = "/"
    history: list[str] = field(default_factory=list)
    forgotten: int = 0
    over: bool = False

    def remember(self, line: str) -> None:
        self.history.append(line)
        if len(self.history) > MOST_HISTORY:
            del self.history[0]
            self.forgotten += 1

    def run(self, words: Sequence[str]) -> Exit:
        """One command; empty words at its end are what completion leaves behind."""
        given = list(words)
        while given and not given[-1]:
            given.pop()
        if not given:
            return Exit.OK
        name, *rest = given
        known = self.known()
        if name not in known:
            choices = ", ".join(f"'{one}'" for one in known)
            return wrong(f"invalid choice: '{name}' (choose from {choices})", Exit.USAGE)
        command = COMMANDS[name]
        for word in rest:
            if word.startswith("-") and word != "-":
                return wrong(f"unrecognized arguments: '{word}'", Exit.USAGE)
        if len(rest) < command.fewest:
            return wrong("too few arguments", Exit.USAGE)
        if command.most is not None and len(rest) > command.most:
            return wrong(f"unrecognized arguments: '{rest[command.most]}'", Exit.USAGE)
        return command.call(self, rest)

    def known(self) -> list[str]:
        return [name for name, command in COMMANDS.items() if self.interactive or not command.only_here]

    def places(self, path: str) -> list[Place]:
        return find(self.root, path, self.working_folder)

    def _each(self, command: str, targets: Sequence[str], nothing: str) -> Iterator[tuple[str, list[Place]]]:
        for target in targets:
            places = self.places(target)
            if not places:
                wrong(f"{command}: {target}: {nothing}")
            yield target, places

    # The commands --------------------------------------------------------------------------------------

    def cat(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        for target, places in self._each("cat", targets, "No such file or directory."):
            worst = worst if places else Exit.NOT_FOUND
            for place in places:
                if isinstance(place.node, Leaf):
                    print(place.node.text)
                else:
                    worst = wrong(f"cat: {target}: Is a directory", Exit.FAILED)
        return worst

    def tree(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        for _, places in self._each("tree", targets, "No such file or directory."):
            worst = worst if places else Exit.NOT_FOUND
            for place in places:
                for line in lines_of(place.node):
                    print(line)
        return worst

    def find(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        for target, places in self._each("find", _or_here(targets), "no such file or directory."):
            worst = worst if places else Exit.NOT_FOUND
            for place in places:
                # Found nodes are shown below the pattern that was typed, as Apache Kafka's shell does.
                for line in _below(target, place.node):
                    print(line)
        return worst

    def ls(self, targets: Sequence[str]) -> Exit:
        worst = Exit.OK
        files: list[str] = []
        folders: list[tuple[str, list[str]]] = []
        for _, places in self._each("ls", _or_here(targets), "no such file or directory."):
            worst = worst if places else Exit.NOT_FOUND
            for place in places:
                if isinstance(place.node, Folder):
                    folders.append((place.name, place.node.sorted_names()))
                else:
                    files.append(place.name)
        self._list("", files)
        introduced = bool(files) or len(folders) > 1
        for number, (name, names) in enumerate(folders):
            gap = "\n" if files or number else ""
            self._list(f"{gap}{name}:\n" if introduced else "", names)
        return worst

    def _list(self, intro: str, names: list[str]) -> None:
        if names:
            sys.stdout.write(intro)
            for line in in_columns(names, self.width):
                print(line)

    def cd(self, targets: Sequence[str]) -> Exit:
        target = targets[0] if targets else "/"
        places = self.places(target)
        if not places:
            return wrong(f"cd: {target}: no such directory.", Exit.NOT_FOUND)
        for place in places:
            if not isinstance(place.node, Folder):
                return wrong(f"cd: {target}: not a directory.", Exit.FAILED)
            self.working_folder = place.absolute
        return Exit.OK

    def pwd(self, _: Sequence[str]) -> Exit:
        print(self.working_folder)
        return Exit.OK

    def show_history(self, given: Sequence[str]) -> Exit:
        count = len(self.history)
        if given:
            if not (given[0].isascii() and given[0].isdecimal()):
                return wrong(
                    f"argument numEntriesToShow: could not convert '{given[0]}' to Integer"
                    f' (For input string: "{given[0]}")',
                    Exit.USAGE,
                )
            count = min(count, int(given[0]))
        first = len(self.history) - count
        for number, line in enumerate(self.history[first:], self.forgotten + first):
            print(f"{number:5d}  {line}")
        return Exit.OK

    def man(self, given: Sequence[str]) -> Exit:
        command = COMMANDS.get(given[0])
        if command is None:
            return wrong(f"man: unknown command {given[0]}. Type help to get a list of commands.", Exit.USAGE)
        print(f"{given[0]}: {command.summary}\n\nusage: {given[0]} {command.usage}".rstrip())
        return Exit.OK

    def help(self, _: Sequence[str]) -> Exit:
        print("The metadata of a cluster as a tree; `man COMMAND` tells more of each:\n")
        for name in self.known():
            print(f"  {name:<8} {COMMANDS[name].summary}")
        return Exit.OK

    def leave(self, _: Sequence[str]) -> Exit:
        self.over = True
        return Exit.OK


@dataclass(frozen=True, slots=True)
class Command:
    """What a command wants: so many words, and perhaps somebody who types."""

    call: Callable[[Shell, Sequence[str]], Exit]
    summary: str
    usage: str = ""
    fewest: int = 0
    most: int | None = 0
    only_here: bool = False


COMMANDS = {
    "cat": Command(Shell.cat, "Show the contents of metadata files.", "PATH...", 1, None),
    "cd": Command(Shell.cd, "Set the current working directory.", "[PATH]", 0, 1, only_here=True),
    "exit": Command(Shell.leave, "Exit the metadata shell.", only_here=True),
    "find": Command(Shell.find, "Search for nodes in the directory hierarchy.", "[PATH...]", 0, None),
    "help": Command(Shell.help, "Display this help message.", only_here=True),
    "history": Command(Shell.show_history, "Print command history.", "[COUNT]", 0, 1, only_here=True),
    "ls": Command(Shell.ls, "List metadata nodes.", "[PATH...]", 0, None),
    "man": Command(Shell.man, "Show the help text for a specific command.", "COMMAND", 1, 1, only_here=True),
    "pwd": Command(Shell.pwd, "Print the current working directory.", only_here=True),
    "tree": Command(
        Shell.tree, "Show the contents of metadata nodes in a tree structure.", "PATH...", 1, None
    ),
}


def wrong(line: str, code: Exit = Exit.FAILED) -> Exit:
    sys.stdout.flush()
    print(line, file=sys.stderr)
    return code


def _or_here(targets: Sequence[str]) -> list[str]:
    return [one for one in targets if one] or ["."]


def _below(path: str, node: Node) -> Iterator[str]:
    yield path
    if isinstance(node, Folder):
        for name, child in node.children():
            below = f"{path}{name}" if path == "/" else f"{path}/{name}"
            if child is None:
                yield below
            else:
                yield from _below(below, child)
