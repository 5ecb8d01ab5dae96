"""Cycles of transactions: G0 and G1c.

ww: a transaction's value follows another's immediately in the committed view of a partition.
wr: a transaction has read another's value.

G0 is a cycle of ww edges, which Apache Kafka allows (anomalies.py).  G1c is a cycle of wr edges: at
read_committed each transaction would have committed before the other.  A cycle of both kinds of edges would
again be allowed, so G1c is searched without ww edges, as Jepsen does (`ww-deps`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from barnabas.testing.histories.anomalies import Anomaly, Report
from barnabas.testing.histories.events import Isolation
from barnabas.testing.histories.facts import Facts

Graph = Mapping[str, set[str]]


def check_cycles(facts: Facts, report: Report) -> None:
    for kind, graph, relation in (
        (Anomaly.G0, _write_write(facts), "wrote before"),
        (Anomaly.G1C, _write_read(facts), "was read by"),
    ):
        for component in _strong_components(graph):
            cycle = _shortest_cycle(graph, component)
            report.add(kind, f" {relation} ".join([*cycle, cycle[0]]))


def _write_write(facts: Facts) -> Graph:
    graph: dict[str, set[str]] = {}
    for partition in facts.partitions():
        previous: str | None = None
        for _, value in facts.view(partition, Isolation.COMMITTED).records:
            transaction = facts.transaction_of(value)
            if transaction is None:
                continue
            if previous is not None and previous != transaction.id:
                graph.setdefault(previous, set()).add(transaction.id)
            previous = transaction.id
    return graph


def _write_read(facts: Facts) -> Graph:
    graph: dict[str, set[str]] = {}
    for _, poll in facts.polls():
        if poll.transaction is None or poll.isolation is Isolation.UNCOMMITTED:
            continue
        for _, _, value in poll.records:
            writer = facts.transaction_of(value)
            if writer is not None and writer.id != poll.transaction:
                graph.setdefault(writer.id, set()).add(poll.transaction)
    return graph


def _strong_components(graph: Graph) -> list[list[str]]:
    """Those of more than one node, by Tarjan's algorithm without recursion."""
    indexes: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components: list[list[str]] = []
    for root in graph:
        if root in indexes:
            continue
        work = [(root, iter(sorted(graph[root])))]
        _enter(root, indexes, lowest, stack, on_stack)
        while work:
            node, successors = work[-1]
            following = next(successors, None)
            if following is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == indexes[node]:
                    component = _leave(node, stack, on_stack)
                    if len(component) > 1:
                        components.append(component)
            elif following not in indexes:
                _enter(following, indexes, lowest, stack, on_stack)
                work.append((following, iter(sorted(graph.get(following, ())))))
            elif following in on_stack:
                lowest[node] = min(lowest[node], indexes[following])
    return components


def _enter(
    node: str, indexes: dict[str, int], lowest: dict[str, int], stack: list[str], on_stack: set[str]
) -> None:
    indexes[node] = lowest[node] = len(indexes)
    stack.append(node)
    on_stack.add(node)


def _leave(node: str, stack: list[str], on_stack: set[str]) -> list[str]:
    """The component whose first node this is, removed from the stack."""
    component: list[str] = []
    while not component or component[-1] != node:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return component


def _shortest_cycle(graph: Graph, component: Iterable[str]) -> list[str]:
    """The shortest cycle through the least node of a component."""
    inside = set(component)
    start = min(inside)
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for following in sorted(graph.get(node, ())):
            if following == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if following in inside and following not in came_from:
                came_from[following] = node
                queue.append(following)
    raise AssertionError("a strong component has a cycle through each of its nodes")
