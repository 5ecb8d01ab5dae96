"""`barnabas doctor`."""
