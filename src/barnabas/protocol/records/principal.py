"""The principal inside a forwarded request.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, string


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    """Type and name of a principal, and whether it authenticated with a token."""

    type: string
    name: string
    token_authenticated: bool
