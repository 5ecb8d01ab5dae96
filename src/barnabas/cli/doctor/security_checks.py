"""The doctor's look at the security of a node's configuration: certificates, names, mechanisms and logins."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.doctor.findings import Finding, State

if TYPE_CHECKING:
    from barnabas.config.node.listeners import Endpoint
    from barnabas.config.node.node import Node
    from barnabas.security.certificates import Certificate

SECONDS_PER_DAY = 24 * 3600
# Renewing takes a while: a certificate that ends sooner is a hint.
SOON_S = 30 * SECONDS_PER_DAY
ANY_HOST = ("", "0.0.0.0", "::")  # a listener's own address  # nosec B104
PLAIN, SCRAM = "PLAIN", "SCRAM-"


def examine_config(path: str, now_s: int) -> Iterator[Finding]:
    """Checks what a node of this file would show to others, and who could log in."""
    from barnabas.config.errors import ConfigError
    from barnabas.config.node.node import read_node
    from barnabas.config.values.properties import loads

    try:
        node = read_node(loads(Path(path).read_bytes()))
    except (OSError, ConfigError) as error:
        yield Finding("configuration", State.BROKEN, " ".join(str(error).split()), f"correct {path}")
        return
    yield Finding("configuration", State.OK, path)
    for endpoint in node.listeners.listeners:
        if endpoint.security_protocol.endswith("SSL"):
            yield _check_certificate(node, endpoint, now_s)
        if endpoint.security_protocol.startswith("SASL"):
            yield _check_mechanisms(node, endpoint)


def _check_certificate(node: Node, endpoint: Endpoint, now_s: int) -> Finding:
    from barnabas.config.errors import ConfigError
    from barnabas.runtime.tls.context import server_context
    from barnabas.runtime.tls.options import read_tls_options
    from barnabas.security.certificates import read_pem_certificate

    name = f"certificate of {endpoint.listener_name}"
    try:
        options = read_tls_options(node.settings, endpoint.listener_name)
        server_context(options)
        assert options.key is not None, "a context needs one"
        certificate = read_pem_certificate(options.key.chain[0])
    except (ConfigError, ValueError) as error:
        return Finding(name, State.BROKEN, " ".join(str(error).split()), "correct the ssl.* options")
    return _check_time(name, certificate, now_s) or _check_names(name, certificate, node, endpoint)


def _check_time(name: str, certificate: Certificate, now_s: int) -> Finding | None:
    days = (certificate.not_after_s - now_s) // SECONDS_PER_DAY
    if now_s > certificate.not_after_s:
        return Finding(name, State.BROKEN, f"{certificate.subject} has expired, {-days} days ago", "renew it")
    if now_s < certificate.not_before_s:
        found = f"{certificate.subject} is not valid yet"
        return Finding(name, State.BROKEN, found, "check the clock of this machine")
    if now_s > certificate.not_after_s - SOON_S:
        return Finding(name, State.HINT, f"{certificate.subject} expires in {days} days", "renew it")
    return None


def _check_names(name: str, certificate: Certificate, node: Node, endpoint: Endpoint) -> Finding:
    advertised = {each.listener_name: each for each in node.listeners.advertised}
    host = advertised.get(endpoint.listener_name, endpoint).host or ""
    shown = ", ".join(certificate.names) or "no names"
    if host in ANY_HOST:
        advice = (
            "set advertised.listeners to what clients call this node, and see that the certificate has it"
        )
        return Finding(name, State.HINT, f"{certificate.subject}: {shown}", advice)
    if not any(_covers(pattern, host) for pattern in certificate.names):
        found = f"{certificate.subject} is for {shown}, and not for {host}"
        advice = f"clients refuse it: issue one with {host} among its subject alternative names"
        return Finding(name, State.BROKEN, found, advice)
    return Finding(name, State.OK, f"{certificate.subject}: {shown}")


def _covers(pattern: str, host: str) -> bool:
    """Whether a name of a certificate is that of the host; `*` stands for its first part (RFC 6125)."""
    try:
        return ipaddress.ip_address(pattern) == ipaddress.ip_address(host)
    except ValueError:
        pass
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.partition(".")[2] == pattern[2:]
    return pattern == host


def _check_mechanisms(node: Node, endpoint: Endpoint) -> Finding:
    from barnabas.config.errors import ConfigError
    from barnabas.config.node.sasl_listeners import jaas_name, jaas_of, mechanisms_of

    listener = endpoint.listener_name
    name = f"logins of {listener}"
    try:
        mechanisms = tuple(mechanisms_of(node.settings, listener))
    except ConfigError as error:
        return Finding(name, State.BROKEN, " ".join(str(error).split()), "correct sasl.enabled.mechanisms")
    found = ", ".join(mechanisms)
    for mechanism in mechanisms:
        jaas = jaas_of(node.settings, listener, mechanism)
        if mechanism == PLAIN and "user_" not in str(jaas or ""):
            advice = f'add user_NAME="password" to {jaas_name(listener, PLAIN)}'
            return Finding(name, State.BROKEN, f"{found}: nobody can log in by PLAIN", advice)
        if jaas is None and not mechanism.startswith(SCRAM):
            advice = f"set {jaas_name(listener, mechanism)}"
            return Finding(name, State.BROKEN, f"{found}: {mechanism} has no login module", advice)
    if endpoint.security_protocol == "SASL_PLAINTEXT" and PLAIN in mechanisms:
        advice = "use SASL_SSL, or SCRAM where the network is trusted"
        return Finding(
            name, State.HINT, f"{found}: passwords of PLAIN go over the network as they are", advice
        )
    return Finding(name, State.OK, found)
