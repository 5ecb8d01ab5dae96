"""Server processes: dev, server-start, server-stop, status."""
