"""What members subscribe to, by name and by pattern, and the target assignment that follows."""
