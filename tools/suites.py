"""`make suites [ONLY=name,name]`: the test suites of real clients against a single barnabas node.

Each run starts a new broker and passes it to the suites' `run-all`; two or three runs decide.  The
results are saved in docs/compatibility.json with those of Apache Kafka 4.1.0, and docs/compatibility.md is
written from them.  `python -m tools.suites --apache NAME...` records Apache Kafka's side, by `with-kafka`.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.ports import free_ports
from tools.suite_record import MAX_RUNS, Record, Side, load, page, save
from tools.suite_results import ENVIRONMENT, SUITE_NAMES, Results, read_results

PROJECT = Path(__file__).resolve().parents[1]
SUITES = Path(os.environ.get("BARNABAS_SUITES", PROJECT.parent / "shared" / "suites"))
KEPT = PROJECT / "docs" / "compatibility.json"
PAGE = PROJECT / "docs" / "compatibility.md"
BARNABAS = PROJECT / ".venv" / "bin" / "barnabas"
APACHE_VERSION = "4.1.0"
START_PATIENCE_S = 30
STOP_PATIENCE_S = 60
_SECTION = re.compile(r"^== ([a-z-]+)$", re.MULTILINE)


def properties(folder: Path, port: int, controller_port: int) -> str:
    """The configuration for all suites, the same as that of `with-kafka`."""
    return f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://localhost:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={folder}/data
num.partitions=4
auto.create.topics.enable=true
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
offsets.topic.num.partitions=5
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, int]]:
    """A barnabas broker, stopped at the end of the context; yields its address and process id."""
    port, controller_port = free_ports(2)
    config = folder / "server.properties"
    config.write_text(properties(folder, port, controller_port), "utf-8")
    cluster = subprocess.run([BARNABAS, "storage", "random-uuid"], capture_output=True, text=True, check=True)
    formatting = [str(BARNABAS), "storage", "format", "-t", cluster.stdout.strip(), "-c", str(config)]
    subprocess.run(formatting, check=True, stdout=subprocess.DEVNULL)
    environment = os.environ | {"BARNABAS_STATE": str(folder / "state")}
    with (folder / "broker.log").open("wb") as log:
        broker = subprocess.Popen(
            [BARNABAS, "server-start", config], stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    try:
        _wait_until_listening(broker, port, folder / "broker.log")
        yield f"127.0.0.1:{port}", broker.pid
    finally:
        broker.terminate()
        try:
            broker.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            broker.kill()


def _wait_until_listening(broker: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < deadline and broker.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"the broker did not start:\n{log.read_text('utf-8')[-2000:]}")


# Runs -------------------------------------------------------------------------------------------------------


def run_ours(suites: Sequence[str]) -> dict[str, Results]:
    """Runs all suites on one new broker."""
    with tempfile.TemporaryDirectory(prefix="barnabas-suites-") as folder:
        logs = _logs(Path(folder))
        with running(Path(folder)) as (address, pid):
            command = [str(SUITES / "run-all"), address, "--only", ",".join(suites)]
            return _run(command, suites, logs, {"BROKER_PID": str(pid)})


def run_apache(suites: Sequence[str]) -> dict[str, Results]:
    """Runs all suites on Apache Kafka."""
    with tempfile.TemporaryDirectory(prefix="barnabas-suites-") as folder:
        command = [str(SUITES / "with-kafka"), "run-all", "--only", ",".join(suites)]
        return _run(command, suites, _logs(Path(folder)), {})


def _logs(folder: Path) -> Path:
    """A new folder in $SUITE_LOGS; without it, a temporary folder."""
    kept = os.environ.get("SUITE_LOGS")
    logs = Path(tempfile.mkdtemp(prefix="run-", dir=kept)) if kept else folder / "logs"
    logs.mkdir(exist_ok=True)
    return logs


def _run(
    command: list[str], suites: Sequence[str], logs: Path, variables: dict[str, str]
) -> dict[str, Results]:
    environment = os.environ | ENVIRONMENT | variables | {"SUITE_LOGS": str(logs)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    print(done.stdout, flush=True)
    parts = _SECTION.split(done.stdout)
    for name, printed in zip(parts[1::2], parts[2::2], strict=True):
        (logs / f"{name}.out").write_text(printed, "utf-8")
    return {name: read_results(name, SUITES, logs) for name in suites}


def decide(side: Side, record: Record, suites: Sequence[str], *, ours: bool) -> None:
    """Two runs of each suite, and a third where they disagree."""
    for suite in suites:
        side.runs[suite] = []
        side.versions[suite] = _commit() if ours else APACHE_VERSION
    for _ in range(MAX_RUNS):
        left = [suite for suite in suites if not side.is_decided(suite, _tests(side, record, suite))]
        if not left:
            return
        results = run_ours(left) if ours else run_apache(left)
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
    arguments = sys.argv[1:]
    ours = arguments[:1] != ["--apache"]
    given = [name for argument in arguments[0 if ours else 1 :] for name in argument.split(",")]
    wanted = given or list(SUITE_NAMES)
    unknown = [name for name in wanted if name not in SUITE_NAMES]
    if unknown:
        print(f"no such suite: {', '.join(unknown)}. Suites: {', '.join(SUITE_NAMES)}", file=sys.stderr)
        return 2
    record = load(KEPT)
    decide(record.barnabas if ours else record.apache, record, wanted, ours=ours)
    save(KEPT, record)
    PAGE.write_text(page(record), "utf-8")
    return _report(record, wanted)


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
