"""An issuer of OAuth tokens on this machine: its keys, its tokens, and the client-credentials grant over HTTP."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from barnabas.security.oauth.jwt import encode_part

# Long enough for tests that are collected long before they run.
LIFETIME_S = 24 * 3600
CLIENT, SECRET = "service", "service-secret"


def number_part(number: int) -> str:
    return encode_part(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def token_of(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [encode_part(json.dumps(each).encode()) for each in (header, claims)]
    return ".".join([*parts, encode_part(signature)])


def now_s() -> int:
    return int(time.time())


def usual_claims(user: str | None, **claims: Any) -> dict[str, Any]:
    now = now_s()
    usual = {
        "sub": user,
        "iat": now - 60,
        "exp": now + LIFETIME_S,
        "iss": "https://issuer.example",
        "aud": "kafka",
    }
    return {name: value for name, value in (usual | claims).items() if value is not None}


def unsigned(user: str, **claims: Any) -> str:
    return token_of({"alg": "none"}, usual_claims(user, **claims))


class Issuer:
    """Two keys, one of RSA and one of an elliptic curve."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.curve = ec.generate_private_key(ec.SECP256R1())
        self.asked: list[dict[str, list[str]]] = []
        self.prefix = "key"

    def keys(self) -> dict[str, Any]:
        numbers, point = self.rsa.public_key().public_numbers(), self.curve.public_key().public_numbers()
        return {
            "keys": [
                {
                    "kty": "RSA",
                    "kid": f"{self.prefix}-rsa",
                    "use": "sig",
                    "alg": "RS256",
                    "n": number_part(numbers.n),
                    "e": number_part(numbers.e),
                },
                {
                    "kty": "EC",
                    "kid": f"{self.prefix}-curve",
                    "crv": "P-256",
                    "x": encode_part(point.x.to_bytes(32, "big")),
                    "y": encode_part(point.y.to_bytes(32, "big")),
                },
            ]
        }

    def token(self, user: str, **claims: Any) -> str:
        """Signed by the key of RSA."""
        header = {"alg": "RS256", "kid": f"{self.prefix}-rsa"}
        bare = token_of(header, usual_claims(user, **claims)).removesuffix(".")
        return f"{bare}.{encode_part(self.rsa.sign(bare.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def curve_token(self, user: str, **claims: Any) -> str:
        header = {"alg": "ES256", "kid": f"{self.prefix}-curve"}
        bare = token_of(header, usual_claims(user, **claims)).removesuffix(".")
        der = self.curve.sign(bare.encode(), ec.ECDSA(hashes.SHA256()))
        one, other = utils.decode_dss_signature(der)
        return f"{bare}.{encode_part(one.to_bytes(32, 'big') + other.to_bytes(32, 'big'))}"

    def answer(self, authorization: str, form: dict[str, list[str]]) -> dict[str, Any] | None:
        """To a request for a token; None if the client is not known."""
        self.asked.append(form)
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {expected}" or form.get("grant_type") != ["client_credentials"]:
            return None
        return {"access_token": self.token(CLIENT), "token_type": "Bearer", "expires_in": 600}


@contextmanager
def serving(issuer: Issuer) -> Iterator[str]:
    """The address of the issuer while it answers: /keys and /token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200 if self.path == "/keys" else 404, issuer.keys())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = issuer.answer(self.headers.get("Authorization", ""), parse_qs(body.decode()))
            self._send(401 if answer is None else 200, answer or {"error": "invalid_client"})

        def _send(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
