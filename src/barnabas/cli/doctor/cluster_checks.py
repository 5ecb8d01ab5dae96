"""Checks of a cluster: whether it responds, and whether its partitions, disks and groups are healthy."""

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

# How many names a finding lists; the others are only counted.
SHOWN = 5
# A disk with less than this share free will soon refuse records.
LOW_FREE_SHARE = 0.1


def examine_cluster(parser: ArgumentParser, options: Namespace) -> Iterator[Finding]:
    """Every check; if the cluster does not respond, that is the only finding."""
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
    cluster = admin.describe_cluster()
    nodes = ", ".join(str(node) for node in cluster.nodes)
    text = f"{cluster.cluster_id}, brokers: {nodes}"
    if cluster.controller is None:
        return Finding("cluster", State.BROKEN, text, "there is no controller: start a majority of them")
    return Finding("cluster", State.OK, text)


def _leaders(topics: Sequence[TopicDescription]) -> Finding:
    lost = [
        f"{topic.name}-{info.partition}"
        for topic in topics
        for info in topic.partitions
        if info.leader is None
    ]
    if lost:
        advice = "start the brokers that have their replicas, and see their logs for offline log directories"
        return Finding(
            "leaders", State.BROKEN, f"{len(lost)} partitions have no leader: {_some(lost)}", advice
        )
    count = sum(len(topic.partitions) for topic in topics)
    return Finding("leaders", State.OK, f"all {count} partitions of {len(topics)} topics have a leader")


def _in_sync(topics: Sequence[TopicDescription]) -> Finding:
    behind = [
        f"{topic.name}-{info.partition}"
        for topic in topics
        for info in topic.partitions
        if info.leader is not None and len(info.isr) < len(info.replicas)
    ]
    if behind:
        found = f"{len(behind)} partitions have replicas that are not in sync: {_some(behind)}"
        return Finding(
            "replicas", State.HINT, found, "find out which brokers are down or slow: barnabas topic show"
        )
    return Finding("replicas", State.OK, "all are in sync")


def _disks(admin: Admin) -> Finding:
    brokers = [node.id for node in admin.describe_cluster().nodes]
    log_dirs = admin.describe_log_dirs(brokers, partitions=[])
    folders = [
        (broker, folder) for broker, paths in log_dirs.values_by_key.items() for folder in paths.values()
    ]
    offline = [f"{folder.path} of broker {broker}" for broker, folder in folders if folder.error is not None]
    if offline:
        advice = "see the broker's log for the error, repair the disk, and restart the broker"
        return Finding("log directories", State.BROKEN, f"offline: {_some(offline)}", advice)
    full = [f"{folder.path} of broker {broker}" for broker, folder in folders if folder.is_full]
    if full:
        advice = "free space there, or move replicas away; writes are accepted again by themselves"
        return Finding("log directories", State.BROKEN, f"full, writes are refused: {_some(full)}", advice)
    low = [
        f"{folder.path} of broker {broker} ({folder.usable_bytes / folder.total_bytes:.0%} free)"
        for broker, folder in folders
        if folder.total_bytes > 0 and folder.usable_bytes < folder.total_bytes * LOW_FREE_SHARE
    ]
    if low:
        advice = "free space, or keep less: retention.ms, retention.bytes"
        return Finding("log directories", State.HINT, f"little free space: {_some(low)}", advice)
    return Finding("log directories", State.OK, f"{len(folders)}, all online")


def _groups(admin: Admin) -> Finding:
    from barnabas.cli.friendly.group import group_rows

    rows = group_rows(admin, [group.group_id for group in admin.list_consumer_groups().groups])
    idle = [str(row["group"]) for row in rows if row["state"] == "Empty" and row["lag"]]
    if idle:
        found = f"no active members, but lag: {_some(idle)}"
        return Finding("groups", State.HINT, found, f"see barnabas explain {idle[0]}")
    return Finding("groups", State.OK, f"{len(rows)}, none has lag without members")


def _some(names: Sequence[str]) -> str:
    suffix = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + suffix
