"""How one node is protected: TLS and logins of its listeners and towards other nodes; delegation tokens."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.security.delegation_tokens import BrokerTokens
from barnabas.broker.security.peer_setup import PeerServices, towards_brokers, towards_controllers
from barnabas.broker.security.sasl_setup import ListenerSasl, LoginServices
from barnabas.broker.security.tls_setup import ListenerTls, NodeTls, listeners_with_tls
from barnabas.config.node.node import Node
from barnabas.config.node.sasl_listeners import mechanisms_of, sasl_listeners
from barnabas.metadata.image import Image
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.random import Random


class NodeSecurity:
    """Built once, from the configuration of the node; certificates are replaced while it runs."""

    def __init__(
        self, node: Node, image: Callable[[], Image], *, random: Random, clock: Clock, workers: WorkerPool
    ) -> None:
        self._settings = node.settings
        self.tokens = BrokerTokens(node.settings, random, clock, workers)
        peers = PeerServices(random, clock, workers)
        self.towards_brokers = towards_brokers(node, peers)
        self.towards_controllers = towards_controllers(node, peers)
        listeners = node.listeners
        self._tls = listeners_with_tls(node.settings, listeners.listeners, clock)
        contexts = [(listeners.inter_broker_name, self.towards_brokers.tls)]
        contexts += [(name, self.towards_controllers.tls) for name in listeners.controller_names[:1]]
        self.tls = NodeTls(self._tls, contexts)
        self._services = LoginServices(
            lambda mechanism, user: image().scram.get((mechanism, user)),
            random,
            clock,
            workers,
            self.tokens.credential,
        )
        names = sasl_listeners(listeners)
        mechanisms = [mechanisms_of(node.settings, name) for name in sorted(names)]
        self.tokens.serve(frozenset(name for names in mechanisms for name in names))
        self._with_sasl = names

    def tls_of(self, listener: str) -> ListenerTls | None:
        return self._tls.get(listener)

    def sasl_of(self, listener: str) -> ListenerSasl | None:
        if listener not in self._with_sasl:
            return None
        return ListenerSasl(self._settings, listener, self._services)
