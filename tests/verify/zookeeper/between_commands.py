"""What happened to the cluster of golden/cli/zk-3.9.1 between its commands, and the files that they name.

Written as in `tests/cli/sessions`.  The tools that measure chose partitions at random, and Apache Kafka draws
by lot where replicas are placed: here come the records that they left behind, and the places, as recorded.
"""

from __future__ import annotations

FILES = {
    "topics.json": '{"topics":[{"topic":"mv"}],"version":1}',
    "plan.json": '{"version":1,"partitions":[{"topic":"mv","partition":0,"replicas":[2,3],'
    '"log_dirs":["any","any"]},{"topic":"mv","partition":1,"replicas":[3,1],"log_dirs":["any","any"]}]}',
    "bad.json": '{"version":1,"partitions":[{"topic":"mv","partition":0,"replicas":[8,9]}]}',
    "del.json": '{"partitions":[{"topic":"orders","partition":0,"offset":1},'
    '{"topic":"orders","partition":1,"offset":99999999}],"version":1}',
}
# By file and the number of the command that follows.
ACTIONS = {
    ("groups", 0): """\
        & forget console-consumer- g1 perf vc
        & move __consumer_offsets 2:3:1,3:1:2,1:2:3,2:1:3,3:2:1
        & in-sync
        & elect
        & place orders 2:3:1,3:1:2,1:2:3
        & place defaults 2,3,1,2
        & place auto-created 3
        & place with_under.dot 2 retention.ms=1000 cleanup.policy=compact
        & place nope 1
        & produce auto-created 0 2
        & produce orders 0 241
        & produce orders 1 873
        & produce orders 2 894
        & commit perf orders:0=241 orders:1=873 orders:2=891
        & commit vc orders:0=5
        & join m0 group.id=console-consumer-68970 topic=orders enable.auto.commit=false
        & leave m0
        & join m1 group.id=console-consumer-33271 topic=orders enable.auto.commit=false
        & leave m1
        & join m2 group.id=console-consumer-17725 topic=orders enable.auto.commit=false
        & leave m2
        & join m3 group.id=perf topic=orders enable.auto.commit=false
        & leave m3
        & join m4 group.id=vc topic=orders enable.auto.commit=false
        & leave m4
        & join c-one group.id=g1 topic=orders
        & join c-two group.id=g1 topic=orders""",
    ("groups", 11): """\
        & leave c-one
        & leave c-two""",
    ("broker-down", 1): "& place ha 2:3:1,3:1:2,1:2:3 min.insync.replicas=2",
    ("broker-down", 2): "& kill 3",
    ("broker-down", 7): "& kill 2",
    ("broker-down", 11): """\
        & start 2
        & start 3
        & in-sync""",
    # As much as this takes minutes with the throttle.
    ("reassign", 1): """\
        & produce mv 0 60 size=200000
        & produce mv 1 60 size=200000""",
}


def actions_before(file: str, number: int) -> list[str]:
    return [line.strip() for line in ACTIONS.get((file, number), "").splitlines()]
