"""Classes as their source declares them: signatures, fields with comments, docstrings.

The source is read instead of the class, since a compiled class has neither signatures nor docstrings.
"""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).resolve().parents[2] / "src"
WIDTH = 96
ENUMS = ("IntEnum", "Enum", "IntFlag", "StrEnum")
# Of these a user of a class sees nothing.
_NOT_SHOWN = ("Generic", "Protocol", "NamedTuple", "BlockingClient", "PendingRecord")
_EMPTY = {"dict": "{}", "list": "[]", "tuple": "()"}


@dataclass(frozen=True)
class Source:
    """A module, and its text."""

    module: ModuleType
    lines: list[str]
    tree: ast.Module


@cache
def source_of(module: str) -> Source:
    place = SOURCE.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = path.read_text("utf-8")
    return Source(importlib.import_module(module), text.splitlines(), ast.parse(text))


@dataclass(frozen=True)
class Member:
    """A method, a property or a field."""

    name: str
    signature: str
    text: str
    is_field: bool = False


@dataclass(frozen=True)
class Definition:
    """One class."""

    node: ast.ClassDef
    source: Source

    @cached_property
    def text(self) -> str:
        return as_markdown(ast.get_docstring(self.node) or "")

    @property
    def bases(self) -> list[str]:
        names = [text_of(base) for base in self.node.bases]
        return [name for name in names if not name.startswith(_NOT_SHOWN)]

    @property
    def is_enum(self) -> bool:
        return any(base in ENUMS for base in self.bases)

    def constructor(self) -> str | None:
        node = self._init()
        if node is None:
            return None
        return self._signature(node).replace("def __init__(", f"{self.node.name}(").removesuffix(" -> None")

    def parameters(self) -> list[str]:
        """Those of the constructor: the attributes of a class without methods."""
        node = self._init()
        return [] if node is None else self._parameters(node.args)

    def _init(self) -> ast.FunctionDef | None:
        found = (node for node in self.node.body if isinstance(node, ast.FunctionDef))
        return next((node for node in found if node.name == "__init__"), None)

    def members(self) -> Iterator[Member]:
        """What has a name without an underscore, in the order of the source."""
        for node in self.node.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if not node.name.startswith("_"):
                    yield Member(node.name, self._signature(node), as_markdown(ast.get_docstring(node) or ""))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                if not node.target.id.startswith("_") and "ClassVar" not in text_of(node.annotation):
                    yield Member(node.target.id, self._field(node), self._comment_above(node), is_field=True)
            elif isinstance(node, ast.Assign) and self.is_enum and isinstance(node.targets[0], ast.Name):
                yield Member(node.targets[0].id, text_of(node), self._comment_above(node), is_field=True)

    def synonyms(self) -> list[tuple[str, str]]:
        """Other names of methods, and the methods."""
        return [
            (node.targets[0].id, node.value.id)
            for node in self.node.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Name)
        ]

    def same_as_asynchronous(self) -> list[str]:
        """Of a blocking client: the names of the methods that wrap those of the asyncio client."""
        return [
            node.targets[0].id
            for node in self.node.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and re.match(r"(blocking|on_loop)\(", text_of(node.value))
            and not node.targets[0].id.startswith("_")
        ]

    # -------------------------------------------------------------------------------------------- signatures

    def _field(self, node: ast.AnnAssign) -> str:
        default = "" if node.value is None else f" = {self._default(node.value)}"
        return f"{text_of(node.target)}: {text_of(node.annotation)}{default}"

    def _signature(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        returns = "" if node.returns is None else f" -> {text_of(node.returns)}"
        if any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
            return f"{node.name}{returns.replace(' -> ', ': ')}"
        start = "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
        parts = self._parameters(node.args)
        line = f"{start}{node.name}({', '.join(parts)}){returns}"
        if len(line) <= WIDTH:
            return line
        return f"{start}{node.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"

    def _parameters(self, given: ast.arguments) -> list[str]:
        positional = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
        parts: list[str] = []
        for number, (one, default) in enumerate(zip(positional, defaults, strict=True), 1):
            if one.arg not in ("self", "cls"):
                parts.append(self._parameter(one, default))
            if number == len(given.posonlyargs) and parts:
                parts.append("/")
        if given.vararg is not None:
            parts.append(f"*{self._parameter(given.vararg, None)}")
        elif given.kwonlyargs:
            parts.append("*")
        parts += [self._parameter(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
        if given.kwarg is not None:
            parts.append(f"**{self._parameter(given.kwarg, None)}")
        return parts

    def _parameter(self, one: ast.arg, default: ast.expr | None) -> str:
        annotation = "" if one.annotation is None else f": {text_of(one.annotation)}"
        if default is None:
            return one.arg + annotation
        return f"{one.arg}{annotation}{' = ' if annotation else '='}{self._default(default)}"

    def _default(self, node: ast.expr) -> str:
        """As it is written; the value of a constant of the module."""
        text = text_of(node)
        value = getattr(self.source.module, text, None) if isinstance(node, ast.Name) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return f"{value:_}"
        return re.sub(r"^field\(default_factory=(dict|list|tuple)\)$", lambda made: _EMPTY[made[1]], text)

    def _comment_above(self, node: ast.stmt) -> str:
        lines: list[str] = []
        for line in reversed(self.source.lines[: node.lineno - 1]):
            if not line.strip().startswith("# "):
                break
            lines.insert(0, line.strip().removeprefix("# "))
        return " ".join(lines)


def definition(module: str, name: str) -> Definition:
    """The class of this name, where it is defined."""
    source = source_of(module)
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return Definition(node, source)
    raise LookupError(f"{module} defines no class {name}")


def function(module: str, name: str) -> Member:
    """The function of this name, where it is defined."""
    source = source_of(module)
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            signature = Definition(ast.ClassDef(name, [], [], [node], []), source)._signature(node)
            return Member(name, signature, as_markdown(ast.get_docstring(node) or ""))
    raise LookupError(f"{module} defines no function {name}")


def text_of(node: ast.AST) -> str:
    """Code as we write it; the integers of compiled code are Python's."""
    return re.sub(r"\bi64\b", "int", re.sub(r"'([^'\"]*)'", r'"\1"', ast.unparse(node)))


def alias(module: str, name: str) -> str:
    """The line that defines a name for a type."""
    source = source_of(module)
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and text_of(node.targets[0]) == name:
            return text_of(node)
    raise LookupError(f"{module} defines no {name}")


def title_of(module: str) -> str:
    """The first sentence of a module's docstring, without its period."""
    return (ast.get_docstring(source_of(module).tree) or "").split("\n\n")[0].removesuffix(".")


def as_markdown(docstring: str) -> str:
    """Paragraphs as they are; what is indented is Python."""
    parts: list[str] = []
    for paragraph in docstring.split("\n\n"):
        if not paragraph.startswith("    "):
            parts.append(" ".join(paragraph.split()) if not paragraph.startswith("- ") else paragraph)
        elif parts and parts[-1].endswith("\n```"):
            parts[-1] = f"{parts[-1].removesuffix('```')}\n{textwrap.dedent(paragraph)}\n```"
        else:
            parts.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
    return "\n\n".join(parts)
