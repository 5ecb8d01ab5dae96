"""Transactions: what a transactional id's producer may do, decided and kept by its coordinator."""
