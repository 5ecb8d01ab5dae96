"""The test kit: brokers in this process, for tests of other people's code."""
