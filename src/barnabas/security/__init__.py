"""Authorization: ACLs and how they are evaluated."""
