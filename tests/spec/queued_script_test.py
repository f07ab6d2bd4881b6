"""Scripts and functions in transactions: what they say of themselves ("#!lua flags=...") decides whether they are queued and whether EXEC runs, as in Redis."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                          # noqa: E402
from support.server import REDIS, Server                                                               # noqa: E402

LIBRARY = ("#!lua name=l\nredis.register_function('f', function() return 1 end)\n"
           "redis.register_function{function_name='reads', callback=function() return 2 end, flags={'no-writes'}}")
SAID = {"": None, "writes": "", "no-writes": "no-writes", "allow-oom": "allow-oom", "allow-stale": "allow-stale", "both": "no-writes,allow-stale", "wrong": "nosuch"}
COMMANDS = [("EVAL", "return redis.call('SET', 'x', 1)", 0), ("EVAL", "#!lua flags=no-writes,allow-stale\nreturn redis.call('SET', 'x', 1)", 0),
            ("EVAL_RO", "#!lua\nreturn 1", 0), ("EVAL_RO", "return 1", 0), ("EVALSHA", "?", 0), ("EVALSHA", "0" * 40, 0),
            ("FCALL", "f", 0), ("FCALL", "reads", 0), ("FCALL_RO", "f", 0), ("FCALL", "nosuch", 0), ("SET", "x", 1), ("GET", "x")]
COMMANDS += [("EVAL", ("" if said is None else "#!lua flags=%s\n" % said) + "return 1", 0) for said in SAID.values()]
STATES = {
    "none": [],
    "replica": ["REPLICAOF 127.0.0.1 1"],
    "stale": ["CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1"],
    "few replicas": ["CONFIG SET min-replicas-to-write 1"],
    "no memory": ["CONFIG SET maxmemory 1"],
}
AFTERWARDS = ["REPLICAOF NO ONE", "CONFIG SET min-replicas-to-write 0 maxmemory 0 replica-serve-stale-data yes"]


class QueuedScriptTest(unittest.TestCase):
    """In each state, for each command: alone; in a transaction that is queued before the state; in one that is queued in it; in one that has failed."""

    @classmethod
    def setUpClass(cls):
        cls.servers = [Server({"tier-enabled": "no"}), Server(binary=REDIS)]

    @classmethod
    def tearDownClass(cls):
        cls.servers[0].stop()
        cls.servers[1].discard()

    def replies(self, server, state, words, begins):
        def enter():
            for line in STATES[state]:
                admin.must(*line.split())

        with server.client() as client, server.client() as admin:
            admin.must("FUNCTION", "LOAD", "REPLACE", LIBRARY)
            words = [admin.must("SCRIPT", "LOAD", "#!lua\nreturn 5") if word == "?" else word for word in words]
            replies = []
            if begins in ("before", "and fails"):
                replies = [client.call("MULTI"), client.call(*words)]
            if begins == "and fails":
                replies.append(client.call("GET"))
            enter()
            if begins == "in it":
                replies = [client.call("MULTI"), client.call(*words)]
            replies.append(client.call(*words) if begins == "alone" else client.call("EXEC"))
            for line in AFTERWARDS:
                admin.must(*line.split())
        return replies

    def test_what_is_refused(self):
        for state in STATES:
            for begins in ("alone", "before", "in it", "and fails"):
                for words in COMMANDS:
                    with self.subTest(state=state, begins=begins, command=words):
                        ours, theirs = (self.replies(server, state, words, begins) for server in self.servers)
                        self.assertEqual(ours, theirs)


if __name__ == "__main__":
    main()
