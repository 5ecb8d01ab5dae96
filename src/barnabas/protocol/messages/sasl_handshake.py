"""SaslHandshake (api key 17).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, string


class SaslHandshakeRequest(Message, key=17, versions=(0, 1)):
    """The SASL mechanism the client has chosen."""

    mechanism: string


class SaslHandshakeResponse(Message, key=17, versions=(0, 1)):
    """The mechanisms that the server supports."""

    error_code: int16
    mechanisms: list[string]
