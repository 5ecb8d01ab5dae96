"""Announcements are followed through lost connections, on a simulated ensemble."""

from __future__ import annotations

from barnabas.broker.modes.zookeeper.notifications import Notifications
from barnabas.broker.network.request_steps import RequestWork, Steps, awaited
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from tests.runtime.zookeeper.drivers import SimulatedDriver

ROOT, PREFIX = "/changes", "change_"


class Follower:
    """A broker that follows the announcements, and loses its connection when it is told to."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self.client = driver.client()
        self.is_cut_off_next = False
        self.read: list[bytes | None] = []
        self._driver = driver
        node = driver.node_of(self.client)
        work = RequestWork(node.timers, node.clock.monotonic_ns)
        self._work = work
        self.notifications = Notifications(self.client, ROOT, PREFIX, self._announced, work, node.clock)

    def begin(self) -> None:
        self._driver.run(lambda: self._work.start(self.notifications.begin())[0])

    def _announced(self, path: str, data: bytes | None) -> Steps[None]:
        if self.is_cut_off_next:
            self.is_cut_off_next = False
            self._driver.cut(self.client)
        yield from awaited(self.client.get("/options"))
        self.read.append(data)


def announce(driver: SimulatedDriver, client: ZooKeeperClient, data: bytes) -> None:
    driver.run(lambda: client.create(f"{ROOT}/{PREFIX}", data, sequential=True, make_parents=True))


def test_an_announcement_is_not_missed_when_the_connection_is_lost_while_it_is_read() -> None:
    # M-B2: what an option, a quota or an ACL became must not stay unknown to one broker
    driver = SimulatedDriver(seed=5)
    follower, other = Follower(driver), driver.client()
    for client in (follower.client, other):
        driver.run(client.start)
    announce(driver, other, b"before")
    follower.begin()
    announce(driver, other, b"first")
    driver.until(lambda: follower.read == [b"first"])
    follower.is_cut_off_next = True
    announce(driver, other, b"second")
    driver.until(lambda: follower.read == [b"first", b"second"])
    announce(driver, other, b"third")
    driver.until(lambda: follower.read == [b"first", b"second", b"third"])
