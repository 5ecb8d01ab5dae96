"""The sample of mutants: drawn with a seed, in proportion from every package."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import Random

from tools.mutants.operators import is_sound, mutants
from tools.mutants.source import Mutant, package_of

SOURCES = "src/barnabas"
# Generated from Apache Kafka's definitions, and checked against them by their own tests.
GENERATED = ("protocol/messages/", "protocol/records/", "config/tables/")
MIN_PER_PACKAGE = 5
# A package is exhausted after this many draws in a row without a new mutant.
MAX_FAILED_DRAWS = 1000


def sources(root: Path, packages: Collection[str] = ()) -> list[str]:
    """Every source file that is not generated, or those of some packages."""
    paths = [path.relative_to(root / SOURCES).as_posix() for path in sorted((root / SOURCES).rglob("*.py"))]
    names = [f"{SOURCES}/{path}" for path in paths if not path.startswith(GENERATED)]
    return [name for name in names if not packages or package_of(name) in packages]


def candidates(root: Path, packages: Collection[str] = ()) -> list[Mutant]:
    """Every mutant of these files."""
    return [
        mutant
        for name in sources(root, packages)
        for mutant in mutants(name, (root / name).read_text("utf-8"))
    ]


def quotas(sizes: Mapping[str, int], count: int, least: int = MIN_PER_PACKAGE) -> dict[str, int]:
    """The number of mutants of each package: in proportion to its candidates, but at least `least`.

    A small sample over many packages is therefore larger than `count`.
    """
    total = sum(sizes.values())
    shares = {name: min(size, max(least, count * size // total)) for name, size in sizes.items()}
    # Packages below `least` have raised the sum; the largest packages give some back.
    while sum(shares.values()) > count:
        largest = max(shares, key=lambda name: (shares[name], name))
        if shares[largest] <= least:
            break
        shares[largest] -= 1
    return shares


def choose(offered: Sequence[Mutant], root: Path, count: int, seed: int) -> list[Mutant]:
    """A sample determined by the seed, in an order that mixes the packages.

    The operator is drawn before the place: otherwise nearly all would be numbers and branches.
    A line is mutated at most once.
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
    failed_draws = 0
    while len(drawn) < share and failed_draws < MAX_FAILED_DRAWS:
        mutant = random.choice(by_operator[random.choice(operators)])
        if (mutant.path, mutant.line) in broken or not is_sound(mutant, texts[mutant.path]):
            failed_draws += 1
            continue
        failed_draws = 0
        broken.add((mutant.path, mutant.line))
        drawn.append(mutant)
    return drawn
