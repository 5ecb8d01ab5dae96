"""The coordinators of groups and of transactions, as record machines: pure, and the same in the simulator."""
