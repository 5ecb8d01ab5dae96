"""Words that this project does not write, and what it writes instead: `python -m tools.words` (`make lint`).

They are looked for in the pages (not in generated ones), in the README, and in the text of the source: names,
docs, help, errors, log lines.  docs/explanation/style.md says how we write; this is what a program can hold.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
# Written by campaigns and generators, or about other projects.
GENERATED = frozenset(
    {"verified.md", "compatibility.md", "stall.md", "nemesis.md", "mutants.md", "benchmarks.md", "style.md"}
)
# Texts and options of Apache Kafka's and ZooKeeper's own.
QUOTING = frozenset(
    {
        "docs/reference/commands.md",
        "src/barnabas/base/errors.py",
        "src/barnabas/cli/console/console_consumer.py",
        "src/barnabas/cli/consumer_groups/command.py",
        "src/barnabas/cli/zookeeper/java_server.py",
        "src/barnabas/config/clients.py",
        "src/barnabas/config/node/rules.py",
        "src/barnabas/config/topics.py",
    }
)
# A regular expression, and what to write.
WORDS = {
    r"utili[sz]e[ds]?": "use",
    r"leverag(e[ds]?|ing)": "use",
    r"in order to": "to",
    r"please note|(?<!the )(?<!worker )note that": "say it",
    r"simply|easily|obviously|of course": "leave it out",
    r"blazing\w*|lightning[- ]fast|cutting[- ]edge|state[- ]of[- ]the[- ]art": "a number",
    r"seamless(ly)?|robust(ly|ness)?|powerful": "say what it does",
    r"whitelist\w*|blacklist\w*": "allow list, deny list",
    r"master/slave|slaves?": "leader, follower",
    r"kafka stream(?!s)": "Kafka Streams",
    r"messages? queue": "topic",
    r"click here": "a link on the words",
    r"and/or": "or",
    r"etc\.": "the rest, or an end",
    r"via": "by, through, with",
    r"functionality": "function, feature",
    r"performant": "fast",
    r"e-mail": "email",
    r"behavior\w*": "behaviour (British spelling)",
    r"initiali[z]ation": "start",
}
PATTERN = re.compile("|".join(f"(?P<w{number}>\\b(?:{word})\\b)" for number, word in enumerate(WORDS)), re.I)
ADVICE = list(WORDS.values())


def faults(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, word and advice of each."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in PATTERN.finditer(line):
            assert found.lastgroup is not None
            yield number, found[0], ADVICE[int(found.lastgroup[1:])]


def texts() -> Iterator[Path]:
    yield PROJECT / "README.md"
    for page in sorted((PROJECT / "docs").rglob("*.md")):
        if page.name not in GENERATED:
            yield page
    yield from sorted((PROJECT / "src" / "barnabas").rglob("*.py"))


def main() -> int:
    count = 0
    for path in texts():
        if path.relative_to(PROJECT).as_posix() in QUOTING:
            continue
        for number, word, advice in faults(path.read_text("utf-8")):
            count += 1
            sys.stdout.write(f"{path.relative_to(PROJECT)}:{number}: {word!r}: {advice}\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
