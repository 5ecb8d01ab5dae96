"""Messages of every kind and version, read and written by Apache Kafka's own classes, and printed as its JSON."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.json_form import INTEGER_RANGES, json_text, to_json
from barnabas.protocol.schema import Field, Message, Schema
from tests.verify.formats.codec_messages import OURS, ZOOKEEPER_MODE

PROBE = Path(__file__).parents[1] / "java" / "CodecProbe.java"
EXAMPLES = 10
SEED = 20240917
TEXTS = ("", "a", "topic-1", "ä€😀", "x" * 126, "y" * 127, "z" * 300, 'quote " and \\ and \n')


class Maker:
    """Random values for the fields of a message; records stay empty, as Apache Kafka's JSON leaves them out."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)

    def message(self, schema: Schema, version: int) -> Any:
        made = schema.new()
        for known in schema.fields:
            if version in known.versions and not (known.tag is not None and self.random.random() < 0.4):
                setattr(made, known.attribute, self.value(known, version))
        return made

    def value(self, known: Field, version: int) -> Any:
        if version in known.nullable and self.random.random() < 0.3:
            return None
        if known.is_array:
            count = self.random.choice((0, 1, 1, 2, 20 if known.struct is None else 3))
            return [self.item(known, version) for _ in range(count)]
        return self.item(known, version)

    def item(self, known: Field, version: int) -> Any:
        if known.struct is not None:
            return self.message(known.struct.schema, version)
        if known.kind in INTEGER_RANGES:
            return self.random.choice((*INTEGER_RANGES[known.kind], 0, 1, self.random.randrange(128)))
        makers: dict[str, Callable[[], Any]] = {
            "bool": lambda: self.random.random() < 0.5,
            "float64": lambda: self.random.choice(
                (0.0, -1.5, 0.001, 0.0002, 1e7, 12345678.5, 1048576.0, 3e300)
            ),
            "string": lambda: self.random.choice(TEXTS),
            "bytes": lambda: self.random.randbytes(self.random.choice((0, 1, 126, 127, 300))),
            "record_data": lambda: b"",
            "uuid": lambda: self.random.choice((ZERO_UUID, Uuid(self.random.randbytes(16)))),
        }
        return makers[known.kind]()


def samples(names: list[str]) -> Iterator[tuple[str, int, Message]]:
    maker = Maker()
    for name in names:
        schema = OURS[name].schema
        for version in range(schema.versions.lowest, schema.versions.highest + 1):
            for _ in range(EXAMPLES):
                yield name, version, maker.message(schema, version)


@pytest.mark.parametrize(
    ("kafka", "names"),
    [("4.1.0", sorted(set(OURS) - ZOOKEEPER_MODE - {"RequestHeader"})), ("3.9.1", sorted(ZOOKEEPER_MODE))],
)
def test_apache_kafka_reads_writes_and_prints_the_same(
    kafka: str, names: list[str], run_java: Callable[..., str], tmp_path: Path
) -> None:  # M-C3
    made = list(samples(names))
    lines = [f"{name} {version} {message.encode(version).hex()}\n" for name, version, message in made]
    (tmp_path / "in").write_text("".join(lines), "utf-8")
    run_java(kafka, PROBE, str(tmp_path / "in"), str(tmp_path / "out"))
    answers = (tmp_path / "out").read_text("utf-8").splitlines()
    assert len(answers) == len(made)
    for (name, version, message), line, answer in zip(made, lines, answers, strict=True):
        encoded, text = answer.split(" ", 1)
        assert encoded == line.rstrip("\n").split(" ")[2], (name, version)
        assert text == json_text(to_json(message, version)), (name, version)
