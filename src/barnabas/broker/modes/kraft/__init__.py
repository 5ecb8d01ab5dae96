"""KRaft mode: the metadata log on disk, its quorum, the controller and its snapshots."""
