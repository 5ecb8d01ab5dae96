"""The simulated twin of a ZooKeeper ensemble: servers that lag, sessions, watches, lost answers."""
