"""The group and transaction coordinators as record machines: pure, and also run by the simulator."""
