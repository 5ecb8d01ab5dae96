"""The metrics of a broker, and the HTTP endpoint for Prometheus."""
