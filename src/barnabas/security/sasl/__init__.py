"""SASL: the exchanges of a server, without IO."""
