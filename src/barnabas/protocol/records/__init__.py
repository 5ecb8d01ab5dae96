"""Internal records, one file a kind; `barnabas.protocol.record_frame` finds them by key."""
