#!/usr/bin/python3
"""FAILOVER and PSYNC with FAILOVER, as far as a server alone or with its role only replies an error, compared with redis-server."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                       # noqa: E402
from support.dialog import DialogCase                                                               # noqa: E402

COMMANDS = """
    a FAILOVER
    a FAILOVER ABORT
    a FAILOVER FORCE
    a FAILOVER TO x
    a FAILOVER TO x y
    a FAILOVER TO x 1
    a FAILOVER TO x -1
    a FAILOVER TO x 99999999
    a FAILOVER TO x 99999999999999999999
    a FAILOVER TO x 1 TO x 1
    a FAILOVER TO x 1 FORCE
    a FAILOVER TO x 1 TIMEOUT 5 FORCE
    a FAILOVER TIMEOUT
    a FAILOVER TIMEOUT x
    a FAILOVER TIMEOUT 0
    a FAILOVER TIMEOUT -1
    a FAILOVER TIMEOUT 5 TIMEOUT 5
    a FAILOVER timeout 5 force
    a FAILOVER ABORT ABORT
    a FAILOVER ABORT TIMEOUT 5
    a FAILOVER TIMEOUT 5 ABORT
    a FAILOVER FORCE FORCE
    a FAILOVER x
    a EVAL "return redis.call('FAILOVER')" 0
    a MULTI
    a FAILOVER
    a FAILOVER ABORT
    a EXEC
"""


class FailoverTest(DialogCase):
    def test_errors_of_a_primary_without_replicas(self):
        self.dialog(COMMANDS)

    def test_errors_of_a_replica(self):
        self.dialog("a REPLICAOF 127.0.0.1 1" + COMMANDS + "    a REPLICAOF NO ONE\n")

    def test_a_primary_does_not_take_over(self):
        self.dialog("a PSYNC 0123456789012345678901234567890123456789 1 FAILOVER\n a PSYNC x y FAILOVER\n a PSYNC x 1 failover")

    def test_a_replica_of_another_history_does_not_take_over(self):
        self.dialog("""
            a REPLICAOF 127.0.0.1 1
            a PSYNC 0123456789012345678901234567890123456789 1 FAILOVER
            a PSYNC x 1 FAILOVER
            a ~ ROLE
            a SET k v
            a REPLICAOF NO ONE
        """)


if __name__ == "__main__":
    main()
