"""`barnabas reassign-partitions --verify`: the progress of the reassignments of a plan."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode
from barnabas.cli.framework.exits import Exit
from barnabas.cli.reassign_partitions.plan import Plan, read_plan
from barnabas.cli.reassign_partitions.throttles import clear_throttles
from barnabas.client.admin.log_dirs import ReplicaLogDir
from barnabas.client.model import TopicPartition, TopicPartitionReplica
from barnabas.client.sync import Admin


def verify(admin: Admin, options: Namespace) -> Exit:
    plan = read_plan(options.reassignment_json_file)
    moving = admin.list_partition_reassignments()
    print("Status of partition reassignment:")
    present = current_replicas(admin, plan)
    for partition, replicas in sorted(plan.targets.items()):
        if partition in moving:
            print(f"Reassignment of partition {partition} is still in progress.")
        elif present.get(partition, ()) == replicas:
            print(f"Reassignment of partition {partition} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{_ids(present.get(partition, ()))} rather than {_ids(replicas)}."
            )
    states = folder_states(admin, plan.folders)
    lines = [
        folder_line(replica, states[replica], plan.folders[replica])
        for replica in sorted(states, key=_by_broker)
    ]
    print("\n".join(lines))
    # A plan without log directories has no moves between them to wait for.
    if (
        not moving
        and not any(state.future_path for state in states.values())
        and not options.preserve_throttles
    ):
        clear_throttles(admin, plan)
    return Exit.OK


def _by_broker(replica: TopicPartitionReplica) -> tuple[int, str, int]:
    return replica.broker_id, replica.topic, replica.partition


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def current_replicas(admin: Admin, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    """The current replicas of a plan's partitions; missing partitions are left out."""
    if not plan.topics:
        return {}
    described = admin.describe_topics(plan.topics)
    for error in described.errors.values():
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
    return {
        TopicPartition(topic.name, info.partition): info.replicas
        for topic in described.values_by_key.values()
        for info in topic.partitions
    }


def folder_states(
    admin: Admin, folders: Mapping[TopicPartitionReplica, str]
) -> Mapping[TopicPartitionReplica, ReplicaLogDir]:
    return admin.describe_replica_log_dirs(folders).raise_first() if folders else {}


def folder_line(replica: TopicPartitionReplica, state: ReplicaLogDir, target: str) -> str:
    """The progress of moving a replica to a log directory."""
    name = f"{replica.topic}-{replica.partition}"
    if state.current_path is None:
        return (
            f"Partition {name} is not found in any live log dir on broker {replica.broker_id}. There is "
            "likely an offline log directory on the broker."
        )
    if state.future_path == target:
        return f"Reassignment of replica {name}-{replica.broker_id} is still in progress."
    if state.future_path is not None:
        return (
            f"Partition {name} on broker {replica.broker_id} is being moved to log dir {state.future_path} "
            f"instead of {target}."
        )
    if state.current_path == target:
        return f"Reassignment of replica {name}-{replica.broker_id} completed successfully."
    return (
        f"Partition {name} on broker {replica.broker_id} is not being moved from log dir "
        f"{state.current_path} to {target}."
    )
