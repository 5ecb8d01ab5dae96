"""`make suites [ONLY=name,name]`: real clients' own test suites against a barnabas broker of one node.

Each suite's last line has the form `kcat: 14 passed, 0 failed, 0 skipped`.  With no ONLY the whole table is
written to docs/compatibility.md, beside the figures that Apache Kafka 4.1.0 reaches.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SUITES = Path(os.environ.get("BARNABAS_SUITES", PROJECT.parent / "shared" / "suites"))
PAGE = PROJECT / "docs" / "compatibility.md"
BARNABAS = PROJECT / ".venv" / "bin" / "barnabas"
LAST_LINE = re.compile(r"([a-z-]+): (\d+) passed, (\d+) failed(?:, (\d+) skipped)?")
# What Apache Kafka 4.1.0 reaches, by the suites' own page.
APACHE = {
    "hostile": "63 passed",
    "kcat": "14 passed",
    "kafkajs": "20 passed",
    "confluent-python": "24 passed",
    "kafka-python": "53 passed, 1 skipped",
    "franz-go": "38 passed, 6 skipped",
    "librdkafka": "50 passed, 4 skipped",
    "kafka-tools": "38 passed",
}


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def properties(folder: Path, port: int, controller_port: int) -> str:
    """The settings on which all suites agree."""
    return f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://localhost:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={folder}/data
num.partitions=4
auto.create.topics.enable=true
offsets.topic.num.partitions=5
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A broker of its own, listening."""
    port, controller_port = free_ports()
    config = folder / "server.properties"
    config.write_text(properties(folder, port, controller_port))
    cluster = subprocess.run([BARNABAS, "storage", "random-uuid"], capture_output=True, text=True, check=True)
    formatting = [str(BARNABAS), "storage", "format", "-t", cluster.stdout.strip(), "-c", str(config)]
    subprocess.run(formatting, check=True, stdout=subprocess.DEVNULL)
    log = (folder / "broker.log").open("wb")
    broker = subprocess.Popen([BARNABAS, "server-start", config], stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and broker.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return broker, f"127.0.0.1:{port}"
        time.sleep(0.05)
    broker.kill()
    raise SystemExit(f"the broker did not start:\n{(folder / 'broker.log').read_text()[-2000:]}")


def run_suite(name: str) -> str:
    """The suite's last line, on a fresh broker."""
    with tempfile.TemporaryDirectory(prefix="barnabas-suite-") as folder:
        broker, address = start(Path(folder))
        try:
            environment = os.environ | {"BROKER_PID": str(broker.pid)}
            done = subprocess.run(
                [SUITES / name, address], capture_output=True, text=True, env=environment, check=False
            )
        finally:
            broker.terminate()
            broker.wait(30)
        print(done.stdout, done.stderr, sep="")
        return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else f"{name}: no result"


def page(lines: dict[str, str]) -> str:
    rows = [
        "# Compatibility",
        "",
        "Written by `make suites`; do not edit. Real clients' own test suites, each on a fresh broker.",
        "",
        "| suite | barnabas | Apache Kafka 4.1.0 |",
        "|---|---|---|",
    ]
    for name, line in lines.items():
        found = LAST_LINE.search(line)
        passed = f"{found[2]} passed, {found[3]} failed, {found[4] or 0} skipped" if found else line
        rows.append(f"| {name} | {passed} | {APACHE[name]} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    if not SUITES.exists():
        print(f"the suites are not at {SUITES}; set BARNABAS_SUITES to run them", file=sys.stderr)
        return 2
    wanted = sys.argv[1].split(",") if len(sys.argv) > 1 else list(APACHE)
    unknown = [name for name in wanted if name not in APACHE]
    if unknown:
        print(f"no such suite: {', '.join(unknown)}. Suites: {', '.join(APACHE)}", file=sys.stderr)
        return 2
    lines = {name: run_suite(name) for name in wanted}
    print("\n".join(lines.values()))
    if len(wanted) == len(APACHE):
        PAGE.write_text(page(lines))
    failures = [line for line in lines.values() if not (found := LAST_LINE.search(line)) or found[3] != "0"]
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
