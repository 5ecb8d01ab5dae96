"""The allowed differences from Apache Kafka's tools, read from tests/data/cli/differences.toml.

Only these kinds: output of the JVM (log lines, stack traces), usage texts, exit codes that are wrong or too
coarse there, the order of a hash set, and single lines that are listed with a reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIFFERENCES = Path(__file__).parents[2] / "data" / "cli" / "differences.toml"

NEVER = "(?!)"


@dataclass(frozen=True)
class ExitRule:
    """Commands whose output matches have another exit code here."""

    when: re.Pattern[str]
    kafka: int
    ours: int
    why: str


@dataclass(frozen=True)
class TextRule:
    """A part of Apache Kafka's output that differs here; `unordered`: only the order
    differs, of lines ("lines") or of words in them too; `random`: what differs from run to run, on both sides."""

    command: re.Pattern[str]
    kafka: re.Pattern[str]
    ours: str
    unordered: bool | str
    random: re.Pattern[str]
    why: str


@dataclass(frozen=True)
class AbsentRule:
    """A tool that barnabas does not have."""

    tool: str
    why: str


class Differences:
    """All differences, and which of them occurred (an unused one must be removed)."""

    def __init__(self, path: Path = DIFFERENCES, *, with_our_broker: bool = True) -> None:
        """Rules with `our_broker` describe differences of the brokers, not of the tools."""
        given = tomllib.loads(path.read_text("utf-8"))

        def rules(kind: str) -> list[dict[str, Any]]:
            return [one for one in given.get(kind, ()) if with_our_broker or not one.get("our_broker")]

        self._jvm_lines = [re.compile(pattern) for pattern in given["jvm"]["lines"]]
        self._logged = re.compile(given["jvm"]["logged"])
        self._usage_begins = re.compile(given["usage"]["begins"])
        self._advice = [re.compile(pattern) for pattern in given["advice"]["ends"]]
        self.exits = [
            ExitRule(re.compile(one["when"], re.S), one["kafka"], one["ours"], one["why"])
            for one in rules("exit")
        ]
        self.texts = [
            TextRule(
                re.compile(one["command"]),
                re.compile(one.get("kafka", NEVER), re.M),
                one.get("ours", ""),
                one.get("unordered", False),
                re.compile(one.get("random", NEVER), re.M),
                one["why"],
            )
            for one in rules("text")
        ]
        self.absent = [AbsentRule(one["tool"], one["why"]) for one in given["absent"]]
        self._reports = [re.compile(pattern) for pattern in given["reports"]["commands"]]
        self.met: set[ExitRule | TextRule | AbsentRule] = set()

    def without_java(self, lines: Iterable[str]) -> list[str]:
        """The output without JVM messages and usage texts."""
        kept: list[str] = []
        for line in lines:
            if self._usage_begins.match(line):
                break
            if not any(pattern.search(line) for pattern in self._jvm_lines):
                kept.append(line)
        while kept and not kept[-1] and len(kept) > 1:
            kept.pop()
        return kept

    def without_advice(self, lines: Iterable[str]) -> list[str]:
        """The output of barnabas without its additions: the reason, the reference to --help, and JVM messages."""
        return [self._without_advice(line) for line in lines if not self._logged.match(line)]

    def _without_advice(self, line: str) -> str:
        for pattern in self._advice:
            line = pattern.sub(r"\g<kept>", line)
        return line

    def exit_of_ours(self, command: str, output: str, kafka: int) -> int:
        """The expected exit code of barnabas for an exit code of Apache Kafka's tool."""
        for rule in self.exits:
            if rule.kafka == kafka and rule.when.search(f"$ {command}\n{output}"):
                self.met.add(rule)
                return rule.ours
        return kafka

    def output_of_ours(self, command: str, output: str) -> tuple[str, bool | str]:
        """The expected output of barnabas, and whether the order of its lines and words is ignored."""
        unordered: bool | str = False
        for rule in self.texts:
            if not rule.command.search(command):
                continue
            changed = rule.random.sub("", rule.kafka.sub(rule.ours, output))
            if changed != output or rule.unordered:
                self.met.add(rule)
            output, unordered = changed, unordered or rule.unordered
        return output, unordered

    def without_random(self, command: str, output: str) -> str:
        """The output of barnabas without what differs from run to run."""
        for rule in self.texts:
            if rule.command.search(command):
                output = rule.random.sub("", output)
        return output

    def is_absent(self, command: str) -> bool:
        """Whether barnabas has no such tool."""
        for rule in self.absent:
            if command.split()[0] == rule.tool:
                self.met.add(rule)
                return True
        return False

    def is_report(self, command: str) -> bool:
        """Whether problems are the result of the command, and not errors."""
        return any(pattern.search(command) for pattern in self._reports)
