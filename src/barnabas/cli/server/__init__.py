"""Servers as processes: dev, server-start, server-stop, status."""
