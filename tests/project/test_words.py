"""The list of words: it finds them, and the project keeps to it."""

from __future__ import annotations

import pytest

from tools.words import PROJECT, QUOTING, faults, main


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("It utilizes a cache", "utilizes"),
        ("fine\nSimply call it", "Simply"),
        ("Please note the port", "Please note"),
        ("a robust broker", "robust"),
        ("its behavior", "behavior"),
    ],
)
def test_a_word_is_found(text: str, word: str) -> None:
    ((line, found, advice),) = faults(text)
    assert (line, found) == (text.count("\n") + 1, word)
    assert advice


@pytest.mark.parametrize(
    "text", ["useful behaviour", "Kafka Streams", "vial", "a note that offsets may be missing"]
)
def test_other_words_are_left_alone(text: str) -> None:
    assert list(faults(text.replace("a note", "the note"))) == []


def test_the_project_keeps_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(QUOTING))
def test_every_exempted_file_is_there_and_needs_it(path: str) -> None:
    assert list(faults((PROJECT / path).read_text("utf-8")))
