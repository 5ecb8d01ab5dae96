"""The admin client: one file an area, put together in `admin`."""
