"""Assignors of classic groups: pure functions of subscriptions and partition counts."""
