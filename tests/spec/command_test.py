"""COMMAND and its subcommands return the same as in Redis for commands that both have."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import commands                                                                        # noqa: E402
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
from support.resp import Error, Status                                                                 # noqa: E402
from support.server import is_redis                                                                 # noqa: E402

# Commands of Kelvin only.
OURS = {"tier", "clusterx"}
OUR_SUBCOMMANDS = {"client|tier-wait"}
# Those of 7.2 that 7.0, the oracle, does not have.
SINCE_7_2 = {"waitaof", "client|setinfo", "client|no-touch", "cluster|myshardid"}
# Of Redis 7.4 and 8.0; hash_expire_test.py has their rows.
FIELD_TIMES = {"hexpire", "hpexpire", "hexpireat", "hpexpireat", "httl", "hpttl", "hexpiretime", "hpexpiretime", "hpersist",
               "hgetex", "hsetex", "hgetdel"}

# Of Redis 8.2, 8.4 and 8.6; later_versions_test.py has their rows.
LATER = {"delex", "digest", "msetex", "xackdel", "xdelex", "hotkeys", "hotkeys|get", "hotkeys|help", "hotkeys|reset", "hotkeys|start",
         "hotkeys|stop"}
# Atomic migration: the first three as Valkey 9 has them.
MIGRATION = {"cluster|migrateslots", "cluster|getslotmigrations", "cluster|cancelslotmigrations", "cluster|migration", "cluster|receiveslots"}
# Arguments of versions after 7.2, and what is before them.
ARGUMENT_LATER = re.compile(r"( |\||^)([\w-]+:)?(\[[^]]*\]|[A-Z0-9]+( [\w-]+:\w+)?)@(7\.4|8\.\d)\.0")

# ... and those that accept more arguments since then.
ARGUMENTS_SINCE_7_2 = {b"zrank", b"zrevrank"}

# What redis-server 7.2.6 replies, without its texts; made by support/commands.py.
FACTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "commands-7.2.txt")


class CommandTest(PairCase):
    def names(self):
        ours = {name.decode() for name in self.c.must("COMMAND", "LIST")}
        theirs = {name.decode() for name in self.r.must("COMMAND", "LIST")}
        extra = {name for name in ours - theirs if name.split("|")[0] not in OURS} - SINCE_7_2 - FIELD_TIMES - LATER - MIGRATION - OUR_SUBCOMMANDS
        self.assertEqual(sorted(extra), [], "commands that Redis does not have")
        self.assertEqual(theirs - ours, set(), "commands that are missing")
        return sorted(ours & theirs)

    def test_count_and_list(self):
        plain = [name for name in self.c.must("COMMAND", "LIST") if b"|" not in name]
        self.assertEqual(self.c.must("COMMAND", "COUNT"), len(plain))
        self.assertEqual(self.c.must("COMMAND", "COUNT"), len(self.c.must("COMMAND")))
        self.assertEqual(sorted(self.c.must("COMMAND", "LIST", "FILTERBY", "PATTERN", "get*")),
                         [name for name in sorted(self.c.must("COMMAND", "LIST")) if name.startswith(b"get")])
        shared = {name.encode() for name in self.names()}
        for category in self.r.must("ACL", "CAT") + [b"nosuch"]:
            ours, theirs = (set(client.must("COMMAND", "LIST", "FILTERBY", "ACLCAT", category)) for client in (self.c, self.r))
            self.assertEqual(ours & shared, theirs & shared, category)
        self.both("COMMAND COUNT x\nCOMMAND LIST foo\nCOMMAND LIST FILTERBY foo bar\nCOMMAND LIST FILTERBY MODULE nosuch")

    @kelvin_only
    def test_info_and_docs_are_those_of_7_2(self):
        """All but the texts."""
        with open(FACTS) as file:
            facts = {line.split(" ")[0]: line.rstrip("\n") for line in file}
        ours = commands.lines(self.c)
        self.assertEqual({name for name in set(ours) - set(facts) if name.split("|")[0] not in OURS}, FIELD_TIMES | LATER | MIGRATION | OUR_SUBCOMMANDS)
        for name, fact in facts.items():
            with self.subTest(name):
                line = ARGUMENT_LATER.sub("", ours[name])
                self.assertEqual(line, fact)

    @kelvin_only
    def test_info_and_docs_of_containers_have_the_subcommands(self):
        ours = commands.lines(self.c)
        for info in self.c.must("COMMAND"):
            docs = commands.listed(commands.listed(self.c.must("COMMAND", "DOCS", info[0]))[info[0]])
            self.assertEqual({sub[0].decode() for sub in info[9]}, {name for name in ours if name.startswith(info[0].decode() + "|")})
            for sub in info[9]:
                self.assertEqual(commands.line(sub, commands.listed(docs[b"subcommands"])[sub[0]]), ours[sub[0].decode()])

    def test_info_of_unknown_commands(self):
        self.both([["COMMAND", "INFO", "nosuch"], ["COMMAND", "INFO", "nosuch", "alsonot"]])
        reply = self.c.must("COMMAND", "INFO", "GET", "nosuch", "config|get")
        other = self.r.must("COMMAND", "INFO", "GET", "nosuch", "config|get")
        self.assertEqual(reply[1], other[1])
        self.assertEqual((reply[0][0], reply[2][0]), (other[0][0], other[2][0]))

    def test_every_command_has_docs(self):
        names = self.names()
        ours, theirs = commands.listed(self.c.must("COMMAND", "DOCS", *names)), commands.listed(self.r.must("COMMAND", "DOCS", *names))
        self.assertEqual(set(ours), set(theirs))
        problems = []
        for name, docs in theirs.items():
            mine, other = commands.listed(ours[name]), commands.listed(docs)
            for field in (b"summary", b"complexity", b"replaced_by"):
                if bool(mine.get(field)) < bool(other.get(field)):
                    problems.append((name, field, None))
        self.assertEqual(problems, [])
        self.assertEqual(self.c.must("COMMAND", "DOCS", "nosuch"), [])

    @kelvin_only
    def test_what_is_not_here(self):
        """As redis-server without a cluster and without modules."""
        error = Error(b"ERR This instance has cluster support disabled")
        for line in ("CLUSTER INFO", "CLUSTER HELP", "CLUSTER SLOTS", "CLUSTER KEYSLOT k", "READONLY", "READWRITE", "ASKING"):
            self.assertEqual(self.c.call(*line.split()), error, line)
        self.assertEqual(self.c.call("MODULE", "LIST"), [])
        self.assertTrue(self.c.call("MODULE", "LOAD", "x").startswith(b"ERR MODULE command not allowed."))
        self.both("CLUSTER\nCLUSTER NODES x\nASKING x\nRESTORE-ASKING k 0 x\nRESTORE-ASKING k 0\nMULTI\nREADONLY\nCLUSTER INFO\nEXEC")
        payload = self.c.must("DUMP", self.c.must("SET", "k", "v") and "k")
        self.assertEqual(self.c.must("RESTORE-ASKING", "other", 0, payload), Status(b"OK"))
        self.assertEqual(self.c.must("GET", "other"), b"v")

    def test_the_types_of_replies_are_those_of_redis(self):
        """Sets, maps and arrays, which differ in RESP3."""
        self.both("COMMAND INFO nosuch\nCOMMAND DOCS nosuch\nCOMMAND LIST FILTERBY ACLCAT nosuch\nCOMMAND GETKEYSANDFLAGS SET k v",
                  self.clients(protocol=3))
        ours, theirs = (client.must("COMMAND", "INFO", "mset", "client", "client|id", "nosuch") for client in self.clients(protocol=3))
        self.assertEqual((ours[0], ours[2], ours[3]), (theirs[0], theirs[2], theirs[3]))
        self.assertEqual([type(each) for each in ours[1]], [type(each) for each in theirs[1]])
        ours, theirs = (client.must("COMMAND", "DOCS", "lcs") for client in self.clients(protocol=3))
        self.assertIs(type(ours), type(theirs))

    def test_getkeys_of_a_command_without_arguments(self):
        """As in 7.2."""
        for how in ("GETKEYS", "GETKEYSANDFLAGS"):
            if not is_redis():
                self.assertEqual(self.c.call("COMMAND", how, "PING"), Error(b"ERR The command has no key arguments"))
                self.assertEqual(self.c.call("COMMAND", how, "GET"), Error(b"ERR Invalid number of arguments specified for command"))
            self.both([["COMMAND", how]])

    def test_getkeys(self):
        """Of every command, with arguments that are valid for some commands and invalid for most."""
        vectors = [["k%d" % index for index in range(count)] for count in range(8)]
        vectors += [["2"] * count for count in range(1, 8)] + [["0"] * count for count in range(1, 5)] + [line.split() for line in """
            k 2 a b c
            2 a b LEFT
            0 2 a b LEFT
            k 3 a b
            k abc a b
            -1 a b
            1000000 a b
            STREAMS a b 0 0
            COUNT 1 STREAMS a 0
            GROUP g c STREAMS a b > >
            GROUP g STREAMS STREAMS a >
            STREAMS a b c
            k BY w STORE d
            k STORE d STORE e
            k GET STORE STORE e
            k LIMIT 1 STORE
            k 1 2 3 m STORE a
            k 1 2 3 m STOREDIST
            k m 3 km x STOREDIST b
            k v GET
            k v XX EX 10
            k GET u8 0
            k GET u8 0 INCRBY u8 0 1
            k OVERFLOW FAIL
            USAGE k
            AND d a
        """.splitlines() if line.strip()]

        def shape(reply):
            return reply if isinstance(reply, Error) else sorted(
                repr((each[0], sorted(map(bytes, each[1])))) if isinstance(each, list) else repr(each) for each in reply)
        cases = [["COMMAND", how, *name.split("|"), *words] for name in self.names() for words in vectors
                 for how in ("GETKEYS", "GETKEYSANDFLAGS") if name.encode() not in ARGUMENTS_SINCE_7_2 and (name != "pfmerge" or len(words) > 1)]
        cases = [case for case in cases if len(case) > 3]       # see the test before this one
        found = ["%s\n    %r\n    %r" % (" ".join(case), ours, theirs)
                 for case, ours, theirs in zip(cases, self.c.pipeline(cases), self.r.pipeline(cases)) if shape(ours) != shape(theirs)]
        self.assertEqual(found, [], "%d of %d" % (len(found), len(cases)))
        self.both("COMMAND GETKEYS\nCOMMAND GETKEYSANDFLAGS\nCOMMAND GETKEYS NOSUCH x\nCOMMAND GETKEYS COMMAND GETKEYS GET x")

    def test_arity_is_enforced(self):
        """Every command with a fixed arity refuses one argument more and one less."""
        for info in self.c.must("COMMAND"):
            name, arity = info[0].decode(), info[1]
            if name in ("quit", "shutdown", "monitor", "sync", "psync", "subscribe", "psubscribe", "ssubscribe", "replicaof",
                        "slaveof", "failover", "exec", "debug") or info[9]:
                continue
            counts = ([arity - 1, arity + 1] if arity > 0 else [-arity - 1])
            for count in counts:
                if count < 1:
                    continue
                reply = self.c.call(name, *["1"] * (count - 1))
                self.assertIsInstance(reply, Error, (name, count))
                self.assertTrue(reply.startswith(b"ERR wrong number of arguments for '%s' command" % name.encode()), reply)

    def test_write_commands_are_marked(self):
        flags = {info[0].decode(): {bytes(flag) for flag in info[2]} for info in self.c.must("COMMAND")}
        for name in ("set", "append", "hset", "del", "expire", "rename", "flushall", "setbit"):
            if name in flags:
                self.assertIn(b"write", flags[name], name)
        for name in ("get", "hget", "ttl", "exists", "scan", "bitcount"):
            if name in flags:
                self.assertIn(b"readonly", flags[name], name)

    def test_help_texts(self):
        for name in ("COMMAND", "CONFIG", "CLIENT", "OBJECT", "MEMORY", "SLOWLOG", "LATENCY", "DEBUG") + (
                () if is_redis() else ("TIER",)):
            reply = self.c.must(name, "HELP")
            self.assertIsInstance(reply, list)
            self.assertIn(name.encode(), reply[0].upper())
            self.assertTrue(any(bytes(line) == b"HELP" for line in reply), name)
            self.assertGreater(len(reply), 3)


if __name__ == "__main__":
    main()
