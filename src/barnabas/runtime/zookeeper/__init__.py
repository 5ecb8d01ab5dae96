"""Access to a ZooKeeper ensemble: the interface, and the client that kazoo provides."""
