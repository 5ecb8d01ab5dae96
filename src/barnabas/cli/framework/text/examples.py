"""Examples at the end of the help of each command; a subcommand has those that name it.

tests/cli/framework/text/test_examples.py checks that there are two, and that commands and options exist.
"""

from __future__ import annotations

# A line that ends with a backslash continues below, as in a shell.
EXAMPLES = {
    "acls": r"""
barnabas acls --bootstrap-server localhost:9092 --list --topic orders
barnabas acls --bootstrap-server localhost:9092 --add \
    --allow-principal User:alice --consumer --topic orders --group billing
""",
    "aliases": r"""
barnabas aliases kafka
kafka/bin/kafka-topics.sh --list --bootstrap-server localhost:9092
""",
    "broker-api-versions": r"""
barnabas broker-api-versions --bootstrap-server localhost:9092
barnabas broker-api-versions --bootstrap-server localhost:9092 | grep Fetch
""",
    "cluster": r"""
barnabas cluster up --brokers 3 --controllers 3
barnabas cluster kill 2
barnabas cluster start 2
barnabas cluster status
barnabas cluster stop 3
barnabas cluster down
barnabas cluster cluster-id --bootstrap-server localhost:9092
barnabas cluster unregister --bootstrap-server localhost:9092 --id 3
barnabas cluster list-endpoints --bootstrap-server localhost:9092
""",
    "collect": r"""
barnabas collect '/var/log/*.log' --topic logs.raw --state collected.json
journalctl -f -o json | barnabas collect --stdin --topic logs.raw
barnabas collect --syslog udp://127.0.0.1:5514 --topic logs.raw
""",
    "completion": r"""
source <(barnabas completion bash)
barnabas completion fish | source
""",
    "configs": r"""
barnabas configs --bootstrap-server localhost:9092 --describe --topic orders
barnabas configs --bootstrap-server localhost:9092 --alter --topic orders \
    --add-config retention.ms=86400000
""",
    "console-consumer": r"""
barnabas console-consumer --bootstrap-server localhost:9092 --topic orders \
    --from-beginning
barnabas console-consumer --bootstrap-server localhost:9092 --topic orders \
    --group billing --property print.key=true
""",
    "console-producer": r"""
barnabas console-producer --bootstrap-server localhost:9092 --topic orders
barnabas console-producer --bootstrap-server localhost:9092 --topic orders \
    --property parse.key=true --property key.separator=:
""",
    "consume": r"""
barnabas consume orders --from -1h --key alice
barnabas consume orders -F '%k %s\n' -f
""",
    "consumer-groups": r"""
barnabas consumer-groups --bootstrap-server localhost:9092 --describe \
    --group billing
barnabas consumer-groups --bootstrap-server localhost:9092 --reset-offsets \
    --group billing --topic orders --to-earliest --execute
""",
    "consumer-perf-test": r"""
barnabas consumer-perf-test --bootstrap-server localhost:9092 --topic orders \
    --messages 1000000
barnabas consumer-perf-test --bootstrap-server localhost:9092 --topic orders \
    --messages 1000000 --show-detailed-stats
""",
    "context": r"""
barnabas context add test kafka1:9092,kafka2:9092
barnabas context use test
barnabas context list
barnabas context unuse
barnabas context remove test
""",
    "delegation-tokens": r"""
barnabas delegation-tokens --bootstrap-server localhost:9092 \
    --command-config client.properties --create --max-life-time-period -1
barnabas delegation-tokens --bootstrap-server localhost:9092 \
    --command-config client.properties --describe
""",
    "delete-records": r"""
barnabas delete-records --bootstrap-server localhost:9092 \
    --offset-json-file offsets.json
barnabas delete-records --bootstrap-server localhost:9092 \
    --offset-json-file /dev/stdin < offsets.json
""",
    "demo": r"""
barnabas demo
barnabas demo --folder /tmp/demo --seconds 60
""",
    "dev": r"""
barnabas dev --topic orders:3
barnabas dev --data ./kept --host 0.0.0.0 --advertise myhost
""",
    "doctor": r"""
barnabas doctor
barnabas doctor --folder /var/lib/kafka -b kafka1:9092
""",
    "drain": r"""
barnabas drain 3 --dry-run
barnabas drain 3 --yes
""",
    "dump-log": r"""
barnabas dump-log --files data/orders-0/00000000000000000000.log \
    --print-data-log
barnabas dump-log --files data/orders-0/00000000000000000000.index \
    --index-sanity-check
""",
    "e2e-latency": r"""
barnabas e2e-latency localhost:9092 orders 10000 all 100
barnabas e2e-latency localhost:9092 orders 10000 1 100 client.properties
""",
    "explain": r"""
barnabas explain billing
barnabas explain --partitions
""",
    "features": r"""
barnabas features --bootstrap-server localhost:9092 describe
barnabas features --bootstrap-server localhost:9092 upgrade \
    --release-version 4.1
barnabas features --bootstrap-server localhost:9092 downgrade \
    --feature group.version=0 --dry-run
barnabas features --bootstrap-server localhost:9092 disable \
    --feature eligible.leader.replicas.version
barnabas features version-mapping --release-version 4.1
barnabas features feature-dependencies --feature metadata.version=25
""",
    "get-offsets": r"""
barnabas get-offsets --bootstrap-server localhost:9092 --topic orders
barnabas get-offsets --bootstrap-server localhost:9092 --topic orders \
    --time earliest
""",
    "group": r"""
barnabas group list
barnabas group show billing --members
barnabas group reset billing --to -1h --topic orders --dry-run
barnabas group delete billing
""",
    "groups": r"""
barnabas groups --bootstrap-server localhost:9092 --list
barnabas groups --bootstrap-server localhost:9092 --list --consumer
""",
    "leader-election": r"""
barnabas leader-election --bootstrap-server localhost:9092 \
    --election-type preferred --all-topic-partitions
barnabas leader-election --bootstrap-server localhost:9092 \
    --election-type unclean --topic orders --partition 0
""",
    "log-dirs": r"""
barnabas log-dirs --bootstrap-server localhost:9092 --describe
barnabas log-dirs --bootstrap-server localhost:9092 --describe \
    --broker-list 1 --topic-list orders
""",
    "logs": r"""
barnabas logs detect /var/log/*.log
barnabas logs parse /var/log/syslog | head
barnabas logs report /var/log/nginx /var/log/syslog
""",
    "metadata-quorum": r"""
barnabas metadata-quorum --bootstrap-server localhost:9092 describe --status
barnabas metadata-quorum --bootstrap-server localhost:9092 \
    --command-config server.properties add-controller
barnabas metadata-quorum --bootstrap-server localhost:9092 remove-controller \
    --controller-id 3 --controller-directory-id ID
""",
    "metadata-shell": r"""
barnabas metadata-shell --directory data/__cluster_metadata-0 ls /
barnabas metadata-shell \
    --bootstrap-controller localhost:9093 cat /image/topics
""",
    "pipeline": r"""
barnabas pipeline run logs.toml --once
barnabas pipeline status logs.toml
barnabas pipeline reset logs.toml --dry-run
barnabas pipeline graph logs.toml
barnabas pipeline report logs.toml
barnabas pipeline test logs.toml cases.toml
""",
    "produce": r"""
echo alice:3 apples | barnabas produce orders -s : --create
barnabas consume orders -o jsonl | barnabas produce copies --create
""",
    "producer-perf-test": r"""
barnabas producer-perf-test --topic orders --num-records 1000000 \
    --record-size 100 --throughput -1 \
    --producer-props bootstrap.servers=localhost:9092
barnabas producer-perf-test --topic orders --num-records 10000 \
    --payload-monotonic --throughput 1000 \
    --producer-props bootstrap.servers=localhost:9092 acks=all
""",
    "reassign-partitions": r"""
barnabas reassign-partitions --bootstrap-server localhost:9092 --generate \
    --topics-to-move-json-file topics.json --broker-list 1,2,3
barnabas reassign-partitions --bootstrap-server localhost:9092 --execute \
    --reassignment-json-file plan.json --throttle 50000000
""",
    "replica-verification": r"""
barnabas replica-verification --broker-list localhost:9092 \
    --topics-include orders
barnabas replica-verification --broker-list localhost:9092 \
    --report-interval-ms 5000
""",
    "restart": r"""
barnabas restart --rolling
barnabas restart --rolling 1 2 --timeout 600
""",
    "secure": r"""
barnabas secure init secured --nodes 3
barnabas secure init secured --hosts kafka1,kafka2,kafka3 --users alice,bob
""",
    "segment": r"""
barnabas segment list data/orders-0
barnabas segment batches data/orders-0/00000000000000000000.log
barnabas segment records data/orders-0/00000000000000000000.log
""",
    "server-start": r"""
barnabas server-start server.properties --override num.partitions=3
barnabas server-start -daemon server.properties
""",
    "server-stop": r"""
barnabas server-stop --dry-run
barnabas server-stop --node-id 2
""",
    "sql": r"""
barnabas sql 'SELECT count(*) FROM orders'
barnabas sql 'SELECT text, count(*) FROM orders GROUP BY text' -o jsonl
""",
    "status": r"""
barnabas status
barnabas status --json
""",
    "storage": r"""
barnabas storage random-uuid
barnabas storage format -t 4fMJz0RsTvGrBG-3YU4K9Q -c server.properties
barnabas storage info -c server.properties
barnabas storage version-mapping --release-version 4.1
barnabas storage feature-dependencies --feature metadata.version=25
""",
    "tail": r"""
barnabas tail orders
barnabas tail orders -n 1 --no-follow --json --nested
""",
    "timeline": r"""
barnabas timeline --bootstrap-server localhost:9092
barnabas timeline --dir data --since -10m
""",
    "top": r"""
barnabas top
barnabas top --every 5s --rounds 1
""",
    "topic": r"""
barnabas topic list 'ord*'
barnabas topic show orders
barnabas topic configs orders
barnabas topic create orders -p 3 --config retention.ms=86400000
barnabas topic alter orders -p 6
barnabas topic empty orders --dry-run
barnabas topic delete orders
""",
    "topics": r"""
barnabas topics --bootstrap-server localhost:9092 --create --topic orders \
    --partitions 3
barnabas topics --bootstrap-server localhost:9092 --describe --topic orders
""",
    "transactions": r"""
barnabas transactions --bootstrap-server localhost:9092 list
barnabas transactions --bootstrap-server localhost:9092 describe \
    --transactional-id payments-1
barnabas transactions --bootstrap-server localhost:9092 describe-producers \
    --topic orders --partition 0
barnabas transactions --bootstrap-server localhost:9092 find-hanging \
    --broker-id 1
barnabas transactions --bootstrap-server localhost:9092 abort --topic orders \
    --partition 0 --start-offset 7
barnabas transactions \
    --bootstrap-server localhost:9092 forceTerminateTransaction \
    --transactionalId payments-1
""",
    "zk-server": r"""
barnabas zk-server start conf/zoo.cfg
barnabas zk-server status conf/zoo.cfg
""",
    "zookeeper-server-start": r"""
barnabas zookeeper-server-start zookeeper.properties
barnabas zookeeper-server-start -daemon zookeeper.properties
""",
    "zookeeper-server-stop": r"""
barnabas zookeeper-server-stop
barnabas zookeeper-server-stop; barnabas status
""",
    "zookeeper-shell": r"""
barnabas zookeeper-shell localhost:2181 ls /brokers/ids
barnabas zookeeper-shell localhost:2181/kafka get /controller
""",
}


def examples_of(program: str) -> str:
    """The last part of the help of `barnabas topic` or `barnabas topic create`; empty for other programs."""
    _, _, name = program.partition(" ")
    command, _, subcommand = name.partition(" ")
    lines = commands_in(EXAMPLES.get(command, ""))
    if subcommand:
        lines = [line for line in lines if f" {subcommand}" in line]
    shown = "\n".join(lines).replace("\n", "\n  ")
    return f"\nexamples:\n  {shown}\n" if lines else ""


def commands_in(text: str) -> list[str]:
    """The commands of a text, some with several lines."""
    commands: list[str] = []
    is_open = False
    for line in text.strip().splitlines():
        if is_open:
            commands[-1] += f"\n{line}"
        else:
            commands.append(line)
        is_open = line.endswith("\\")
    return commands
