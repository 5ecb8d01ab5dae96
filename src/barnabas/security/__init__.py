"""Who may do what, and what proves who somebody is."""
