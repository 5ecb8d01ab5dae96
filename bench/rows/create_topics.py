"""Creates 1,000 topics in one request, until each of them has accepted a record."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from functools import partial

from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.produce import ProduceResponse
from bench import topics
from bench.apache import APACHE
from bench.paced import RECORD, produce_request, settle
from bench.produce_load import PRODUCE_VERSION, client_batch
from bench.registry import Contender, Workbench, row
from bench.servers import Server, make_servers
from tools.raw_broker import RawConnection

TOPICS = 1000
PIPELINED = 100
RETRY_S = 0.02
PATIENCE_S = 120

_rounds = itertools.count()


def run(server: Server) -> float:
    mark = next(_rounds)
    names = [f"created-{mark}-{number}" for number in range(TOPICS)]
    batch = client_batch(RECORD)
    with RawConnection(server.address, PATIENCE_S) as connection:
        started = time.perf_counter()
        request = topics.create_request(names, 1)
        response = connection.ask(request, topics.CREATE_VERSION, CreateTopicsResponse)
        assert not any(topic.error_code for topic in response.topics), response
        left = names
        while left:
            assert time.perf_counter() - started < PATIENCE_S, f"{len(left)} topics take no records"
            done = written(connection, left, batch)
            left = [name for name in left if name not in done]
            time.sleep(RETRY_S if left else 0)
        elapsed = time.perf_counter() - started
    # The topics stay: ext4 creates files slowly if many were deleted within the last minutes.
    settle()
    return elapsed


def written(connection: RawConnection, names: list[str], batch: bytearray) -> set[str]:
    done = set()
    for first in range(0, len(names), PIPELINED):
        some = names[first : first + PIPELINED]
        requests = [produce_request(name, batch) for name in some]
        for response in connection.ask_all(requests, PRODUCE_VERSION, ProduceResponse):
            topic = response.responses[0]
            if not topic.partition_responses[0].error_code:
                done.add(topic.name)
    return done


@row(
    "create-topics",
    "Create 1,000 topics, until each has taken a record",
    unit="s",
    higher_is_better=False,
    goal=0.3,
    floor=0.6,
    against=APACHE,
    why=(
        "Our broker computes for half a second of it; the rest is the file system's, which makes a folder "
        "and four files for each topic, the same for both, and gets slower with every round, as the "
        "topics stay. The files are brought to stable storage by one call for all, not one by one."
    ),
)
def creating(bench: Workbench) -> Mapping[str, Contender]:
    servers = make_servers(bench.scratch, bench.stack)
    for server in servers.values():
        server.start()
    return {name: partial(run, server) for name, server in servers.items()}
