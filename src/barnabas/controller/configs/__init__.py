"""Configs, quotas, features, and policies."""
