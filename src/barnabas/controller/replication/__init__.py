"""Leaders and replicas: elections, ISR changes, reassignments."""
