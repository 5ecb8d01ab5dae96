"""The requests that a node has in flight: one per peer, with a timeout and a back-off after a failure."""

from __future__ import annotations


class _Peer:
    __slots__ = ("backoff_until_ns", "correlation_id", "expires_ns")

    def __init__(self) -> None:
        self.correlation_id: int | None = None
        self.expires_ns = 0
        self.backoff_until_ns = 0


class RequestManager:
    """When a peer may be sent the next request, and which responses are still expected."""

    def __init__(self, request_timeout_ns: int, retry_backoff_ns: int) -> None:
        self._request_timeout_ns = request_timeout_ns
        self._retry_backoff_ns = retry_backoff_ns
        self._peers: dict[int, _Peer] = {}
        # The last one that was given out.
        self.correlation_id = 0

    def ready_ns(self, peer_id: int, now_ns: int) -> int:
        """When a request may be sent: `now_ns` if it may now."""
        peer = self._peers.get(peer_id)
        if peer is None:
            return now_ns
        ready_ns = peer.backoff_until_ns if peer.correlation_id is None else peer.expires_ns
        return max(ready_ns, now_ns)

    def has_timed_out(self, peer_id: int, now_ns: int) -> bool:
        peer = self._peers.get(peer_id)
        return peer is not None and peer.correlation_id is not None and now_ns >= peer.expires_ns

    def is_backing_off(self, peer_id: int, now_ns: int) -> bool:
        peer = self._peers.get(peer_id)
        return peer is not None and peer.correlation_id is None and now_ns < peer.backoff_until_ns

    def in_flight_until_ns(self, now_ns: int) -> int | None:
        """When the first of the requests in flight expires; None if there is none."""
        first_ns: int | None = None
        for peer in self._peers.values():
            if peer.correlation_id is not None and now_ns < peer.expires_ns:
                first_ns = peer.expires_ns if first_ns is None else min(first_ns, peer.expires_ns)
        return first_ns

    def sent(self, peer_id: int, now_ns: int) -> int:
        """Record a request; returns its correlation id."""
        peer = self._peers.setdefault(peer_id, _Peer())
        self.correlation_id += 1
        peer.correlation_id = self.correlation_id
        peer.expires_ns = now_ns + self._request_timeout_ns
        return self.correlation_id

    def received(self, peer_id: int, correlation_id: int) -> bool:
        """Whether this response was expected; if so, the peer may be sent the next request."""
        peer = self._peers.get(peer_id)
        if peer is None or peer.correlation_id != correlation_id:
            return False
        peer.correlation_id = None
        peer.backoff_until_ns = 0
        return True

    def back_off(self, peer_id: int, now_ns: int) -> None:
        """The peer could not be reached, or its response was an error: wait before the next request."""
        self._peers.setdefault(peer_id, _Peer()).backoff_until_ns = now_ns + self._retry_backoff_ns

    def forget(self, peer_id: int) -> None:
        """A request has timed out: its response is no longer expected, and the next one may be sent."""
        self._peers.pop(peer_id, None)

    def reset(self) -> None:
        """Forget all requests: responses to them are no longer expected."""
        self._peers.clear()
