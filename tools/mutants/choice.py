"""Which mutants are tried: drawn by a seed, from every package its share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from tools.mutants.operators import is_sound, mutants
from tools.mutants.source import Mutant

SOURCES = "src/barnabas"
# Generated from Apache Kafka's definitions, and held against them by tests of their own.
GENERATED = ("protocol/messages/", "protocol/records/", "config/tables/")
LEAST_PER_PACKAGE = 5
# A package in which so many draws in a row give nothing new has been used up.
MOST_DRAWS = 1000


def candidates(root: Path) -> list[Mutant]:
    """Every mutant of every source file that was written by hand."""
    found: list[Mutant] = []
    for path in sorted((root / SOURCES).rglob("*.py")):
        if not path.relative_to(root / SOURCES).as_posix().startswith(GENERATED):
            found += mutants(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    return found


def quotas(sizes: Mapping[str, int], count: int, least: int = LEAST_PER_PACKAGE) -> dict[str, int]:
    """How many of each package: in proportion to what it offers, but never fewer than `least`.

    A small sample over many packages is larger than `count` for that reason.
    """
    total = sum(sizes.values())
    shares = {name: min(size, max(least, count * size // total)) for name, size in sizes.items()}
    # Packages below their share have pushed the sum up; the largest give some back, as far as they can.
    while sum(shares.values()) > count:
        largest = max(shares, key=lambda name: (shares[name], name))
        if shares[largest] <= least:
            break
        shares[largest] -= 1
    return shares


def choose(offered: Sequence[Mutant], root: Path, count: int, seed: int) -> list[Mutant]:
    """A sample that the seed decides, in an order that mixes the packages.

    The operator is drawn first and the place second: numbers and branches would be nearly all otherwise.
    A line is broken once at most.
    """
    by_package: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in offered:
        by_package[mutant.package].append(mutant)
    shares = quotas({name: len(found) for name, found in sorted(by_package.items())}, count)
    texts = {path: (root / path).read_text("utf-8") for path in {mutant.path for mutant in offered}}
    chosen = [
        mutant
        for name, share in shares.items()
        for mutant in _draw(by_package[name], texts, share, Random(f"{seed} {name}"))
    ]
    Random(seed).shuffle(chosen)
    return chosen


def _draw(offered: Sequence[Mutant], texts: Mapping[str, str], share: int, random: Random) -> list[Mutant]:
    by_operator: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in offered:
        by_operator[mutant.operator].append(mutant)
    operators = sorted(by_operator)
    drawn: list[Mutant] = []
    broken: set[tuple[str, int]] = set()
    in_vain = 0
    while len(drawn) < share and in_vain < MOST_DRAWS:
        mutant = random.choice(by_operator[random.choice(operators)])
        if (mutant.path, mutant.line) in broken or not is_sound(mutant, texts[mutant.path]):
            in_vain += 1
            continue
        in_vain = 0
        broken.add((mutant.path, mutant.line))
        drawn.append(mutant)
    return drawn
