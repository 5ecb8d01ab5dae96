"""TLS: certificate stores, contexts, and the wire that encrypts a connection on the reactor."""
