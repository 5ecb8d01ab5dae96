"""Requests in flight: one per peer, with a timeout and a back-off."""

from __future__ import annotations

from barnabas.raft.request_manager import RequestManager


def _requests() -> RequestManager:
    return RequestManager(request_timeout_ns=100, retry_backoff_ns=10)


def test_one_request_per_peer_until_it_expires() -> None:
    requests = _requests()
    assert requests.ready_ns(1, 5) == 5
    requests.sent(1, 5)
    assert requests.ready_ns(1, 5) == 105
    assert requests.ready_ns(2, 5) == 5
    assert not requests.has_timed_out(1, 104)
    assert requests.has_timed_out(1, 105)
    assert requests.ready_ns(1, 200) == 200


def test_only_the_response_to_the_last_request_is_expected() -> None:
    requests = _requests()
    first = requests.sent(1, 0)
    second = requests.sent(1, 100)
    assert not requests.received(1, first)
    assert not requests.received(2, second)
    assert requests.received(1, second)
    assert not requests.received(1, second)
    assert requests.ready_ns(1, 101) == 101


def test_a_failure_backs_off() -> None:
    requests = _requests()
    requests.received(1, requests.sent(1, 0))
    requests.back_off(1, 0)
    assert requests.is_backing_off(1, 9)
    assert requests.ready_ns(1, 0) == 10
    assert not requests.is_backing_off(1, 10)
    assert not requests.is_backing_off(2, 0)


def test_the_first_of_the_requests_in_flight() -> None:
    requests = _requests()
    assert requests.in_flight_until_ns(0) is None
    requests.sent(1, 0)
    requests.sent(2, 20)
    assert requests.in_flight_until_ns(30) == 100
    assert requests.in_flight_until_ns(100) == 120
    requests.forget(2)
    requests.forget(3)
    assert requests.in_flight_until_ns(100) is None


def test_a_new_role_expects_nothing() -> None:
    requests = _requests()
    sent = requests.sent(1, 0)
    requests.reset()
    assert not requests.received(1, sent)
    assert requests.ready_ns(1, 0) == 0
