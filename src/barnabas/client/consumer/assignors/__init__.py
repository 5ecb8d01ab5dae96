"""Who in a classic group reads which partition: pure functions of subscriptions and partition counts."""
