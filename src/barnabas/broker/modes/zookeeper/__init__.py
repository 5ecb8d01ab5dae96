"""ZooKeeper mode: the metadata of a cluster lives in the znodes of a ZooKeeper ensemble."""
