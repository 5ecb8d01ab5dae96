"""Authorization of requests: the authorizers, and checks that precede them."""
