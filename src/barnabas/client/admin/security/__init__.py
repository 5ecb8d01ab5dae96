"""The admin client's calls about ACLs, quotas, SCRAM credentials and delegation tokens."""
