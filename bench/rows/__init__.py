"""One file per row or group of rows."""
