"""The faults: replacements for a statement or an expression.

An operator gets a place and yields replacement texts.  Each is a mistake that people make: a bound off by
one, an inverted condition, a forgotten call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tools.mutants.places import Place, places
from tools.mutants.source import Mutant, Offsets, is_same_program

Operator = Callable[[Place], Iterator[str]]

# Larger numbers are doubled: adding one seldom matters.
LARGE = 64
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# The wrong result of a function by its annotation; `None` for all others.
WRONG_RESULTS = {
    "bool": "not ({})",
    "int": "({}) + 1",
    "str": "''",
    "bytes": "b''",
    "list": "[]",
    "tuple": "()",
    "dict": "{{}}",
    "set": "set()",
    "frozenset": "frozenset()",
}
SIMPLE = (ast.Name, ast.Attribute, ast.Constant)


def comparison(place: Place) -> Iterator[str]:
    """`<` for `<=`, `==` for `!=`, `in` for `not in`."""
    match place.node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for other in COMPARISONS[type(op)]:
                yield f"({ast.unparse(ast.Compare(left, [other()], [right]))})"


def constant(place: Place) -> Iterator[str]:
    """Another number, or the other truth value."""
    match place.node, place.parent:
        case ast.Constant(value=bool()), ast.While():
            return
        case ast.Constant(value=bool(value)), _:
            yield str(not value)
        case ast.Constant(value=int(value)), _:
            yield str(value + 1 if value < LARGE else value * 2)


def dropped_call(place: Place) -> Iterator[str]:
    """A call statement is dropped; so is a pause between the slices of long work."""
    match place.node:
        case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
            if ast.unparse(call.func) != "super().__init__":
                yield "pass"
        case ast.Expr(value=ast.Yield() as dropped):
            if place.function is not None and _yields(place.function) - {dropped}:
                yield "pass"


def wrong_result(place: Place) -> Iterator[str]:
    """A wrong value is returned."""
    match place.node:
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            annotation = place.function.returns if place.function is not None else None
            kind = ast.unparse(annotation).split("[")[0] if annotation is not None else ""
            yield "return " + WRONG_RESULTS.get(kind, "None").format(ast.unparse(value))


def and_or(place: Place) -> Iterator[str]:
    """`or` for `and`, or one operand dropped."""
    match place.node:
        case ast.BoolOp(op=op, values=values):
            yield f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))})"
            for left_out in range(len(values)):
                others = values[:left_out] + values[left_out + 1 :]
                yield f"({ast.unparse(ast.BoolOp(op, others) if len(others) > 1 else others[0])})"


def removed_not(place: Place) -> Iterator[str]:
    """`not` is dropped."""
    match place.node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"


def branch(place: Place) -> Iterator[str]:
    """A branch that is never or always taken."""
    match place.parent:
        case ast.If(test=test) | ast.IfExp(test=test) if test is place.node:
            yield "False"
            yield "True"


def arithmetic(place: Place) -> Iterator[str]:
    """`-` for `+`, also in `+=`."""
    match place.node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not _is_text(left, right):
            yield f"({ast.unparse(ast.BinOp(left, ARITHMETIC[type(op)](), right))})"
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in ARITHMETIC:
            if not _is_text(value):
                yield ast.unparse(ast.AugAssign(target, ARITHMETIC[type(op)](), value))


def arguments(place: Place) -> Iterator[str]:
    """`max` for `min`; elsewhere two arguments are swapped."""
    match place.node:
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=keywords):
            other = ast.Name("max" if name == "min" else "min")
            yield ast.unparse(ast.Call(other, args, keywords))
        case ast.Call(func=func, args=[first, second, *rest], keywords=keywords):
            if isinstance(first, SIMPLE) and isinstance(second, SIMPLE) and not _is_text(first, second):
                yield ast.unparse(ast.Call(func, [second, first, *rest], keywords))


def loop(place: Place) -> Iterator[str]:
    """`continue` for `break`."""
    match place.node:
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"


def dropped_assignment(place: Place) -> Iterator[str]:
    """An attribute or an item is not set."""
    match place.node:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            # In `__init__` the attribute would be missing, which any test notices.
            if place.function is not None and place.function.name not in ("__init__", "__post_init__"):
                yield "pass"
        case ast.Delete():
            yield "pass"


OPERATORS: dict[str, Operator] = {
    each.__name__.replace("_", " "): each
    for each in (
        comparison,
        constant,
        dropped_call,
        wrong_result,
        and_or,
        removed_not,
        branch,
        arithmetic,
        arguments,
        loop,
        dropped_assignment,
    )
}


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """All mutants of a file in text order, including those that `is_sound` rejects, which is slow."""
    offsets = Offsets(text)
    for place in places(ast.parse(text)):
        start, end = offsets.span(place.node)
        for name, operator in OPERATORS.items():
            for after in operator(place):
                assert place.node.end_lineno is not None
                yield Mutant(path, place.node.lineno, place.node.end_lineno, start, end, name, after)


def is_sound(mutant: Mutant, text: str) -> bool:
    """Whether the mutant compiles, and to another program."""
    if text[mutant.start : mutant.end] == mutant.after:
        return False
    after = mutant.apply(text)
    try:
        compile(after, mutant.path, "exec")
    except (SyntaxError, ValueError):
        return False
    return not is_same_program(text, after)


def _yields(function: ast.AST) -> set[ast.expr]:
    return {node for node in ast.walk(function) if isinstance(node, ast.Yield | ast.YieldFrom)}


def _is_text(*nodes: ast.expr) -> bool:
    """Whether one of the nodes is a literal text or collection, for which the operator would only raise."""
    literals = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.ListComp)
    return any(
        isinstance(node, literals) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for node in nodes
    )
