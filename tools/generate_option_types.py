"""Write client/types/options.py from the option tables: `python -m tools.generate_option_types`."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

from barnabas.config import ADMIN, CONSUMER, PRODUCER, Option, OptionTable, Type

MODULE = Path(__file__).resolve().parents[1] / "src" / "barnabas" / "client" / "types" / "options.py"
WIDTH = 106
HEAD = '''\
"""The options of the clients as TypedDicts, for type checkers and completion in editors.

Written by `python -m tools.generate_option_types` from the option tables; do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict
'''
# Parameters of their own: they decide the types of keys and values.
SERIALIZERS = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
# Objects, classes or functions of the program.
OBJECTS = ("interceptor.classes", "partition.assignment.strategy")
TYPES = {
    Type.BOOLEAN: "bool",
    Type.STRING: "str",
    Type.INT: "int",
    Type.SHORT: "int",
    Type.LONG: "int",
    Type.DOUBLE: "float",
    Type.LIST: "str | Sequence[str]",
    Type.CLASS: "object",
    Type.PASSWORD: "str",
}
CLIENTS = ((PRODUCER, "Producer"), (CONSUMER, "Consumer"), (ADMIN, "Admin"))


def module() -> str:
    """The whole module."""
    shared = {name for name, _ in set.intersection(*(_named(table) for table, _ in CLIENTS))}
    parts = [HEAD, _class(PRODUCER, "Client", "TypedDict, total=False", "what all clients share", shared)]
    for table, title in CLIENTS:
        own = {name for name, option in table.options().items() if not option.internal}
        names = own - shared - set(SERIALIZERS)
        parts.append(_class(table, title, "ClientOptions, total=False", f"`{title}`, as keywords", names))
    return _formatted("\n\n".join(parts))


def _formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "format", "--stdin-filename", MODULE.name, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _named(table: OptionTable) -> set[tuple[str, str]]:
    return {(name, _annotation(option)) for name, option in table.options().items()}


def _class(table: OptionTable, title: str, bases: str, about: str, names: set[str]) -> str:
    lines = [f"class {title}Options({bases}):", f'    """The options of {about}."""', ""]
    options = table.options()
    for name in sorted(names):
        lines.append(f"    {name.replace('.', '_')}: {_annotation(options[name])}")
        lines += _doc(options[name])
    return "\n".join(lines) + "\n"


def _annotation(option: Option) -> str:
    values = re.fullmatch(r"(\(case insensitive\) )?\[([\w, -]+)\]", option.valid or "")
    if option.name in OBJECTS:
        kind = "object"
    elif option.type is Type.STRING and values is not None:
        words = values[2].split(", ")
        if values[1]:
            words = [*words, *(word.lower() for word in words)]
        numbers = [word for word in words if word.lstrip("-").isdecimal()]
        # Editors offer the values; a variable of any text is accepted, and checked by the client.
        kind = f"Literal[{', '.join([*(f'{chr(34)}{word}{chr(34)}' for word in words), *numbers])}] | str"
    else:
        kind = TYPES[option.type]
    return kind if option.default is not None or kind == "object" else f"{kind} | None"


def _doc(option: Option) -> list[str]:
    default = f" (default {option.default})" if option.default else ""
    text = textwrap.wrap(option.doc.rstrip(".") + default + ".", WIDTH - 8)
    if len(text) == 1:
        return [f'    """{text[0]}"""']
    return [f'    """{text[0]}', *(f"    {line}" for line in text[1:]), '    """']


if __name__ == "__main__":
    MODULE.write_text(module(), "utf-8")
    sys.stdout.write(f"{MODULE.relative_to(MODULE.parents[4])}\n")
