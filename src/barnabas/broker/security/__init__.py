"""Authorization of requests: the authorizers, and what is refused before they are asked."""
