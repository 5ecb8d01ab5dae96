"""Groups: classic ones, consumer groups of KIP-848, and the offsets that both commit."""
