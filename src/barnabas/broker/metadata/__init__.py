"""The cluster as this broker sees it: its own lifecycle, what clients see of topics, auto-creation."""
