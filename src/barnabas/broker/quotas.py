"""How much a client may ask of a broker: the question of dispatch, and the answer where no quota is set.

What lives here: the seam.  What may not: measuring rates; quotas that do take this one's place.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.broker.requests import Call


class Quotas(Protocol):
    """What dispatch asks for every request."""

    def charge(self, call: Call, request_bytes: int) -> int:
        """Count a request; for how many milliseconds this client is to be silent.

        The answer goes out at once and names the time, and for so long nothing more is read (KIP-219).
        """
        ...


class Unlimited:
    """No quotas: nobody has to wait."""

    def charge(self, call: Call, request_bytes: int) -> int:
        return 0
