"""`barnabas reassign-partitions --execute` and `--cancel`: start or cancel the reassignments of a plan."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sized

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.kafka_errors import exit_code, message_of
from barnabas.cli.reassign_partitions.plan import Plan, as_plan, assignments_of, check_plan, read_plan
from barnabas.cli.reassign_partitions.throttles import (
    clear_throttles,
    throttle_brokers,
    throttle_folders,
    throttle_topics,
)
from barnabas.cli.reassign_partitions.verify import folder_states
from barnabas.client.model import TopicPartition, TopicPartitionReplica
from barnabas.client.sync import Admin
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.loop_thread import pause

DEFAULT_TIMEOUT_MS = 10_000
PAUSE_MS = 100
ALREADY_MOVING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this "
    "and create a new partition assignment in addition to the existing one. The --additional flag can also "
    "be used to change the throttle by resubmitting the current reassignment."
)
VERIFY_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle "
    "is removed."
)


def execute(admin: Admin, options: Namespace) -> None:
    plan = read_plan(options.reassignment_json_file)
    check_plan(plan)
    active = admin.list_partition_reassignments()
    if active and not options.additional:
        raise CommandError(ALREADY_MOVING)
    _check_brokers(admin, plan)
    present = assignments_of(admin, plan)
    print(f"Current partition replica assignment\n\n{as_plan(present)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    rate, folder_rate = _rate(options.throttle), _rate(options.replica_alter_log_dirs_throttle)
    if rate is not None or folder_rate is not None:
        print(VERIFY_WARNING)
    if rate is not None:
        throttle_topics(admin, active, plan, present)
        throttle_brokers(admin, active, plan, present, rate)
    if folder_rate is not None:
        throttle_folders(admin, plan, folder_rate)
    outcomes = admin.alter_partition_reassignments(
        plan.targets, allow_replication_factor_change=not options.disallow_replication_factor_change
    )
    _raise_errors(outcomes.errors, "Error reassigning partition(s):")
    print(f"Successfully started partition reassignment{_plural(plan.targets)} for {_listed(plan.targets)}")
    if plan.folders:
        move_folders(admin, plan.folders, options)


def _rate(given: int | None) -> int | None:
    return given if given is not None and given >= 0 else None


def _check_brokers(admin: Admin, plan: Plan) -> None:
    alive = {node.id for node in admin.describe_cluster().nodes}
    for broker in sorted({replica for replicas in plan.targets.values() for replica in replicas}):
        if broker not in alive:
            raise CommandError(f"Error: Unknown broker id {broker}", Exit.NOT_FOUND)


def _raise_errors(errors: Mapping[TopicPartition, KafkaError], headline: str) -> None:
    """Prints each error on its own line below the headline, and raises with the highest exit code."""
    if not errors:
        return
    sys.stdout.flush()
    print(headline, file=sys.stderr)
    *others, last = (f"{partition}: {message_of(errors[partition])}" for partition in sorted(errors))
    for line in others:
        print(line, file=sys.stderr)
    raise CommandError(last, max(exit_code(error) for error in errors.values()))


def _plural(of: Sized) -> str:
    return "" if len(of) == 1 else "s"


def _listed(partitions: Mapping[TopicPartition, object] | list[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def move_folders(admin: Admin, moves: Mapping[TopicPartitionReplica, str], options: Namespace) -> None:
    """Starts moves between log directories; retries replicas that their broker does not have yet."""
    clock = SystemClock()
    timeout_ms = DEFAULT_TIMEOUT_MS if options.timeout is None else options.timeout
    deadline_ns = clock.monotonic_ns() + timeout_ms * NS_PER_MS
    pending = dict(moves)
    while pending:
        for replica in _started(admin, pending):
            print(
                f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker_id} "
            )
        if pending and clock.monotonic_ns() >= deadline_ns:
            names = ",".join("-".join(map(str, replica)) for replica in sorted(pending, key=_by_broker))
            raise CommandError(
                f"Timed out before log directory move{_plural(pending)} could be started for: {names}",
                Exit.TIMED_OUT,
            )
        if pending:
            admin.call(lambda _: pause(PAUSE_MS / 1_000))


def _by_broker(replica: TopicPartitionReplica) -> tuple[int, str, int]:
    return replica.broker_id, replica.topic, replica.partition


def _started(admin: Admin, moves: Mapping[TopicPartitionReplica, str]) -> list[TopicPartitionReplica]:
    outcomes = admin.alter_replica_log_dirs(moves)
    for replica, error in outcomes.errors.items():
        if error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            name = "-".join(map(str, replica))
            raise CommandError(
                f"Error: Failed to alter dir for {name}: {message_of(error)}", exit_code(error)
            )
    return sorted(outcomes.values_by_key, key=_by_broker)


def cancel(admin: Admin, options: Namespace) -> None:
    plan = read_plan(options.reassignment_json_file)
    active = sorted(admin.list_partition_reassignments(plan.targets)) if plan.parts else []
    if active:
        outcomes = admin.alter_partition_reassignments(dict.fromkeys(active))
        _raise_errors(
            outcomes.errors, f"Error cancelling partition reassignment{_plural(outcomes.errors)} for:"
        )
        print(f"Successfully cancelled partition reassignment{_plural(active)} for: {_listed(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    states = folder_states(admin, plan.folders)
    back = {
        replica: state.current_path
        for replica, state in states.items()
        if state.current_path is not None and state.future_path is not None
    }
    if back:
        move_folders(admin, back, options)
    else:
        print("None of the specified partition moves are active.")
    if not options.preserve_throttles:
        clear_throttles(admin, plan)
