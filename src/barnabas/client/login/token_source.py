"""Where a client's OAuth tokens come from: an issuer, a file, or (unsecured) itself.

The options are those of Apache Kafka: `sasl.oauthbearer.*`, and the options of the OAuthBearerLoginModule.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

from barnabas.client.errors.cluster import NetworkError, SaslAuthenticationFailedError
from barnabas.config.errors import ConfigError
from barnabas.config.node import oauth
from barnabas.config.settings import Settings
from barnabas.runtime.network.web_call import (
    DEFAULT_TIMEOUT_MS,
    Timeouts,
    WebCallError,
    java_property,
    web_call,
)
from barnabas.security.oauth.jwt import (
    MAX_TOKEN_CHARACTERS,
    OAuthToken,
    TokenError,
    encode_part,
    number_of,
    parse_jwt,
    parse_object,
    texts_of,
)

# Returns a token; it may block, and is called on a worker.
TokenSource = Callable[[], OAuthToken]
_UNSECURED = "unsecuredLogin"
_DEFAULT_LIFETIME_S = 3600
_MS = 1000


def read_source(
    settings: Settings, handler: str | None, module: Mapping[str, str], now_ms: Callable[[], int]
) -> TokenSource:
    """The source that a configuration describes; `module` has the options of the login module."""
    url = settings[oauth.TOKEN_URL]
    if handler == oauth.UNSECURED_LOGIN_HANDLER or (handler is None and url is None):
        return _unsecured(module, now_ms)
    if url is None:
        raise ConfigError(f"{oauth.TOKEN_URL} is missing: it says where tokens come from")
    claims = (
        str(settings["sasl.oauthbearer.sub.claim.name"]),
        str(settings["sasl.oauthbearer.scope.claim.name"]),
    )
    path = oauth.file_of(url, oauth.TOKEN_URL)
    if path is not None:
        return lambda: _from_file(Path(path), claims, now_ms)
    allowed = oauth.allowed_urls(settings, java_property)
    # A broker asks only what its owner has allowed; a program has chosen its URL itself.
    if allowed is not None or settings.scope == "broker":
        oauth.check_url(url, allowed, oauth.TOKEN_URL)
    return _issuer(settings, url, module, claims, now_ms)


def accept_token(text: str, claims: tuple[str, str], now_ms: int) -> OAuthToken:
    """Checks that a client's own token is one, and whose.  Its signature is the broker's matter."""
    subject_claim, scope_claim = claims
    try:
        given = parse_jwt(text).claims
        subject, expires_s = given.get(subject_claim), number_of(given, "exp")
        issued_s, scopes = number_of(given, "iat"), frozenset(texts_of(given, scope_claim))
    except TokenError as error:
        raise SaslAuthenticationFailedError(str(error)) from error
    if not isinstance(subject, str) or not subject or expires_s is None:
        raise SaslAuthenticationFailedError(f"the token has no claim {subject_claim} or exp")
    if expires_s * _MS <= now_ms:
        raise SaslAuthenticationFailedError("the token has expired")
    issued_ms = now_ms if issued_s is None else int(issued_s * _MS)
    return OAuthToken(text, subject, scopes, int(expires_s * _MS), issued_ms)


def _from_file(path: Path, claims: tuple[str, str], now_ms: Callable[[], int]) -> OAuthToken:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_TOKEN_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise SaslAuthenticationFailedError(f"the token's file {path} cannot be read") from error
    return accept_token(text.strip(), claims, now_ms())


def _issuer(
    settings: Settings,
    url: str,
    module: Mapping[str, str],
    claims: tuple[str, str],
    now_ms: Callable[[], int],
) -> TokenSource:
    """The client-credentials grant (RFC 6749, 4.4)."""
    secret = settings.get("sasl.oauthbearer.client.credentials.client.secret")
    client_id = settings.get("sasl.oauthbearer.client.credentials.client.id") or module.get("clientId")
    client_secret = module.get("clientSecret") if secret is None else secret.value
    scope = settings.get("sasl.oauthbearer.scope") or module.get("scope")
    if not client_id or not client_secret:
        raise ConfigError(
            "the id or the secret of this client is missing; set "
            "sasl.oauthbearer.client.credentials.client.id and "
            "sasl.oauthbearer.client.credentials.client.secret, "
            "or clientId and clientSecret in the login module"
        )
    if settings.get("sasl.oauthbearer.header.urlencode"):
        client_id, client_secret = quote_plus(client_id), quote_plus(client_secret)
    basic = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode("ascii")
    fields = {"grant_type": "client_credentials"} | ({"scope": str(scope).strip()} if scope else {})
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {basic}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    timeouts = read_timeouts(settings)
    trusted = read_trusted(module)

    def ask() -> OAuthToken:
        body = urlencode(fields).encode("ascii")
        try:
            data = web_call(url, body=body, headers=headers, timeouts=timeouts, trusted=trusted)
            answer = parse_object(data, "answer of the issuer")
        except WebCallError as error:
            if error.is_refusal:
                raise SaslAuthenticationFailedError(f"no token: {error}") from error
            raise NetworkError(f"no token: {error}") from error
        except TokenError as error:
            raise SaslAuthenticationFailedError(str(error)) from error
        text = answer.get("access_token") or answer.get("id_token")
        if not isinstance(text, str):
            raise SaslAuthenticationFailedError("the answer of the issuer has no access_token")
        return accept_token(text, claims, now_ms())

    return ask


def read_timeouts(settings: Settings) -> Timeouts:
    """`sasl.login.connect.timeout.ms` and `sasl.login.read.timeout.ms`."""
    names = ("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms")
    return Timeouts(*(int(settings[name] or DEFAULT_TIMEOUT_MS) for name in names))


def read_trusted(module: Mapping[str, str]) -> str | None:
    """The certificates of `ssl.truststore.location` in the login module, by which the issuer is known."""
    location = module.get("ssl.truststore.location")
    if location is None:
        return None
    # Clients whose issuer has a certificate of a public authority read no store.
    from barnabas.runtime.tls.stores import PEM, pem_certificates, store_certificates

    try:
        data = Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(f"ssl.truststore.location: {location} cannot be read: {error.strerror}") from error
    if module.get("ssl.truststore.type", "").upper() == PEM:
        return "".join(pem_certificates(data.decode("utf-8", "replace")))
    return "".join(store_certificates(data, module.get("ssl.truststore.password")))


def _unsecured(module: Mapping[str, str], now_ms: Callable[[], int]) -> TokenSource:
    """Tokens without a signature, made here from the options of the login module (KIP-255)."""
    subject_claim = module.get(f"{_UNSECURED}PrincipalClaimName") or "sub"
    scope_claim = module.get(f"{_UNSECURED}ScopeClaimName") or "scope"
    claims = _claims(module)
    if not isinstance(claims.get(subject_claim), str):
        raise ConfigError(
            f'the login module names nobody; set {_UNSECURED}StringClaim_{subject_claim}="USER" for tokens '
            f"without a signature, or {oauth.TOKEN_URL} for those of an issuer"
        )
    try:
        lifetime_s = float(module.get(f"{_UNSECURED}LifetimeSeconds") or _DEFAULT_LIFETIME_S)
    except ValueError as error:
        raise ConfigError(f"{_UNSECURED}LifetimeSeconds must be a number") from error
    header = encode_part(b'{"alg":"none"}')

    def make() -> OAuthToken:
        now = now_ms()
        times = {"iat": now / _MS, "exp": now / _MS + lifetime_s}
        text = f"{header}.{encode_part(json.dumps({**times, **claims}).encode())}."
        return accept_token(text, (subject_claim, scope_claim), now)

    return make


def _claims(module: Mapping[str, str]) -> dict[str, Any]:
    claims: dict[str, Any] = {}
    for name, value in module.items():
        kind, mark, claim = name.removeprefix(_UNSECURED).partition("Claim_")
        if not mark or not name.startswith(_UNSECURED):
            continue
        if kind == "String":
            claims[claim] = value
        elif kind == "Number":
            try:
                claims[claim] = float(value)
            except ValueError as error:
                raise ConfigError(f"{name} must be a number") from error
        elif kind == "List" and value:
            # The first character separates the others.
            claims[claim] = value[1:].split(value[0])
    return claims
