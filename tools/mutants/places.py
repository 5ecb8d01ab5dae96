"""Where a fault may be put: every statement and expression, unless no test could or should notice.

Excluded are docstrings, annotations, decorators, assertions, logging, the text of errors, `__repr__`,
protocols, overloads, code for type checkers, and planted bugs (a changed one is still a bug).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

UNSEEN_FUNCTIONS = {"__repr__", "__str__", "__rich_repr__", "__class_getitem__"}
UNSEEN_DECORATORS = {"overload", "abstractmethod", "planted"}
UNSEEN_NAMES = {"__all__", "__slots__", "__match_args__"}
UNSEEN_CALLS = {"getLogger", "cast", "TypeVar", "ParamSpec", "NewType"}
# Arguments that change speed, text or checks, but no result.
UNSEEN_KEYWORDS = {"strict", "slots", "frozen", "repr", "kw_only", "flush", "daemon", "stacklevel", "help"}
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
UNSEEN_NODES = (
    ast.Assert,
    ast.Raise,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
    # Before Python 3.12 the parts of an f-string have no positions of their own.
    ast.JoinedStr,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A node, its parent, and the enclosing function."""

    node: ast.expr | ast.stmt
    parent: ast.AST
    function: ast.FunctionDef | ast.AsyncFunctionDef | None


def places(tree: ast.Module) -> Iterator[Place]:
    """All places of a module, in text order."""
    yield from _below(tree, None)


def _below(parent: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> Iterator[Place]:
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or is_unseen(node):
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield Place(node, parent, function)
            inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
            yield from _below(node, inner)


def is_unseen(node: ast.AST) -> bool:
    """Whether this node is excluded."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return is_logging(func)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            decorators = {_last_name(each) for each in node.decorator_list}
            return node.name in UNSEEN_FUNCTIONS or not decorators.isdisjoint(UNSEEN_DECORATORS)
        case ast.ClassDef():
            return any(_last_name(base) in ("Protocol", "TypedDict") for base in node.bases)
        case ast.If(test=test):
            return "TYPE_CHECKING" in ast.unparse(test) or "__name__" in ast.unparse(test)
        case ast.AnnAssign(annotation=annotation):
            return ast.unparse(annotation).endswith("TypeAlias")
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in UNSEEN_NAMES
        case ast.Call(func=func):
            return _last_name(func) in UNSEEN_CALLS
        case ast.keyword(arg=name):
            return name in UNSEEN_KEYWORDS
    return isinstance(node, UNSEEN_NODES)


def is_logging(func: ast.expr) -> bool:
    """`logger.info`, `self._logger.warning`, `logging.error`."""
    match func:
        case ast.Attribute(value=owner, attr=method):
            return method in LOG_METHODS and "log" in _last_name(owner).lower()
    return False


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
    return ""
