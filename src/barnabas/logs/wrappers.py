"""The wrappers that containers' lines are in: Docker's JSON, Kubernetes' CRI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from barnabas.logs.structured import json_object
from barnabas.logs.times import ISO

Wrapped = tuple[str, str, str, int]  # Time, stream, line, and of how many lines it was put together.
# Kubernetes' CRI: time stream tag content; P is a part of a line, F its end.
CRI = re.compile(rf"(?P<time>{ISO}) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S+)? (?P<line>.*)", re.DOTALL)


def cri_lines(lines: Iterable[str]) -> Iterator[Wrapped]:
    parts: dict[str, str] = {}
    counts: dict[str, int] = {}
    for line in lines:
        match = CRI.fullmatch(line)
        if match is None:
            yield "", "", line, 1
            continue
        stream = match["stream"]
        count = counts.pop(stream, 0) + 1
        if match["tag"] == "P" and len(parts.get(stream, "")) < 1_000_000:
            parts[stream] = parts.get(stream, "") + match["line"]
            counts[stream] = count
        else:
            yield match["time"], stream, parts.pop(stream, "") + match["line"], count


def docker_line(line: str) -> Wrapped | None:
    value = json_object(line)
    if value is None or not isinstance(value.get("log"), str) or "stream" not in value or "time" not in value:
        return None
    return str(value["time"]), str(value["stream"]), str(value["log"]).rstrip("\n"), 1


def docker_lines(lines: Iterable[str]) -> Iterator[Wrapped]:
    for line in lines:
        yield docker_line(line) or ("", "", line, 1)
