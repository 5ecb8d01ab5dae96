"""What a node does in each role: voting, leading, serving fetches, following, changing the voters."""
