"""What the driver learns from batch to batch, without a session."""

from __future__ import annotations

import json
from pathlib import Path

from barnabas.logs.templates import Shapes, shape_key
from barnabas.spark.logs.learning import KEPT, Learned, Named, Store, Tally


def learn(learned: Learned, *messages: str, source: str = "a.log") -> list[Named]:
    shapes = Shapes()
    return learned.learn(sorted((source, shape_key(shapes.of(message))) for message in set(messages)))


def test_what_comes_after_the_first_batch_of_a_source_is_new_once() -> None:
    learned = Learned()
    assert [each.is_new for each in learn(learned, "started", "stopped at 5")] == [False, False]
    assert [each.is_new for each in learn(learned, "stopped at 6")] == [False]
    assert [(each.template, each.is_new) for each in learn(learned, "lost 3 of 4")] == [
        ("lost <*> of <*>", True)
    ]
    assert [each.is_new for each in learn(learned, "lost 1 of 2")] == [False]
    assert [each.is_new for each in learn(learned, "anything", source="b.log")] == [False]


def test_a_template_that_became_more_general_is_not_new() -> None:
    learned = Learned()
    learn(learned, "login of ann now", "login of bob now", "login of eve now")
    (named,) = learn(learned, "login of joe now")
    assert (named.template, named.is_new) == ("login of <*> now", False)


def test_a_repeated_batch_finds_the_state_before_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "templates")
    learned = store.before(0)
    learn(learned, "started")
    store.keep(0, learned)
    first = learn(store.before(1), "lost 3")
    # The driver was killed after it had kept the state, and starts again.
    store.keep(1, learned)
    again = Store(tmp_path / "templates")
    assert learn(again.before(1), "lost 3") == first
    assert [each.is_new for each in learn(Store(tmp_path / "templates").before(2), "lost 4")] == [False]


def test_the_newest_time_is_kept_with_the_templates() -> None:
    learned = Learned()
    learn(learned, "started")
    for newest_ms in (None, 7, 5, None):
        learned.see(newest_ms)
    assert Learned.from_json(learned.to_json()).newest_ms == 7


def test_a_state_of_before_there_were_late_lines_is_read() -> None:
    learned = Learned()
    learn(learned, "started")
    old = json.dumps(json.loads(learned.to_json())["sources"])
    again = Learned.from_json(old)
    assert (list(again.sources), again.newest_ms) == (["a.log"], None)


def test_only_the_last_states_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for batch in range(10):
        store.keep(batch, Learned())
    assert len(list(tmp_path.iterdir())) == KEPT


def test_a_run_complains_if_most_of_it_was_unreadable() -> None:
    tally = Tally()
    tally.add(10, 5, b"\xff?")
    assert tally.complaint is None
    tally.add(2, 2, b"other")
    assert tally.complaint == "7 of 12 lines are unreadable, the first: \ufffd?"
