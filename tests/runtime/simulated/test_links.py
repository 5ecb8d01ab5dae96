"""Messages between simulated nodes: lost, late, duplicated, overtaken, blocked; all determined by the
seed."""

from __future__ import annotations

from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.agenda import Agenda, Trace
from barnabas.runtime.simulated.links import LinkFaults, Links

Arrived = list[tuple[int, int, object]]


def make_links(faults: LinkFaults, seed: int = 1) -> tuple[Agenda, Links, Arrived]:
    agenda = Agenda(SeededRandom(seed), Trace())
    arrived: Arrived = []
    links = Links(
        agenda, SeededRandom(seed), lambda sender, to, message: arrived.append((sender, to, message))
    )
    links.faults = faults
    return agenda, links, arrived


def send_hundred(faults: LinkFaults, seed: int = 1) -> list[object]:
    agenda, links, arrived = make_links(faults, seed)
    for number in range(100):
        links.send(1, 2, number)
    while agenda.step():
        pass
    return [message for _, _, message in arrived]


def test_a_good_network_delivers_all_and_may_reorder() -> None:
    messages = send_hundred(LinkFaults())
    assert sorted(messages) == list(range(100))  # type: ignore[type-var]
    assert messages != list(range(100))


def test_equal_delays_keep_nearly_the_order() -> None:
    assert len(send_hundred(LinkFaults(min_delay_ns=5, max_delay_ns=5))) == 100


def test_loss_and_duplication_follow_their_probabilities_and_the_seed() -> None:
    lossy = send_hundred(LinkFaults(loss=0.3))
    assert 50 <= len(lossy) <= 90
    assert lossy == send_hundred(LinkFaults(loss=0.3))
    assert lossy != send_hundred(LinkFaults(loss=0.3), seed=2)
    assert 110 <= len(send_hundred(LinkFaults(duplicate=0.3))) <= 150


def test_late_messages_arrive_late() -> None:
    agenda, links, arrived = make_links(LinkFaults(late=1.0))
    for number in range(50):
        links.send(1, 2, number)
    while agenda.now_ns < 20_000_000:
        agenda.step()
    assert len(arrived) < 10


def test_one_direction_can_be_blocked() -> None:
    agenda, links, arrived = make_links(LinkFaults())
    links.block(1, 2)
    links.send(1, 2, "lost")
    links.send(2, 1, "received")
    while agenda.step():
        pass
    assert arrived == [(2, 1, "received")]
    assert links.lost == 1


def test_a_partition_separates_groups_until_it_is_healed() -> None:
    agenda, links, arrived = make_links(LinkFaults())
    links.partition([1, 2], [3])
    for sender in (1, 2, 3):
        for to in (1, 2, 3):
            links.send(sender, to, "x")
    while agenda.step():
        pass
    assert {(sender, to) for sender, to, _ in arrived} == {(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)}
    links.heal()
    assert not links.is_blocked(1, 3)


def test_a_message_in_flight_is_lost_if_the_link_is_blocked_before_it_arrives() -> None:
    agenda, links, arrived = make_links(LinkFaults())
    links.send(1, 2, "in flight")
    links.block(1, 2)
    agenda.step()
    assert arrived == []


def test_each_seed_has_its_own_network() -> None:
    drawn = [LinkFaults.draw(SeededRandom(seed)) for seed in range(30)]
    assert drawn == [LinkFaults.draw(SeededRandom(seed)) for seed in range(30)]
    assert any(not faults.loss for faults in drawn)
    assert any(faults.loss and faults.duplicate and faults.late for faults in drawn)
