"""The public keys of an issuer (JWKS, RFC 7517), and signatures by them (RFC 7518).

Keys are of RSA, elliptic curves or Ed25519.  Shared secrets are never taken: whoever can check a token with
one could also make tokens, and a public key taken for a secret is an old way to forge them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from barnabas.security.oauth.jwt import Jwt, TokenError, decode_part, parse_object

MAX_KEYS = 100
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192
# Other exponents are not in use, and long ones make a check slow.
_MAX_EXPONENT = 1 << 32
# Keys of a token without a key id that are tried.
_MAX_TRIES = 10

_HASHES: Mapping[str, Callable[[], hashes.HashAlgorithm]] = {
    "256": hashes.SHA256,
    "384": hashes.SHA384,
    "512": hashes.SHA512,
}
_CURVES: Mapping[str, Callable[[], ec.EllipticCurve]] = {
    "P-256": ec.SECP256R1,
    "P-384": ec.SECP384R1,
    "P-521": ec.SECP521R1,
}
_CURVE_OF = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
ALGORITHMS = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | Ed25519PublicKey


class SigningKey(NamedTuple):
    """One key of an issuer."""

    key_id: str | None
    # The only algorithm that it is for; None: any that fits it.
    algorithm: str | None
    public: PublicKey


def read_keys(data: bytes) -> tuple[SigningKey, ...]:
    """The keys of a JWKS document that can check signatures; TokenError if it is none, or has none."""
    entries = parse_object(data, "JWKS document").get("keys")
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise TokenError(f"the JWKS document has no list of at most {MAX_KEYS} keys")
    keys = tuple(key for each in entries if isinstance(each, dict) and (key := _key(each)) is not None)
    if not keys:
        raise TokenError("the JWKS document has no key that can check signatures")
    return keys


def _key(entry: Mapping[str, Any]) -> SigningKey | None:
    """None for a key of another kind or use, which is none of our business."""
    if entry.get("use", "sig") != "sig":
        return None
    try:
        public = _public(entry)
    except (TokenError, ValueError):
        return None
    if public is None:
        return None
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    return SigningKey(
        key_id if isinstance(key_id, str) else None, algorithm if isinstance(algorithm, str) else None, public
    )


def _public(entry: Mapping[str, Any]) -> PublicKey | None:
    def number(name: str) -> int:
        return int.from_bytes(decode_part(str(entry.get(name, "")), name), "big")

    kind = entry.get("kty")
    if kind == "RSA":
        modulus, exponent = number("n"), number("e")
        if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS or exponent > _MAX_EXPONENT:
            return None
        return rsa.RSAPublicNumbers(exponent, modulus).public_key()
    curve = str(entry.get("crv"))
    if kind == "EC" and curve in _CURVES:
        return ec.EllipticCurvePublicNumbers(number("x"), number("y"), _CURVES[curve]()).public_key()
    if kind == "OKP" and curve == "Ed25519":
        return Ed25519PublicKey.from_public_bytes(decode_part(str(entry.get("x", "")), "x"))
    return None


class UnknownKeyError(TokenError):
    """No key of the issuer is the one that the token names: it may have new ones."""


def check_signature(token: Jwt, keys: tuple[SigningKey, ...]) -> None:
    """Raises TokenError unless one of the keys has signed this token."""
    algorithm = token.algorithm
    if algorithm not in ALGORITHMS:
        raise TokenError("the token is not signed by an algorithm that is accepted")
    key_id = token.header.get("kid")
    fitting = [
        key
        for key in keys
        if (key_id is None or key.key_id == key_id)
        and key.algorithm in (None, algorithm)
        and _fits(key.public, algorithm)
    ]
    if not fitting:
        raise UnknownKeyError("the issuer has no such key")
    if not any(_is_signed(token, key.public, algorithm) for key in fitting[:_MAX_TRIES]):
        raise TokenError("the token's signature is wrong")


def _fits(key: PublicKey, algorithm: str) -> bool:
    if algorithm == "EdDSA":
        return isinstance(key, Ed25519PublicKey)
    if algorithm.startswith("ES"):
        return isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == _CURVE_OF[algorithm]
    return isinstance(key, rsa.RSAPublicKey)


def _is_signed(token: Jwt, key: PublicKey, algorithm: str) -> bool:
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(token.signature, token.signed)
        else:
            digest = _HASHES[algorithm[2:]]()
            if isinstance(key, rsa.RSAPublicKey):
                key.verify(token.signature, token.signed, _padding(algorithm, digest), digest)
            else:
                key.verify(_der(token.signature, key), token.signed, ec.ECDSA(digest))
    except InvalidSignature:
        return False
    return True


def _padding(algorithm: str, digest: hashes.HashAlgorithm) -> padding.AsymmetricPadding:
    if algorithm.startswith("PS"):
        return padding.PSS(padding.MGF1(digest), digest.digest_size)
    return padding.PKCS1v15()


def _der(signature: bytes, key: ec.EllipticCurvePublicKey) -> bytes:
    """RFC 7518, 3.4: two numbers of the curve's length, one after the other."""
    size = (key.curve.key_size + 7) // 8
    if len(signature) != 2 * size:
        raise InvalidSignature
    return utils.encode_dss_signature(
        int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
    )
