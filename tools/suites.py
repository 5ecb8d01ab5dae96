"""`make suites [NODES=3] [MODE=zookeeper] [ONLY=name,name]`: test suites of real clients against barnabas.

With one node, each run starts a new broker and passes it to the suites' `run-all`; with three, and on
ZooKeeper, each suite has a new cluster.  Two or three runs decide.  The results are saved in
docs/compatibility.json with those of Apache Kafka, and docs/compatibility.md is written from them.
`python -m tools.suites [--nodes 3] [--mode zookeeper] --apache NAME...` records Apache Kafka's side, with the
oracle.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.suite_brokers import PROJECT, apache_cluster, barnabas_cluster, barnabas_node
from tools.suite_record import KRAFT, MAX_RUNS, SITES, ZOOKEEPER, Record, Side, Site, load, page, save
from tools.suite_results import ENVIRONMENT, ONLY_FOR_CLUSTERS, PASSED, SUITE_NAMES, Results, read_results

SUITES = Path(os.environ.get("BARNABAS_SUITES", PROJECT.parent / "shared" / "suites"))
OWN_SUITES = PROJECT / "tools" / "client_suites"
KEPT = PROJECT / "docs" / "compatibility.json"
PAGE = PROJECT / "docs" / "compatibility.md"
# A probe of `hostile`, which talks to the first broker alone: in a cluster it is run again until that one
# leads the topic that the suite creates.
NEEDS_LEADER = "produce ok"
LEADER_ATTEMPTS = 10
_SECTION = re.compile(r"^== ([a-z-]+)$", re.MULTILINE)


# Runs -------------------------------------------------------------------------------------------------------


def run_ours(suites: Sequence[str], site: Site) -> dict[str, Results]:
    """Runs suites on one new broker, or each on a new cluster."""
    if site.nodes > 1:
        return {suite: _on_cluster(suite, site, ours=True) for suite in suites}
    with tempfile.TemporaryDirectory(prefix="barnabas-suites-") as folder:
        logs = _logs(Path(folder))
        with barnabas_node(Path(folder)) as broker:
            command = [str(SUITES / "run-all"), broker.addresses, "--only", ",".join(suites)]
            return _run_all(command, suites, logs, broker.variables)


def run_apache(suites: Sequence[str], site: Site) -> dict[str, Results]:
    """Runs suites on Apache Kafka."""
    if site.nodes > 1:
        return {suite: _on_cluster(suite, site, ours=False) for suite in suites}
    with tempfile.TemporaryDirectory(prefix="barnabas-suites-") as folder:
        command = [str(SUITES / "with-kafka"), "run-all", "--only", ",".join(suites)]
        return _run_all(command, suites, _logs(Path(folder)), {})


def _on_cluster(suite: str, site: Site, *, ours: bool) -> Results:
    """Runs one suite on a new cluster."""
    with tempfile.TemporaryDirectory(prefix="barnabas-suites-") as given:
        folder = Path(given)
        logs = _logs(folder)
        oracle = SUITES.parent / "oracle" / "kafka"
        cluster = barnabas_cluster(folder, site) if ours else apache_cluster(oracle, folder, site)
        with cluster as brokers:
            command = [str(_script(suite)), brokers.addresses]
            for _ in range(LEADER_ATTEMPTS):
                printed = _run(command, logs, brokers.variables | {"BARNABAS_SUITES": str(SUITES)})
                (logs / f"{suite}.out").write_text(printed, "utf-8")
                results = read_results(suite, SUITES, logs)
                if results.get(NEEDS_LEADER, PASSED) == PASSED:
                    break
        return results


def _script(suite: str) -> Path:
    return (OWN_SUITES if suite in ONLY_FOR_CLUSTERS else SUITES) / suite


def _logs(folder: Path) -> Path:
    """A new folder in $SUITE_LOGS; without it, a temporary folder."""
    kept = os.environ.get("SUITE_LOGS")
    logs = Path(tempfile.mkdtemp(prefix="run-", dir=kept)) if kept else folder / "logs"
    logs.mkdir(exist_ok=True)
    return logs


def _run_all(
    command: list[str], suites: Sequence[str], logs: Path, variables: dict[str, str]
) -> dict[str, Results]:
    parts = _SECTION.split(_run(command, logs, variables))
    for name, printed in zip(parts[1::2], parts[2::2], strict=True):
        (logs / f"{name}.out").write_text(printed, "utf-8")
    return {name: read_results(name, SUITES, logs) for name in suites}


def _run(command: list[str], logs: Path, variables: dict[str, str]) -> str:
    environment = os.environ | ENVIRONMENT | variables | {"SUITE_LOGS": str(logs)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    print(done.stdout, flush=True)
    return done.stdout


def decide(side: Side, record: Record, suites: Sequence[str], site: Site, *, ours: bool) -> None:
    """Two runs of each suite, and a third where they disagree."""
    for suite in suites:
        side.runs[suite] = []
        side.versions[suite] = _commit() if ours else site.apache_version
    for _ in range(MAX_RUNS):
        left = [suite for suite in suites if not side.is_decided(suite, _tests(side, record, suite))]
        if not left:
            return
        results = run_ours(left, site) if ours else run_apache(left, site)
        for suite in left:
            side.runs[suite].append(results[suite])


def _tests(side: Side, record: Record, suite: str) -> list[str]:
    return record.wanted(suite) if side is record.barnabas else list(side.verdicts(suite))


def _commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(PROJECT), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


# Command line -----------------------------------------------------------------------------------------------


def main() -> int:
    if not SUITES.exists():
        print(f"the suites are not at {SUITES}; set BARNABAS_SUITES to run them", file=sys.stderr)
        return 2
    options = _parser().parse_args()
    site = Site(options.nodes or (1 if options.mode == KRAFT else 3), options.mode)
    if site not in SITES:
        print(f"{site.mode} mode runs on three nodes", file=sys.stderr)
        return 2
    known = [name for name in SUITE_NAMES if site.nodes > 1 or name not in ONLY_FOR_CLUSTERS]
    wanted = [name for given in options.suites for name in given.split(",")] or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such suite: {', '.join(unknown)}. Suites: {', '.join(known)}", file=sys.stderr)
        return 2
    record = load(KEPT)[site]
    side = record.apache if options.apache else record.barnabas
    decide(side, record, wanted, site, ours=not options.apache)
    _keep(side, wanted, site, ours=not options.apache)
    return _report(record, wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="suites", description="Test suites of real clients.")
    parser.add_argument(
        "--nodes", type=int, choices=(1, 3), help="size of the cluster (default 1, on ZooKeeper 3)"
    )
    parser.add_argument(
        "--mode", choices=(KRAFT, ZOOKEEPER), default=KRAFT, help="where the metadata is (default kraft)"
    )
    parser.add_argument("--apache", action="store_true", help="against Apache Kafka")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="suites to run (default: all)")
    return parser


def _keep(side: Side, suites: Sequence[str], site: Site, *, ours: bool) -> None:
    """Saves what was run; others may have saved other suites meanwhile."""
    records = load(KEPT)
    kept = records[site].barnabas if ours else records[site].apache
    for suite in suites:
        kept.runs[suite], kept.versions[suite] = side.runs[suite], side.versions[suite]
    save(KEPT, records)
    PAGE.write_text(page(records), "utf-8")


def _report(record: Record, suites: Sequence[str]) -> int:
    """Prints tests that pass on Apache Kafka but not on barnabas; returns 1 if there are any."""
    status = 0
    for suite in suites:
        missing, wanted = record.missing(suite), record.wanted(suite)
        print(f"{suite}: {len(wanted) - len(missing)} of {len(wanted)} that pass on Apache Kafka pass here")
        for test in missing:
            print(f"  {test}")
        if missing or not wanted:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
