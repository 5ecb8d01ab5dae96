"""`barnabas acls`."""
