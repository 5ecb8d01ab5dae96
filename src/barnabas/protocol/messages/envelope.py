"""Envelope (api key 58).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16


class EnvelopeRequest(Message, key=58, versions=(0, 0), flexible=0):
    """A client's request, forwarded by a broker with the client's principal."""

    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes


class EnvelopeResponse(Message, key=58, versions=(0, 0), flexible=0):
    """The controller's response, to be returned to the client."""

    response_data: bytes | None = field(default=None)
    error_code: int16
