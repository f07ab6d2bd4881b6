"""Helpers of the tests of replication; tests/README.md has a line for each module."""
