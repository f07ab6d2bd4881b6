#!/usr/bin/python3
"""Commands of later versions on a Kelvin primary: a redis-server that does not know them follows without an error."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.resp import Error, split

FROM_KELVIN = ("kelvin-redis", "kelvin-kelvin")
LATER = """
    SET a one
    SET a two IFEQ one
    SET a three IFNE one EX 1000
    SET b 1
    DELEX b IFEQ 1
    DELEX a IFEQ no
    MSETEX 2 m1 x m2 y EX 1000
    MSETEX 2 m1 z m3 y NX
    SET bits1 abc
    SET bits2 abd
    BITOP DIFF diff bits1 bits2
    BITOP DIFF1 diff1 bits1 bits2
    BITOP ANDOR andor bits1 bits2
    BITOP ONE only bits1 bits2
    XADD x 1-1 f v
    XADD x 2-1 f v
    XADD x 3-1 f v
    XADD x 4-1 f v
    XGROUP CREATE x g 0
    XGROUP CREATE x h 0
    XREADGROUP GROUP g c COUNT 3 STREAMS x >
    XREADGROUP GROUP h c COUNT 3 STREAMS x >
    XACKDEL x g ACKED IDS 1 1-1
    XACKDEL x g DELREF IDS 1 2-1
    XDELEX x KEEPREF IDS 1 3-1
    XADD x DELREF MAXLEN 2 5-1 f v
    XTRIM x ACKED MAXLEN 1
    XREADGROUP GROUP g d CLAIM 0 STREAMS x >
    EVAL "redis.call('SET', 'a', 'four', 'IFEQ', 'three'); return redis.call('DELEX', 'a', 'IFEQ', 'no')" 0
    HSET plain f v
    HGETDEL plain FIELDS 1 f
    ZADD z 1 one
    ZRANK z one WITHSCORE
    CLIENT NO-TOUCH on
"""
FIELD_TIMES = """
    HSET h a 1 b 2 c 3 d 4
    HEXPIRE h 1000 FIELDS 2 a b
    HPEXPIRE h 2000000 NX FIELDS 1 c
    HPERSIST h FIELDS 1 b
    HSETEX h EX 500 FIELDS 2 e 5 f 6
    HGETEX h EX 600 FIELDS 1 d
    HSET h a 9
    HEXPIRE h 0 FIELDS 1 f
    HSETEX gone PX 20 FIELDS 1 only 1
"""


class LaterTest(ReplicationCase):
    def run_script(self, primary, script):
        with self.client(primary) as client:
            for line in script.strip().splitlines():
                reply = client.call(*split(line.strip()))
                self.assertNotIsInstance(reply, Error, line)

    def without_errors(self, primary, replica, least):
        self.same(primary, replica, least=least)
        self.assertEqual({name: value for name, value in replica.info().items() if name.startswith("errorstat_")}, {})
        self.assertNotIn(b"CRITICAL", replica.log())

    @only(*FROM_KELVIN)
    def scenario_commands_are_followed(self):
        primary, replica = self.pair()
        self.run_script(primary, LATER)
        self.without_errors(primary, replica, least=8)

    @only("kelvin-kelvin")
    def scenario_times_of_fields_are_followed(self):
        primary, replica = self.pair()
        self.run_script(primary, FIELD_TIMES)
        self.without_errors(primary, replica, least=1)
        # And in a full synchronization.
        other = self.start("replica")
        servers.make_replica(other, primary)
        self.same(primary, other)

    @only("kelvin-redis")
    def scenario_times_of_fields_do_not_reach_a_replica_that_does_not_know_them(self):
        """Refused, or hashes without times and HDELs later; never an error on the replica that goes unnoticed, and never a wrong value."""
        primary = self.start("primary")
        self.run_script(primary, FIELD_TIMES)
        replica = self.start("replica")
        servers.make_replica(replica, primary, wait=False)
        try:
            servers.wait_in_sync(primary, replica, timeout=8)
        except AssertionError:
            self.assertIn(b"hash", primary.log().lower())        # the reason is in the log
            return
        self.run_script(primary, "HSETEX h PX 50 FIELDS 1 short 1\nHEXPIRE h 3000 FIELDS 1 a\nHSET h last 1")
        servers.until(lambda: servers.values_of(primary, "HEXISTS h short")[0] == 0, 10, "the field expired")
        servers.wait_in_sync(primary, replica)
        found = [dict(zip(*[iter(servers.values_of(server, "HGETALL h")[0])] * 2)) for server in (primary, replica)]
        self.assertEqual(found[0], found[1])
        self.assertNotIn(b"CRITICAL", replica.log())


if __name__ == "__main__":
    main()
