"""Applications in a seeded virtual world: their processes, the client, brokers, and faults of all of them."""
