"""The course: each text is a scenario of the protocol, and what must come of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing.simulation.quorum.course import Course, CourseError
from barnabas.testing.simulation.registry import PLANTED, load_all

TEXTS = sorted((Path(__file__).parent / "course").glob("*.txt"))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    Course(path.read_text(encoding="utf-8")).play()


def test_figure_8_shows_the_planted_bug() -> None:
    text = next(path for path in TEXTS if "not_committed_by_counting" in path.name).read_text(
        encoding="utf-8"
    )
    load_all()
    with PLANTED["raft: records of earlier epochs count"].plant(), pytest.raises(CourseError):
        Course(text).play()


def test_every_text_says_first_what_it_is_about() -> None:
    assert len(TEXTS) >= 15
    for path in TEXTS:
        assert path.read_text(encoding="utf-8").startswith("# "), path


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("voters n1\nstart\njump", "line 3 is not understood: 'jump'"),
        ("voters n1\nstart\nexpect no leader", r"line 3, 'expect no leader': it is \['n1'\], not \[\]"),
        ("voters n1 n2\nstart\nappend x at n2", "line 3, 'append x at n2': n2 is not the leader"),
        ("voters n1 n2\nstart\nstop n2\nelect n2", "line 4, 'elect n2': n2 is down"),
        ("voters n1 n2\nstart\nexpect n1 flies", "line 3 is not understood"),
    ],
)
def test_a_wrong_step_is_reported_with_its_line(text: str, error: str) -> None:
    with pytest.raises(CourseError, match=error):
        Course(text).play()
