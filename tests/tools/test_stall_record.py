"""The record of the stall attack: its limits, its resumption, its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.stall_record import GRACE_S, NO_ANSWER, WORST, Outcome, Progress, Report, page


def outcome(name: str, took_s: float = 0.2, kafka_s: float | None = None, **fields: object) -> Outcome:
    made = Outcome(name, name.split()[0], took_s, 0.01, 100_000_000, "1 kB", kafka_s)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"waited_s": 0.51}, "others waited 0.51 s: A v0"),
        ({"rss_bytes": 301_000_000}, "301 MB: A v0"),
        ({"response": NO_ANSWER}, "no answer: A v0"),
        ({"took_s": 0.32, "kafka_s": 0.1}, "0.32 s, Apache Kafka 0.10 s: A v0"),
    ],
)
def test_a_broken_limit_is_a_fault(fields: dict[str, object], fault: str) -> None:
    assert Report([outcome("A v0", **fields)]).faults == [fault]  # type: ignore[arg-type]  # any field


def test_outcomes_within_the_limits_have_no_faults() -> None:
    within = outcome("A v0", 0.29, 0.1, waited_s=0.49, rss_bytes=299_000_000)
    assert Report([within, outcome("B v0", 9.0)]).faults == []


def test_compared_with_apache_kafka_the_slowest_count() -> None:
    slowest = [outcome(f"A v{version}", 2.0 + version, 9.0) for version in range(WORST)]
    assert Report([*slowest, outcome("B v0", 1.0, 0.1)]).faults == []
    assert len(Report([*slowest[1:], outcome("B v0", 1.0, 0.1)]).faults) == 1


def test_the_slowest_are_compared_then_the_slowest_of_each_api() -> None:
    slow = [outcome(f"A v{version}", 2.0 + version) for version in range(WORST)]
    others = [outcome("B v0", 0.5), outcome("B v1", 1.0), outcome("C v0", GRACE_S / 2)]
    report = Report([*others, *slow])
    compared = []
    while (following := report.next_to_compare()) is not None:
        following.kafka_s = 1.0
        compared.append(following.name)
    assert compared == [*(f"A v{version}" for version in reversed(range(WORST))), "B v1"]


def test_an_attack_that_is_faster_the_second_time_makes_room_for_another() -> None:
    report = Report([outcome(f"A v{version}", 2.0) for version in range(WORST)] + [outcome("A v99", 1.0)])
    report.outcomes[0].kafka_s, report.outcomes[0].took_s = 1.0, 0.1
    names = []
    while (following := report.next_to_compare()) is not None:
        following.kafka_s = 1.0
        names.append(following.name)
    assert "A v99" in names


def test_a_run_is_resumed_on_the_same_commit(tmp_path: Path) -> None:
    path = tmp_path / "build" / "stall.jsonl"
    progress = Progress(path, "0123")
    assert progress.load() == {}
    progress.start([])
    progress.add(outcome("A v0"))
    progress.add(outcome("B v0", 0.5))
    # Compared with Apache Kafka later.
    progress.add(outcome("B v0", 0.4, 0.1))
    with path.open("a") as file:
        file.write('{"name": "A v1", "ap')
    assert progress.load() == {"A v0": outcome("A v0"), "B v0": outcome("B v0", 0.4, 0.1)}
    assert Progress(path, "4567").load() == {}
    progress = Progress(path, "0123 with uncommitted changes")
    progress.start([outcome("A v0")])
    assert progress.load() == {}


def test_the_page_shows_the_worst() -> None:
    report = Report(
        [
            outcome("A v0 1000 kB", 0.5, 0.1, waited_s=0.2),
            outcome("B v0 1000 kB", 0.4, 30.0, kafka_response=NO_ANSWER),
            outcome("C v0 1000 kB", 0.3, 0.2, kafka_response="closed"),
        ]
    )
    text = page(report, "0123", "Apache Kafka 4.1.0", [100_000, 1_000_000], every_version=True)
    assert "- Commit `0123`, " in text and "Apache Kafka 4.1.0" in text
    assert "- 3 attacks: every served API, every version, 100 kB and 1000 kB\n" in text
    assert "0.200 s (limit 0.5 s), upon\n  A v0 1000 kB\n" in text
    assert "- Most memory: 100 MB (limit 300 MB)\n" in text
    assert "- **1 limits broken**\n" in text
    assert "| A v0 1000 kB | **0.500 s** | 0.100 s | 0.300 s |\n" in text
    assert "| B v0 1000 kB | 0.400 s | no answer within 30 s | 60.100 s |\n" in text
    assert "| C v0 1000 kB | 0.300 s | 0.200 s, closes the connection | 0.500 s |\n" in text
