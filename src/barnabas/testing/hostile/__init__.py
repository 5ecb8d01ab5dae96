"""Hostile input: mutated frames and requests that try to exhaust a broker."""
