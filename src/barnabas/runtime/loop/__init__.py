"""The reactor and what runs on it: timers, workers, promises, the executor of effects."""
