"""The log on disk: segments, indexes, producer state, epochs, recovery, retention, cleaning."""
