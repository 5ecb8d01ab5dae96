"""Fetching: sessions, completed fetches, and their delivery to the user."""
