"""What a broker counts, and the HTTP page on which Prometheus reads it."""
