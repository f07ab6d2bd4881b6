#!/usr/bin/python3
"""What a replica, and a primary with too few replicas, refuses, compared with redis-server: the primary that both follow does not answer."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                       # noqa: E402
from support.dialog import DialogCase                                                               # noqa: E402

NOWHERE = "REPLICAOF 127.0.0.1 1"

# Each is refused or not by the role alone.
WRITES = """
    a SET s 1
    a GETEX s
    a SORT l
    a FLUSHALL
    a COPY s t
    a SWAPDB 0 1
    a BLPOP l 1
    a XREADGROUP GROUP g c STREAMS x >
    a FUNCTION FLUSH
    a RESTORE q 0 x
    a PFADD h 2
"""
READS = """
    a GET s
    a PFCOUNT h
    a SORT_RO l
    a XREAD BLOCK 1 STREAMS x $
    a KEYS *
    a DBSIZE
    a TYPE s
    a TTL s
    a MEMORY USAGE nothing
    a FUNCTION LIST
    a SCRIPT EXISTS x
"""
OTHERS = """
    a PING
    a PUBLISH c x
    a SPUBLISH c x
    a SELECT 0
    a ECHO x
    a WATCH s
    a UNWATCH
    a MULTI
    a DISCARD
    a SUBSCRIBE c
    a UNSUBSCRIBE c
    a CONFIG GET replicaof
    a CONFIG GET slaveof
    a ~ ROLE
    a LASTSAVE
    a SLOWLOG LEN
    a COMMAND COUNT x
    a ACL WHOAMI
    a REPLCONF x y
    a WAIT 0 0
    a HELLO 2 x
"""
TRANSACTIONS = """
    a MULTI
    a SET s 1
    a GET s
    a EXEC
    a MULTI
    a GET s
    a EXEC
    a MULTI
    a PUBLISH c x
    a EXEC
"""
SCRIPTS = [
    "return redis.call('get', 's')",
    "return redis.call('set', 's', 1)",
    "return redis.pcall('set', 's', 1)",
    "return redis.call('publish', 'c', 'x')",
    "return 1",
    "#!lua\nreturn redis.call('get', 's')",
    "#!lua flags=no-writes\nreturn redis.call('get', 's')",
    "#!lua flags=no-writes,allow-stale\nreturn redis.call('get', 's')",
    "#!lua flags=no-writes,allow-stale\nreturn redis.call('echo', 'x')",
    "#!lua flags=allow-stale\nreturn redis.call('set', 's', 1)",
    "#!lua flags=no-writes,allow-stale\nreturn 1",
]
RUNS = [["a", "EVAL", script, "0"] for script in SCRIPTS] + [["a", "EVAL_RO", script, "0"] for script in SCRIPTS]


class ReplicaCase(DialogCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.make_primaries)
        self.dialog("""
            a SET s 1
            a RPUSH l 1
            a PFADD h 1
            a XADD x 1-1 f v
            a XGROUP CREATE x g 0
        """)

    def make_primaries(self):
        self.dialog("""
            z CONFIG SET min-replicas-to-write 0 min-replicas-max-lag 10 replica-serve-stale-data yes replica-read-only yes
            z REPLICAOF NO ONE
        """)

    def scripts(self, runs):
        self.dialog([args[:1] + args[1:] for args in runs])


class RefusalTest(ReplicaCase):
    def test_a_replica_without_a_link_serves_stale_data(self):
        self.dialog("a %s" % NOWHERE)
        for script in (WRITES, READS, OTHERS, TRANSACTIONS):
            self.dialog(script)
        self.scripts(RUNS)

    def test_a_replica_that_must_not_serve_stale_data(self):
        self.dialog("a %s\n a CONFIG SET replica-serve-stale-data no" % NOWHERE)
        for script in (WRITES, READS, OTHERS, TRANSACTIONS):
            self.dialog(script)
        self.scripts(RUNS)

    def test_a_writable_replica(self):
        self.dialog("a %s\n a CONFIG SET replica-read-only no" % NOWHERE)
        self.dialog("""
            a SET s 2
            a GET s
            a SET e 1 PX 1
            a @sleep 20
            a GET e
            a APPEND e x
            a TTL e
            a WAIT 0 0
        """)
        self.scripts(RUNS[:3])

    def test_too_few_replicas(self):
        self.dialog("a CONFIG SET min-replicas-to-write 1")
        for script in (WRITES, READS, OTHERS, TRANSACTIONS):
            self.dialog(script)
        self.scripts(RUNS)
        self.dialog("""
            a CONFIG SET min-replicas-max-lag 0
            a SET s 1
        """)

    def test_a_transaction_that_was_queued_before(self):
        self.dialog("""
            a MULTI
            a SET s 2
            b MULTI
            b GET s
            c %s
            a EXEC
            a EXEC
            b EXEC
            b MULTI
            b GET s
            c CONFIG SET replica-serve-stale-data no
            b EXEC
            a GET s
        """ % NOWHERE)

    def test_expired_keys_read_as_absent_and_stay(self):
        self.dialog("""
            a SET e 1 PX 300
            a HSET eh f v
            a PEXPIRE eh 300
            a %s
            a @sleep 400
            a GET e
            a EXISTS e eh s
            a TTL e
            a TYPE e
            a OBJECT ENCODING e
            a STRLEN e
            a HGETALL eh
            a HLEN eh
            a DBSIZE
            a DUMP e
            a SORT_RO l BY e GET e
            a EVAL return{redis.call('get','e'),redis.call('exists','eh')} 0
            a SCAN 0 MATCH e*
            a KEYS e*
            a REPLICAOF NO ONE
            a GET e
            a EXISTS eh
            a DBSIZE
        """ % NOWHERE)


class RoleTest(ReplicaCase):
    def test_clients_that_wait_are_closed(self):
        self.dialog("""
            b ! BLPOP none 0
            c ! XREAD BLOCK 0 STREAMS none $
            d ! BZPOPMIN none 0
            a @waiting 3
            a %s
            b @receive
            b @closed
            c @receive
            c @closed
            d @receive
            d @closed
        """ % NOWHERE)

    def test_replicaof_itself(self):
        # ROLE says `connect` between two attempts, and `connecting` in one.
        self.dialog("""
            a REPLICAOF NO ONE
            a %s
            a %s
            a ~ ROLE
            a REPLICAOF 127.0.0.1 2
            a CONFIG GET replicaof
            a REPLICAOF 127.0.0.1 70000
            a REPLICAOF 127.0.0.1 x
            a REPLICAOF 127.0.0.1
            a SLAVEOF NO ONE
            a CONFIG GET replicaof
            a HELLO 3
        """ % (NOWHERE, NOWHERE))


if __name__ == "__main__":
    main()
