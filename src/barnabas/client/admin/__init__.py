"""The admin client: one module per area, combined in `admin`."""
