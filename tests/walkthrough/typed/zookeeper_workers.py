"""Three hosts with a server of ZooKeeper and a broker each, set up as a book does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.walkthrough.nodes import QUICK, eventually
from tests.walkthrough.typed.workers import COUNT, Worker, Workers
from tools.nemesis.hosts import Hosts

ENSEMBLE = "worker1:2181,worker2:2181,worker3:2181"
CHROOT = "/kafka"
# Options of KRaft mode, which a broker in ZooKeeper mode would warn of.
_OF_KRAFT = ("controller.quorum.", "broker.heartbeat.", "broker.session.")
SESSION_MS = 6_000


def zoo_cfg(worker: Worker, workers: Workers) -> str:
    port = workers.here(f"{worker.name}:2181").rpartition(":")[2]
    servers = "".join(f"server.{n}=worker{n}:2888:3888\n" for n in range(1, COUNT + 1))
    return (
        f"tickTime=1000\ninitLimit=30\nsyncLimit=10\ndataDir={worker.folder}/zookeeper\n"
        f"clientPort={port}\n{workers.here(servers)}"
    )


def server_properties(worker: Worker, workers: Workers, options: Mapping[str, str]) -> str:
    quick = {name: value for name, value in QUICK.items() if not name.startswith(_OF_KRAFT)}
    given = {
        "broker.id": str(worker.node_id),
        "listeners": workers.here(f"PLAINTEXT://{worker.name}:9092"),
        "log.dirs": str(worker.data),
        "zookeeper.connect": workers.here(ENSEMBLE) + CHROOT,
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        **quick,
        **options,
    }
    return "".join(f"{name}={value}\n" for name, value in given.items())


def set_up(worker: Worker, workers: Workers, options: Mapping[str, str]) -> None:
    """From `barnabas aliases` to a server of ZooKeeper that listens."""
    worker.type("barnabas aliases .")
    worker.config = worker.folder / "config" / "server.properties"
    worker.config.write_text(server_properties(worker, workers, options), "utf-8")
    (worker.folder / "conf" / "zoo.cfg").write_text(zoo_cfg(worker, workers), "utf-8")
    worker.type(f"mkdir zookeeper; echo {worker.node_id + 1} > zookeeper/myid")
    started = worker.type("KAFKA_HEAP_OPTS='-Xmx96m' bin/zkServer.sh --config conf start")
    assert started == "Starting zookeeper ... STARTED\n"


def mode(worker: Worker) -> str:
    """What zkServer.sh status says; empty while the server is not serving."""
    return worker.try_out("bin/zkServer.sh --config conf status").stdout.partition("Mode: ")[2].strip()


def znode(workers: Workers, path: str) -> str:
    """The data of a znode, by zookeeper-shell.sh."""
    printed = workers.up.type(f"bin/zookeeper-shell.sh {ENSEMBLE}{CHROOT} get {path}")
    return printed.rstrip("\n").rpartition("\n")[2]


@contextmanager
def three_workers_on_zookeeper(folder: Path, options: Mapping[str, str] | None = None) -> Iterator[Workers]:
    """Brokers 0 to 2 that run on an ensemble of three; what they logged is shown if a test fails."""
    with Hosts(folder, COUNT, "worker") as hosts:
        workers = Workers(hosts)
        try:
            for worker in workers:
                set_up(worker, workers, options or {})
            eventually(lambda: all(mode(worker) for worker in workers), "ZooKeeper has no quorum")
            for worker in workers:
                said = worker.type("bin/kafka-server-start.sh -daemon config/server.properties")
                assert "the server listens" in said
            yield workers
        except BaseException:
            for worker in workers:
                print(f"--- {worker.name}", *worker.log()[-40:], sep="\n")
            raise
        finally:
            for worker in workers:
                worker.kill()
                worker.try_out("bin/zookeeper-server-stop.sh")
