"""Record batches: view, check, build, compress, decode to columns."""
