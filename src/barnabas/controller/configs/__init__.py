"""Options, quotas, features, and the policies that restrict them."""
