"""The doctor's look at a cluster: whether it answers, and whether its partitions and groups are well."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.doctor.findings import Finding, State
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.friendly.framework import open_admin

if TYPE_CHECKING:
    from barnabas.client.admin.topics import TopicDescription
    from barnabas.client.sync import Admin

# So many names are told; the rest is a number.
SHOWN = 5
# A disk with less room than this share will soon refuse records.
LITTLE_ROOM = 0.1


def examine_cluster(parser: ArgumentParser, options: Namespace) -> Iterator[Finding]:
    """Every check; if the cluster does not answer, that is the only finding."""
    try:
        with open_admin(parser, options) as admin:
            yield _cluster(admin)
            topics = admin.describe_topics(sorted(admin.list_topics(include_internal=True)))
            described = list(topics.values_by_key.values())
            yield _leaders(described)
            yield _in_sync(described)
            yield _disks(admin)
            yield _groups(admin)
    except CommandError as error:
        advice = "start it (barnabas dev, or barnabas server-start), or give the right --bootstrap-server"
        yield Finding("cluster", State.BROKEN, str(error), advice)


def _cluster(admin: Admin) -> Finding:
    seen = admin.describe_cluster()
    nodes = ", ".join(str(node) for node in seen.nodes)
    found = f"{seen.cluster_id}, brokers: {nodes}"
    if seen.controller is None:
        return Finding("cluster", State.BROKEN, found, "there is no controller: start a majority of them")
    return Finding("cluster", State.OK, found)


def _leaders(topics: Sequence[TopicDescription]) -> Finding:
    lost = [
        f"{topic.name}-{one.partition}" for topic in topics for one in topic.partitions if one.leader is None
    ]
    if lost:
        advice = "start the brokers that have their replicas, and see their logs for offline log directories"
        return Finding("leaders", State.BROKEN, f"{len(lost)} partitions have none: {_some(lost)}", advice)
    count = sum(len(topic.partitions) for topic in topics)
    return Finding("leaders", State.OK, f"all {count} partitions of {len(topics)} topics have one")


def _in_sync(topics: Sequence[TopicDescription]) -> Finding:
    behind = [
        f"{topic.name}-{one.partition}"
        for topic in topics
        for one in topic.partitions
        if one.leader is not None and len(one.isr) < len(one.replicas)
    ]
    if behind:
        found = f"{len(behind)} partitions have replicas that are not in sync: {_some(behind)}"
        return Finding(
            "replicas", State.HINT, found, "find out which brokers are down or slow: barnabas topic show"
        )
    return Finding("replicas", State.OK, "all are in sync")


def _disks(admin: Admin) -> Finding:
    brokers = [node.id for node in admin.describe_cluster().nodes]
    told = admin.describe_log_dirs(brokers, partitions=[])
    folders = [(broker, folder) for broker, paths in told.values_by_key.items() for folder in paths.values()]
    offline = [f"{folder.path} of broker {broker}" for broker, folder in folders if folder.error is not None]
    if offline:
        advice = "see the broker's log for the fault, mend the disk, and start the broker again"
        return Finding("log directories", State.BROKEN, f"offline: {_some(offline)}", advice)
    full = [
        f"{folder.path} of broker {broker} ({folder.usable_bytes / folder.total_bytes:.0%} free)"
        for broker, folder in folders
        if folder.total_bytes > 0 and folder.usable_bytes < folder.total_bytes * LITTLE_ROOM
    ]
    if full:
        advice = "free space, or keep less: retention.ms, retention.bytes"
        return Finding("log directories", State.HINT, f"little room: {_some(full)}", advice)
    return Finding("log directories", State.OK, f"{len(folders)}, all online")


def _groups(admin: Admin) -> Finding:
    from barnabas.cli.friendly.group import group_rows

    rows = group_rows(admin, [one.group_id for one in admin.list_consumer_groups().groups])
    idle = [str(row["group"]) for row in rows if row["state"] == "Empty" and row["lag"]]
    if idle:
        found = f"nobody reads for {_some(idle)}, and records wait"
        return Finding("groups", State.HINT, found, f"barnabas explain {idle[0]} says why")
    return Finding("groups", State.OK, f"{len(rows)}, none is left alone with records")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
