"""The transaction coordinator: the state of transactional ids and their transactions."""
