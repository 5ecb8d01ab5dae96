"""The controller of a cluster on ZooKeeper: its election, its store of znodes, its watches and requests."""
