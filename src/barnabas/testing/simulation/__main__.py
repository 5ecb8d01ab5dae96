"""`python -m barnabas.testing.simulation`.

Run scenarios over seeds; a failing seed is printed and replays.
"""

from __future__ import annotations

import argparse
import logging
import sys
import traceback
from collections.abc import Sequence

from barnabas.base.units import NS_PER_S
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.planted import HuntError
from barnabas.testing.simulation.registry import PLANTED, SCENARIOS, Scenario, load_all
from barnabas.testing.simulation.runner import Outcome, hunt_bug, play, replay_command

DEFAULT_SEEDS = 100
# Interval of progress reports.
PROGRESS_NS = 2_000_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all seeds pass, 1 if one fails, 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    # Log messages of the code under test about injected faults are expected.
    logging.getLogger("barnabas").addHandler(logging.NullHandler())
    load_all()
    if options.list:
        return _list()
    unknown = [name for name in options.scenario if name not in SCENARIOS]
    if unknown:
        _say(f"there is no scenario {unknown[0]!r}; there are: {', '.join(SCENARIOS)}")
        return 2
    chosen = [SCENARIOS[name] for name in options.scenario] or list(SCENARIOS.values())
    if options.planted:
        return _hunt_all(chosen, options.first_seed)
    if options.seed is not None:
        return max(_replay(each, options.seed) for each in chosen)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    return max(_run(each, seeds) for each in chosen)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="how many seeds of every scenario")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--scenario", action="append", default=[], help="only this one (may be repeated)")
    parser.add_argument("--seed", type=int, help="one seed only, with its whole trace")
    parser.add_argument(
        "--planted", action="store_true", help="plant every known bug and require it to be found"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and planted bugs")
    return parser


def _list() -> int:
    for each in SCENARIOS.values():
        _say(f"{each.name}: {each.description}")
        for bug in PLANTED.values():
            if bug.scenario == each.name:
                _say(f"  planted {bug.name}: {bug.description}")
    return 0


def _run(scenario: Scenario, seeds: range) -> int:
    """All seeds of one scenario, up to the first that fails."""
    clock = SystemClock()
    started_ns = reported_ns = clock.monotonic_ns()
    events = 0
    for seed in seeds:
        outcome = play(scenario, seed)
        events += outcome.events
        if outcome.error is not None:
            _report(outcome)
            return 1
        if clock.monotonic_ns() - reported_ns > PROGRESS_NS:
            reported_ns = clock.monotonic_ns()
            _say(f"{scenario.name}: {seed - seeds.start + 1} of {len(seeds)} seeds, {events} events")
    elapsed_s = (clock.monotonic_ns() - started_ns) / NS_PER_S
    _say(f"{scenario.name}: {len(seeds)} seeds passed, {events} events, {elapsed_s:.1f} s")
    return 0


def _replay(scenario: Scenario, seed: int) -> int:
    outcome = play(scenario, seed, keep_trace=True)
    for line in outcome.trace:
        _say(line)
    if outcome.error is not None:
        traceback.print_exception(outcome.error)
    verdict = "passed" if outcome.error is None else f"failed: {outcome.error}"
    _say(f"{scenario.name}: seed {seed} {verdict} ({outcome.events} events, trace {outcome.digest})")
    return 0 if outcome.error is None else 1


def _hunt_all(scenarios: list[Scenario], first_seed: int) -> int:
    names = {each.name for each in scenarios}
    missed = 0
    for bug in PLANTED.values():
        if bug.scenario not in names:
            continue
        try:
            caught = hunt_bug(bug, first_seed)
        except HuntError as error:
            missed += 1
            _say(f"NOT FOUND {error}")
        else:
            _say(f"found {bug.name} with seed {caught.seed} of {bug.scenario}: {caught.error}")
    return 1 if missed else 0


def _report(outcome: Outcome) -> None:
    for line in outcome.trace:
        _say(f"    {line}")
    _say(f"{outcome.scenario}: seed {outcome.seed} FAILED after {outcome.events} events: {outcome.error!r}")
    _say(f"replay it: {replay_command(outcome)}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
