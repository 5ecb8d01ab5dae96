"""The admin client's calls about groups."""
