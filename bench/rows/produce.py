"""Produce to one broker with raw requests: throughput in bytes and records, and cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from barnabas.batch.compression import Codec
from bench import topics
from bench.apache import APACHE
from bench.produce_load import Load, produce
from bench.registry import Contender, Workbench, row
from bench.servers import Server
from bench.shared import shared_servers

SECONDS = 3.0
MEDIUM = Load()
ONE_MB_BATCH = Load(records=1000, acks=-1)

# Shown if a goal is missed; based on the user and system time of the broker under these loads.
ONE_CORE = (
    "Our one thread is busy all the time, more than half of it in the kernel, which copies out of the "
    "socket and into the page cache. Apache Kafka spends twice the processor time on a gigabyte, and gets "
    "it from both cores. Of ours the CRC, the look at each record and some 15 µs of Python a request are "
    "left; these are read and answered without a message object already."
)
COPYING = (
    "Nine tenths of our time is the kernel's, for copying out of the socket and into fresh pages of the "
    "page cache, which is the same work for both brokers; Apache Kafka does the two on different threads "
    "at once, we do them one after the other. A receive buffer of a fixed size was tried; it cost 40 %."
)
MANY_RECORDS = (
    "Seven tenths of our time is the kernel's copying, the rest a CRC and a look at each of the records, "
    "one after the other on one thread; Apache Kafka receives on one thread while another checks and "
    "writes."
)
ROUND_TRIP = (
    "A round takes some 60 µs, of which our broker computes for 30; the rest is the kernel's loopback and "
    "the client itself, alike for both. The loop looks for the next request some forty times before it "
    "sleeps: without that half as many were served; longer would burn a core that has nothing to do."
)
DECOMPRESSING = (
    "Two thirds of our one thread's time goes into decompressing every batch to look at each record, "
    "which Apache Kafka does too, on several threads at once."
)


def contenders(bench: Workbench, load: Load) -> Mapping[str, Contender]:
    servers = shared_servers(bench.context)
    return {name: partial(run, server, load) for name, server in servers.items()}


def run(server: Server, load: Load) -> dict[str, float]:
    with topics.topic(server, load.partitions, load.configs) as topic:
        done = produce(server, topic, load, SECONDS)
    return {
        "mb": done.mb_per_second,
        "cpu": done.cpu_seconds_per_gb,
        "records": done.records / done.seconds,
        "requests": done.requests / done.seconds,
        "rss": server.rss_bytes / 1e6,
    }


@row(
    "produce-16k",
    "Produce records of 1 KiB in batches of 16 KB, 4 connections",
    unit="MB/s",
    goal=1.8,
    floor=1.1,
    against=APACHE,
    value="mb",
    why=ONE_CORE,
)
@row(
    "produce-16k-cpu",
    "Processor time of the broker for it",
    unit="s/GB",
    higher_is_better=False,
    goal=0.5,
    floor=0.8,
    against=APACHE,
    value="cpu",
)
@row(
    "loaded-rss",
    "Memory of the broker after it",
    unit="MB",
    higher_is_better=False,
    goal=0.1,
    floor=0.2,
    against=APACHE,
    value="rss",
)
def produce_16k(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, MEDIUM)


@row(
    "produce-16k-one-connection",
    "Produce records of 1 KiB in batches of 16 KB, 1 connection",
    unit="MB/s",
    goal=2.5,
    floor=1.5,
    against=APACHE,
    value="mb",
)
def one_connection(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(connections=1))


@row(
    "produce-16k-idempotent",
    "Produce records of 1 KiB in batches of 16 KB, idempotent, acks=all",
    unit="MB/s",
    goal=1.2,
    floor=1.0,
    against=APACHE,
    value="mb",
)
def idempotent(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(idempotent=True, acks=-1))


@row(
    "produce-16k-transactional",
    "Produce records of 1 KiB in batches of 16 KB, transactional, acks=all",
    unit="MB/s",
    goal=1.2,
    floor=1.0,
    against=APACHE,
    value="mb",
)
def transactional(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(transactional=True, acks=-1))


@row(
    "produce-1m",
    "Produce records of 1 KiB in batches of 1 MB, acks=all",
    unit="MB/s",
    goal=1.5,
    floor=1.0,
    against=APACHE,
    value="mb",
    why=COPYING,
)
def one_mb(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, ONE_MB_BATCH)


@row(
    "produce-records",
    "Produce records of 100 B in batches of 1 MB",
    unit="records/s",
    goal=1.0,
    floor=0.8,
    own_goal=1e6,
    against=APACHE,
    value="records",
    why=MANY_RECORDS,
)
def many_records(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(record_bytes=100, records=9_000))


@row(
    "produce-one-record",
    "Produce records of 1 KiB in batches of one, 4 connections",
    unit="records/s",
    goal=3,
    floor=2,
    against=APACHE,
    value="records",
    why=(
        "Ten times the payload of the small pipelined requests, whose goal it has: the kernel's copies and "
        "the pages of the log are a larger part, and they cost both alike."
    ),
)
def batches_of_one(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(records=1, in_flight=32))


@row(
    "small-one-in-flight",
    "One small request in flight: one record of 100 B",
    unit="requests/s",
    goal=2.5,
    floor=1.5,
    against=APACHE,
    value="requests",
    why=ROUND_TRIP,
)
def one_in_flight(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(record_bytes=100, records=1, connections=1, in_flight=1, partitions=1))


@row(
    "small-pipelined",
    "Small requests pipelined: one record of 100 B, 4 connections",
    unit="requests/s",
    goal=3,
    floor=2,
    against=APACHE,
    value="requests",
)
def pipelined(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(record_bytes=100, records=1, in_flight=32))


@row(
    "produce-16k-flush",
    "Produce batches of 16 KB with flush.messages=1, 4 connections",
    unit="MB/s",
    goal=1.0,
    floor=0.8,
    against=APACHE,
    value="mb",
    why=(
        "Flushes run on workers, at most one for each log at a time, and what is written meanwhile shares "
        "the next one; only the records are synced, and their handle stays open. What is left are the "
        "hand-overs between threads that take turns to run Python: two for each flush, of some 50 µs."
    ),
)
def flushed(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(configs={"flush.messages": "1"}))


for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
    label = codec.name.lower()
    row(
        f"produce-16k-{label}",
        f"Produce records of 1 KiB in batches of 16, {label}, 4 connections",
        unit="MB/s",
        goal=1.2,
        floor=1.0,
        against=APACHE,
        value="mb",
        why=DECOMPRESSING,
    )(partial(contenders, load=Load(codec=codec)))
