"""What consumer-groups does: describing, resetting, deleting."""
