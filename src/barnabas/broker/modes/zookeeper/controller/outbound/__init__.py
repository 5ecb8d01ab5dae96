"""What the controller tells the brokers: LeaderAndIsr, UpdateMetadata, StopReplica."""
