"""TLS handshakes with changed bytes, without a network: the server refuses them, and nothing else happens."""

from __future__ import annotations

import ssl

from barnabas.runtime.random import Random, SeededRandom
from barnabas.runtime.tls.context import Tls
from barnabas.testing.hostile.mutated_frames import mutated

# Flights of a handshake; TLS 1.3 has three, TLS 1.2 four.
MAX_FLIGHTS = 10
HOST = "localhost"


def play_handshake(server: Tls, client: Tls, seed: int) -> str:
    """One handshake in which a client's flight may be changed: `done`, `refused` or `open`.

    Any other exception than OpenSSL's own refusal is a fault.
    """
    random = SeededRandom(seed)
    changed_flight = random.integer(0, 2)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = server.wrap(to_server, to_client, HOST)
    client_in, client_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap(client_in, client_out, HOST)
    for flight in range(MAX_FLIGHTS):
        if not _step(client_side):
            return "refused"
        sent = client_out.read()
        if flight == changed_flight and sent:
            sent = _changed(sent, random)
        to_server.write(sent)
        try:
            server_side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            return "refused"
        else:
            return "done"
        client_in.write(to_client.read())
    return "open"


def _changed(data: bytes, random: Random) -> bytes:
    way = random.integer(0, 3)
    if way == 0:
        return data[: random.integer(0, len(data))]
    if way == 1:
        return random.bytes(random.integer(1, 300))
    return bytes(mutated(data, random))


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return True
    except ssl.SSLError:
        return False
    return True
