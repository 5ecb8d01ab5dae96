"""The results of the stall attack: saved one by one, to resume a run, and shown in docs/stall.md."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "stall.md"
# The results so far of a run that may be interrupted.
PROGRESS = PROJECT / "build" / "stall.jsonl"
# The requirements of the broker.
MAX_WAIT_S = 0.5
MAX_RSS_BYTES = 300_000_000
WORST = 10
# Compared with Apache Kafka: the allowed factor, plus a constant.
TIMES_KAFKA = 2.0
GRACE_S = 0.1
NO_ANSWER = "no answer"


@dataclass
class Outcome:
    """The effect of one attack, and of the same bytes on Apache Kafka if they were compared.

    A compared request was sent to both several times: the times are medians.
    """

    name: str
    api: str
    took_s: float
    waited_s: float
    rss_bytes: int
    response: str
    kafka_s: float | None = None
    kafka_response: str = ""

    @property
    def limit_s(self) -> float | None:
        """How long this broker may take; None if not compared."""
        return None if self.kafka_s is None else TIMES_KAFKA * self.kafka_s + GRACE_S

    @property
    def faults(self) -> list[str]:
        """The limits that it broke."""
        faults = []
        if self.waited_s > MAX_WAIT_S:
            faults.append(f"others waited {self.waited_s:.2f} s: {self.name}")
        if self.rss_bytes > MAX_RSS_BYTES:
            faults.append(f"{self.rss_bytes / 1e6:.0f} MB: {self.name}")
        if self.response == NO_ANSWER:
            faults.append(f"no answer: {self.name}")
        return faults

    @property
    def is_too_slow(self) -> bool:
        """Whether it took much longer than on Apache Kafka."""
        return self.limit_s is not None and self.took_s > self.limit_s

    def __str__(self) -> str:
        kafka = "" if self.kafka_s is None else f"  Apache Kafka {self.kafka_s:7.3f} s {self.kafka_response}"
        return (
            f"{self.took_s:8.3f} s  others {1000 * self.waited_s:7.0f} ms  {self.rss_bytes / 1e6:5.0f} MB"
            f"  {self.response:9}{kafka}  {self.name}"
        )


@dataclass
class Report:
    """The results of a campaign."""

    outcomes: list[Outcome] = field(default_factory=list)
    # Faults of the campaign as a whole, such as errors in the log of the broker.
    other_faults: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """The broken limits; compared with Apache Kafka, those of the slowest attacks count."""
        slow = [
            f"{outcome.took_s:.2f} s, Apache Kafka {outcome.kafka_s:.2f} s: {outcome.name}"
            for outcome in self.slowest()
            if outcome.is_too_slow
        ]
        return [fault for outcome in self.outcomes for fault in outcome.faults] + slow + self.other_faults

    @property
    def compared(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.kafka_s is not None]

    def slowest(self, count: int = WORST) -> list[Outcome]:
        return sorted(self.outcomes, key=lambda outcome: outcome.took_s, reverse=True)[:count]

    def longest_waits(self, count: int = WORST) -> list[Outcome]:
        return sorted(self.outcomes, key=lambda outcome: outcome.waited_s, reverse=True)[:count]

    def next_to_compare(self) -> Outcome | None:
        """The slowest attacks one by one, then the slowest one of each API for information.

        A compared attack has a new time, the median: then another one may be among the slowest.
        """
        for outcome in self.slowest():
            if outcome.kafka_s is None:
                return outcome
        apis = {outcome.api for outcome in self.compared}
        # Within GRACE_S none can break a limit.
        for outcome in self.slowest(len(self.outcomes)):
            if outcome.api not in apis and outcome.took_s > GRACE_S:
                return outcome
        return None

    def __str__(self) -> str:
        lines = [f"{len(self.outcomes)} stall attacks; the second client waited longest during"]
        lines += [f"  {outcome}" for outcome in self.longest_waits()]
        lines.append("the longest attacks were")
        lines += [f"  {outcome}" for outcome in self.slowest()]
        lines += [f"fault: {fault}" for fault in self.faults]
        return "\n".join(lines)


class Progress:
    """The outcomes of a run, one line each; those of another commit or of changed files do not count."""

    def __init__(self, path: Path, commit: str) -> None:
        self._path = path
        self._commit = commit

    def load(self) -> dict[str, Outcome]:
        """The outcomes so far, by the name of the attack."""
        if not self._path.exists():
            return {}
        first, *lines = self._path.read_text("utf-8").splitlines() or [""]
        # The last line may be cut off.
        complete = [line for line in lines if line.endswith("}")]
        if first != self._commit or "uncommitted" in first:
            return {}
        return {outcome.name: outcome for outcome in (Outcome(**json.loads(line)) for line in complete)}

    def start(self, outcomes: Iterable[Outcome]) -> None:
        """Starts the file with the outcomes that count."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lines = [self._commit, *(json.dumps(asdict(outcome)) for outcome in outcomes)]
        self._path.write_text("\n".join(lines) + "\n", "utf-8")

    def add(self, outcome: Outcome) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!docs/{PAGE.name}")
    return git("rev-parse", "--short=12", "HEAD") + (" with uncommitted changes" if dirty else "")


def page(report: Report, of_commit: str, kafka: str, sizes: Sequence[int], *, every_version: bool) -> str:
    versions = "every version" if every_version else "the lowest and the highest version"
    filled = " and ".join(f"{size // 1000} kB" for size in sizes)
    longest = report.longest_waits(1)[0]
    rss = max(outcome.rss_bytes for outcome in report.outcomes)
    when = time.strftime("%Y-%m-%d", time.gmtime())
    python = f"Python {platform.python_version()} on {platform.system()}"
    lines = [
        "# The stall attack",
        "",
        "Written by `make fuzz KAFKA=1` (`python -m tools.stall --kafka`); do not edit.",
        "Every array of every request is filled with one repeated name, with unknown and with existing",
        "names, while a second client sends requests all the time.",
        "",
        f"- Commit `{of_commit}`, {when}, {python}, {kafka}",
        f"- {len(report.outcomes)} attacks: every served API, {versions}, {filled}",
        f"- Longest wait of the second client: {longest.waited_s:.3f} s (limit {MAX_WAIT_S} s), upon",
        f"  {longest.name}",
        f"- Most memory: {rss / 1e6:.0f} MB (limit {MAX_RSS_BYTES / 1e6:.0f} MB)",
        f"- Limit of a request: {TIMES_KAFKA:g} × Apache Kafka's time + {GRACE_S} s (medians)",
        f"- **{len(report.faults)} limits broken**",
        "",
        "| the ten slowest requests | barnabas | Apache Kafka | limit |",
        "|---|---:|---:|---:|",
    ]
    lines += [_row(outcome) for outcome in report.slowest()]
    others = [outcome for outcome in report.compared if outcome not in report.slowest()]
    if others:
        lines += [
            "",
            "| for information: the slowest request of other APIs | barnabas | Apache Kafka | limit |",
        ]
        lines += ["|---|---:|---:|---:|"]
        lines += [_row(outcome) for outcome in sorted(others, key=lambda outcome: -outcome.took_s)]
    if report.faults:
        lines += ["", "## Limits broken", "", *(f"- {fault}" for fault in report.faults)]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> str:
    if outcome.kafka_s is None or outcome.limit_s is None:
        return f"| {outcome.name} | {outcome.took_s:.3f} s | not compared | |"
    kafka = f"{outcome.kafka_s:.3f} s"
    if outcome.kafka_response == NO_ANSWER:
        kafka = f"no answer within {outcome.kafka_s:.0f} s"
    elif outcome.kafka_response == "closed":
        kafka += ", closes the connection"
    ours = f"**{outcome.took_s:.3f} s**" if outcome.is_too_slow else f"{outcome.took_s:.3f} s"
    return f"| {outcome.name} | {ours} | {kafka} | {outcome.limit_s:.3f} s |"
