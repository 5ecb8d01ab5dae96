"""The graph of a pipeline as a drawing: for terminals, Graphviz and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.spark.pipeline.definition import Kind, Part, Pipeline, Settings, Sink, filled

_DOT_SHAPES = {Kind.SOURCE: "cds", Kind.TABLE: "box3d", Kind.TRANSFORM: "box"}
_MERMAID_SHAPES = {
    Kind.SOURCE: ("([", "])"),
    Kind.TABLE: ("[(", ")]"),
    Kind.TRANSFORM: ("[", "]"),
}


def drawing(pipeline: Pipeline, settings: Settings) -> list[str]:
    """Draw a tree under each source; a part with several inputs is under the first of them."""
    lines = [pipeline.name]
    homes = {part.name: _home(pipeline, part) for part in pipeline.parts.values()}
    roots = [part for part in pipeline.order() if part.kind is not Kind.TRANSFORM]
    # Tables that are only joined are named where that happens.
    drawn = [part for part in roots if part.kind is Kind.SOURCE or part.name in homes.values()]
    for number, part in enumerate(drawn):
        lines += _branch(pipeline, settings, homes, part, "", is_last=number == len(drawn) - 1)
    return lines


def _home(pipeline: Pipeline, part: Part) -> str | None:
    """Return the part that another is drawn under: the first stream, or else the first."""
    flowing = [name for name in part.upstream if pipeline.parts[name].kind is not Kind.TABLE]
    return next(iter(flowing or part.upstream), None)


def _branch(
    pipeline: Pipeline,
    settings: Settings,
    homes: dict[str, str | None],
    part: Part,
    before: str,
    *,
    is_last: bool,
) -> Iterator[str]:
    others = [name for name in part.upstream if name != homes[part.name]]
    joined = f" (with {', '.join(others)})" if others else ""
    kind = "" if part.kind is Kind.TRANSFORM else f" ({part.kind.value})"
    yield f"{before}{'└─' if is_last else '├─'} {part.name}{kind}{joined}"
    inner = before + ("   " if is_last else "│  ")
    sinks = [sink for sink in pipeline.sinks.values() if sink.of == part.name]
    children = [child for child in pipeline.order() if homes[child.name] == part.name]
    for number, sink in enumerate(sinks):
        is_end = number == len(sinks) - 1 and not children
        yield f"{inner}{'└→' if is_end else '├→'} {sink.name}: {place(pipeline, sink, settings)}"
    for number, child in enumerate(children):
        yield from _branch(pipeline, settings, homes, child, inner, is_last=number == len(children) - 1)


def place(pipeline: Pipeline, sink: Sink, settings: Settings) -> str:
    """Describe the destination of a sink."""
    text = filled(sink.place, settings, f"{pipeline.name}: {sink.name}")
    is_once = sink.options.get("deliveryGuarantee") == "exactly-once"
    return f"{text}, exactly once" if is_once else text


def dot(pipeline: Pipeline, settings: Settings) -> list[str]:
    """Draw for Graphviz."""
    lines = [f"digraph {_quoted(pipeline.name)} {{", "  rankdir=LR;"]
    for part in pipeline.order():
        lines.append(f"  {_quoted(part.name)} [shape={_DOT_SHAPES[part.kind]}];")
        lines += [f"  {_quoted(name)} -> {_quoted(part.name)};" for name in part.upstream]
    for sink in pipeline.sinks.values():
        node = _quoted(f"sink {sink.name}")
        label = _quoted(f"{sink.name}: {place(pipeline, sink, settings)}")
        lines += [f"  {node} [shape=note, label={label}];", f"  {_quoted(sink.of)} -> {node};"]
    return [*lines, "}"]


def mermaid(pipeline: Pipeline, settings: Settings) -> list[str]:
    """Draw for Mermaid."""
    lines = ["flowchart LR"]
    numbers = {part.name: f"p{number}" for number, part in enumerate(pipeline.order())}
    for part in pipeline.order():
        opening, closing = _MERMAID_SHAPES[part.kind]
        lines.append(f"  {numbers[part.name]}{opening}{_quoted(part.name)}{closing}")
        lines += [f"  {numbers[name]} --> {numbers[part.name]}" for name in part.upstream]
    for number, sink in enumerate(pipeline.sinks.values()):
        label = _quoted(f"{sink.name}: {place(pipeline, sink, settings)}")
        lines += [f"  s{number}>{label}]", f"  {numbers[sink.of]} --> s{number}"]
    return lines


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', "'")
    return f'"{escaped}"'
