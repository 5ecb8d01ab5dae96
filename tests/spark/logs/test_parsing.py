"""Lines of a topic into records, over Arrow batches and without a session.  # M-I3"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from barnabas.spark.logs.config import Config
from barnabas.spark.logs.parsing import parse_batches

ARRIVAL_US = 1_794_000_000_000_000
NGINX = '1.2.3.4 - - [01/May/2024:10:00:00 +0000] "GET /{} HTTP/1.1" {} 5 "-" "a"'


def batch(
    *lines: str | bytes, source: str | None = "/var/log/nginx/access.log", first: int = 0
) -> pa.RecordBatch:
    headers = None if source is None else [{"key": "origin", "value": source.encode()}]
    count = len(lines)
    return pa.RecordBatch.from_pydict(
        {
            "value": [line.encode() if isinstance(line, str) else line for line in lines],
            "topic": ["logs"] * count,
            "partition": pa.array([3] * count, pa.int32()),
            "offset": list(range(first, first + count)),
            "timestamp": pa.array([ARRIVAL_US] * count, pa.timestamp("us", tz="UTC")),
            "headers": pa.array(
                [headers] * count,
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def rows(*batches: pa.RecordBatch, config: Config | None = None) -> list[dict[str, Any]]:
    def given() -> Iterator[pa.RecordBatch]:
        yield from batches

    found = [row for made in parse_batches(given(), config or Config()) for row in made.to_pylist()]
    return [{**row, **(json.loads(row["json"]) if row["json"] else {})} for row in found]


def test_a_line_of_any_format_becomes_a_row() -> None:
    (row,) = rows(batch(NGINX.format("a", 503), first=7))
    chosen = ("level", "service", "message", "status", "format", "position", "at_ms", "problem")
    assert [row[name] for name in chosen] == [
        "ERROR", "access", "GET /a HTTP/1.1", 503, "access", "logs-3-7", 1_714_557_600_000, None
    ]  # fmt: skip


def test_a_duration_with_a_fraction_is_kept() -> None:
    (row,) = rows(batch('{"level":"info","msg":"m","duration_ms":12.7}'))
    assert row["duration_ms"] == 12.7
    (row,) = rows(batch("level=info msg=m duration=1.5s"))
    assert row["duration_ms"] == 1500.0


def test_a_line_without_a_time_has_that_of_its_arrival() -> None:
    (row,) = rows(batch("WARNING:root:careful"))
    assert (row["time"], row["at_ms"]) == (None, ARRIVAL_US // 1000)


def test_stack_traces_are_put_together_source_by_source() -> None:
    head = "2024-05-01 10:00:0{},123 - app - ERROR - failed"
    mixed = []
    for number, (one, other) in enumerate(
        zip(
            (head.format(0), "Traceback (most recent call last):", "ValueError: x", head.format(1)),
            ("level=info msg=a", "level=info msg=b", "level=info msg=c", "level=info msg=d"),
            strict=True,
        )
    ):
        mixed += [
            batch(one, source="app.log", first=2 * number),
            batch(other, source="b", first=2 * number + 1),
        ]
    found = rows(*mixed)
    assert [(row["message"], row["lines"], row["position"]) for row in found] == [
        ("failed", 3, "logs-3-0"), ("a", 1, "logs-3-1"), ("b", 1, "logs-3-3"), ("c", 1, "logs-3-5"),
        ("failed", 1, "logs-3-6"), ("d", 1, "logs-3-7"),
    ]  # fmt: skip
    assert found[0]["fields"]["trace"] == "Traceback (most recent call last):\nValueError: x"


def test_the_rest_of_a_trace_whose_beginning_was_read_before_is_no_dead_letter() -> None:
    (row,) = rows(batch("\tat a.B(C.java:1)"))
    assert (row["format"], row["problem"]) == ("continued", None)


def test_what_no_format_fits_keeps_where_it_came_from() -> None:
    good, bad = rows(batch("WARNING:root:x", b"\xff\xfe?", first=4))
    assert good["problem"] is None
    assert (bad["problem"], bad["value"], bad["source"], bad["position"]) == (
        "no known format", b"\xff\xfe?", "/var/log/nginx/access.log", "logs-3-5"
    )  # fmt: skip


def test_a_line_without_an_origin_is_of_its_partition() -> None:
    (row,) = rows(batch("WARNING:root:x", source=None))
    assert (row["source"], row["service"]) == ("logs-3", "logs-3")


def test_services_and_formats_of_ones_own() -> None:
    config = Config(
        patterns=(("ours", r"(?P<service>\w+)!(?P<level>LEVEL)!(?P<message>.*)"),),
        services=(("/var/log/nginx/*", "web"),),
    )
    (row,) = rows(batch(NGINX.format("a", 200)), config=config)
    assert row["service"] == "web"
    (row,) = rows(batch("shop!warn!slow", source="x"), config=config)
    assert (row["service"], row["level"], row["format"]) == ("shop", "WARN", "ours")


def test_blank_lines_are_left_out_and_an_empty_batch_stays_empty() -> None:
    assert [row["position"] for row in rows(batch("", "WARNING:root:x", "  "))] == ["logs-3-1"]
    assert rows(batch("", "")) == []
