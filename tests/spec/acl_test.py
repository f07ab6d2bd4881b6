"""ACL: users, rules, checks and the log, compared with redis-server; the file and the configuration.

The oracle, 7.0, prints the rules of commands in a shorter form of its own, does not print sanitize-payload if it was not given, and says
"This user" where 7.2 has the name: `canonical` and `texts` allow for that.
"""
import os
import random
import re
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.generate import Generator                                                              # noqa: E402
from support.resp import Closed, Error, encode                                                              # noqa: E402
from support.server import REDIS, Server, StartFailed, is_redis, scaled, until                      # noqa: E402

HASH = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"       # of "password"
CATEGORIES = ("keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow blocking dangerous "
              "connection transaction scripting").split()


def canonical(reply):
    """A denial as 7.2 says it, without the user's name."""
    text = bytes(reply) if isinstance(reply, bytes) else reply
    if not isinstance(text, bytes):
        return text
    text = re.sub(rb"^(NOPERM )?(User \S+|\S+ user) has no permissions to ", rb"\1A user has no permissions to ", text)
    return re.sub(rb"^NOPERM A user has no permissions to access (one of the keys|one of the channels) used as arguments",
                  lambda match: b"NOPERM No permissions to access a " + (b"key" if b"keys" in match.group(1) else b"channel"), text)


def settings(client, user):
    """GETUSER as a dict, without the commands' text and what 7.0 does not print."""
    reply = client.must("ACL", "GETUSER", user)
    fields = dict(zip(reply[::2], reply[1::2]))
    fields[b"flags"] = sorted(set(map(bytes, fields[b"flags"])) - {b"sanitize-payload"})
    fields[b"selectors"] = [dict(zip(item[::2], item[1::2])) for item in fields[b"selectors"]]
    for selector in [fields] + fields[b"selectors"]:
        selector.pop(b"commands")
        selector[b"keys"] = selector[b"keys"].replace(b"%RW~*", b"~*")      # Redis refuses to load its own text if anything follows
    return fields


class Rules:
    """Random rules, most of them right."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def command(self):
        names = ("get set mget mset del config config|get config|set client client|kill client|id select acl acl|whoami acl|setuser object "
                 "object|encoding sort eval xadd xgroup|create subscribe publish").split()
        return self.random.choice(names + ["@" + name for name in CATEGORIES] + ["@all"])

    def key(self):
        return self.random.choice(("*", "a*", "b:*", "c", "[ab]?", "x\\*y", "s*", "z*", "h1"))

    def rule(self, inner=False):
        pick = self.random.random()
        if pick < 0.5:
            return self.random.choice("+-") + self.command()
        if pick < 0.56:
            return "+%s|%s" % self.random.choice((("select", "0"), ("select", "1"), ("get", "a"), ("set", "Key"), ("debug", "sleep")))
        if pick < 0.72:
            return self.random.choice(("~", "%R~", "%W~", "%RW~", "%r~")) + self.key()
        if pick < 0.80:
            return "&" + self.key()
        if pick < 0.86:
            return self.random.choice(("allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands", "ALLKEYS"))
        if pick < 0.88:
            return self.random.choice(("foo", "+nosuch", "-@nosuch", "%~x", "%Q~a", "~a b", "#12", "!" + "a" * 64, "+config|nosuch", "<nosuch", "(+get",
                                       "-select|0", "+config|get|x", "+select|"))
        if inner:
            return "+ping"
        if pick < 0.94:
            return self.random.choice(("on", "off", "nopass", "resetpass", "reset", ">one", ">two", "<one", "#" + HASH, "!" + HASH,
                                       "clearselectors", "skip-sanitize-payload", "sanitize-payload"))
        return "(%s)" % " ".join(self.rule(inner=True) for _ in range(self.random.randrange(4)) if True).replace("(", "")

    def words(self):
        return [self.rule() for _ in range(self.random.randrange(1, 6))]


class RuleTest(PairCase):
    def texts(self, user):
        """Both users have the same settings, and Kelvin's text makes the oracle's user."""
        self.assertEqual(settings(self.c, user), settings(self.r, user))
        line = next(line for line in self.c.must("ACL", "LIST") if line.startswith(b"user %s " % user.encode()))
        self.r.must("ACL", "SETUSER", "copy", "reset", *line.split(b" ")[2:])
        ours, copy = (next(line for line in self.r.must("ACL", "LIST") if line.startswith(b"user %s " % name)) for name in (user.encode(), b"copy"))
        strip = lambda text: [word.lower() if b"|" in word else word for word in text.split(b" ")[2:] if word != b"sanitize-payload"]
        self.assertEqual(strip(ours), strip(copy), line)
        return line

    def test_long_random_sequences_of_rules(self):
        for seed in range(scaled(40)):
            rules = Rules(seed)
            with self.subTest(seed=seed):
                self.both([["ACL", "SETUSER", "u", "reset", "clearselectors"]])
                for _ in range(25):
                    self.both([["ACL", "SETUSER", "u"] + rules.words()])
                line = self.texts("u")
                if is_redis():
                    continue        # its text of commands is in no order
                self.c.must("ACL", "SETUSER", "again", "reset", *line.split(b" ")[2:])
                again = next(line for line in self.c.must("ACL", "LIST") if line.startswith(b"user again "))
                self.assertEqual(again.split(b" ")[2:], line.split(b" ")[2:])
        self.both("ACL DELUSER u")
        self.c.must("ACL", "DELUSER", "again")
        self.r.must("ACL", "DELUSER", "copy")

    def test_the_text_of_7_2(self):
        """The rules of commands keep their order; a rule replaces those that it covers."""
        for words, text in (("+get +@read -@write", "-@all +get +@read -@write"), ("+@read -@read", "-@all -@read"), ("+@all -get +get", "+@all +get"),
                            ("+acl|save +acl|load +acl", "-@all +acl"), ("+config -config|get +config|get", "-@all +config +config|get"),
                            ("+SELECT|0 +get|A", "-@all +select|0 +get|a"), ("+select|0 +select|1 -select", "-@all -select"),
                            ("+get +set -@all +ping", "-@all +ping")):
            if is_redis():
                break
            self.c.must("ACL", "SETUSER", "t", "reset", *words.split())
            self.assertEqual(self.c.must("ACL", "GETUSER", "t")[5], text.encode())
        self.c.must("ACL", "SETUSER", "t", "reset", "on", ">password", "~a", "%R~b", "%W~c", "&d", "+get", "(~x +set)", "( &y  -@all )")
        if not is_redis():
            self.assertEqual(self.c.must("ACL", "LIST")[-1], b"user t on sanitize-payload #%s ~a %%R~b %%W~c resetchannels &d -@all +get "
                             b"(~x resetchannels -@all +set) (resetchannels &y -@all)" % HASH.encode())

    def test_getuser_in_both_protocols(self):
        for protocol in (2, 3):
            pair = self.clients(protocol=protocol)
            self.both([["ACL", "SETUSER", "g", "reset", "on", "nopass", "skip-sanitize-payload", "~a", "%R~b", "&x", "+get", "(+set %W~w &*)", "(~* -@all)"],
                       ["ACL", "GETUSER", "g"], ["ACL", "GETUSER", "nosuch"], ["ACL", "USERS"], ["ACL", "WHOAMI"], ["ACL", "LIST"]][:3], pair)
        self.both("ACL DELUSER g t nosuch\nACL DELUSER g")

    def test_errors(self):
        self.both([["ACL"], ["ACL", "foo"], ["ACL", "SETUSER"], ["ACL", "SETUSER", "a b"], ["ACL", "SETUSER", "a\0b"], ["ACL", "SETUSER", "a\nb"],
                   ["ACL", "DELUSER"], ["ACL", "DELUSER", "default"], ["ACL", "DELUSER", "nosuch", "default"], ["ACL", "GETUSER"], ["ACL", "CAT", "foo"],
                   ["ACL", "CAT", "a", "b"], ["ACL", "GENPASS", "0"], ["ACL", "GENPASS", "-1"], ["ACL", "GENPASS", "4097"], ["ACL", "GENPASS", "x"],
                   ["ACL", "GENPASS", "1", "2"], ["ACL", "LOG", "x"], ["ACL", "LOG", "RESET", "x"], ["ACL", "LOAD"], ["ACL", "SAVE"], ["ACL", "WHOAMI", "x"],
                   ["ACL", "DRYRUN", "nosuch", "get", "x"], ["ACL", "DRYRUN", "default", "nosuch"], ["ACL", "DRYRUN", "default", "get"],
                   ["ACL", "DRYRUN", "default", "config"], ["ACL", "DRYRUN", "default", "config", "foo"], ["ACL", "DRYRUN", "default", "config", "get"],
                   ["ACL", "DRYRUN", "default"], ["ACL", "DRYRUN", "default", "eval", "x", "abc"], ["ACL", "DRYRUN", "default", "eval", "x", "-1"]])
        for word in ("(+get", "(+get)x", "((+get))", "(on)", "(reset)", "(>a)", "(nopass)", "()", "( )", ")", "x)", "+get)", " ", "", "+", "-", "+@", "-@",
                     "+|", "+|get", "+get||a", "+get|a|b", "-@all ", "%", "%RW", "%R", "%RWR~x", "~", "&", ">", "<", "#", "!", "#" + "A" * 64):
            self.both([["ACL", "SETUSER", "e", "reset", word], ["ACL", "SETUSER", "e", "reset", "on", word, "+nosuch"], ["ACL", "DELUSER", "e"]])
        self.both([["ACL", "SETUSER", "e", "~*", "~a"], ["ACL", "SETUSER", "e", "~*", "~*"], ["ACL", "SETUSER", "e", "&*", "&a"], ["ACL", "SETUSER", "e", "&*", "&*"],
                   ["ACL", "SETUSER", "e", "allkeys", "%R~a"], ["ACL", "SETUSER", "e", "(", "+get", ")"], ["ACL", "SETUSER", "e", "(+get", "~a)", "(", "x"],
                   ["ACL", "DELUSER", "e"]])

    def test_a_refused_change_changes_nothing(self):
        self.both([["ACL", "SETUSER", "n", "reset", "on", "+get", "~a"], ["ACL", "SETUSER", "n", "off", "+set", "~b", "+nosuch"]])
        self.texts("n")
        self.both([["ACL", "SETUSER", "fresh", "on", "nosuch"], ["ACL", "GETUSER", "fresh"], ["ACL", "DELUSER", "n"]])
        self.both([["ACL", "SETUSER", "n", "no\0such"], ["ACL", "SETUSER", "n", "\0"]])          # shown up to the NUL

    def test_genpass(self):
        self.assertEqual(len(self.c.must("ACL", "GENPASS")), 64)
        for bits, digits in ((1, 1), (4, 1), (5, 2), (256, 64), (4096, 1024)):
            self.assertRegex(self.c.must("ACL", "GENPASS", bits), b"^[0-9a-f]{%d}$" % digits)
        self.assertNotEqual(self.c.must("ACL", "GENPASS"), self.c.must("ACL", "GENPASS"))

    def test_cat(self):
        self.assertEqual(sorted(self.c.must("ACL", "CAT")), sorted(self.r.must("ACL", "CAT")))
        ours, theirs = (set(client.must("COMMAND", "LIST")) for client in (self.c, self.r))
        for category in CATEGORIES:
            mine, other = (set(client.must("ACL", "CAT", category.upper())) for client in (self.c, self.r))
            self.assertEqual(mine & ours & theirs, other & ours & theirs, category)
            self.assertLessEqual(mine, ours)


class CheckTest(PairCase):
    """ACL DRYRUN of all rows, with users that the rules limit in different ways."""

    USERS = [["+@" + name, "~*", "&*"] for name in CATEGORIES] + [["+@all", "-@" + name, "~*", "&*"] for name in CATEGORIES] + [
        ["+@all", "~s*", "~z1"], ["+@all", "%R~*"], ["+@all", "%W~*"], ["+@all", "%R~s*", "%W~z*", "%RW~x*"], ["+@all", "%R~*", "%W~s*"],
        ["+@all", "%R~s*", "%W~s*", "%R~[hlt]?", "~l1"], ["+@all", "~*", "&s*", "&[ht]*", "&z\\*"], ["+@all"], ["~*", "&*"],
        ["+@read", "%R~s*", "(+@write %W~z*)", "(+@all ~x1 ~x2 &s*)"], ["(+get ~s1)", "(+set ~s*)", "(+@stream ~x*)", "(+subscribe &s*)", "(+psubscribe &s*)"],
        ["+select|0", "+select|1", "+config|get", "+client", "-client|kill", "+xgroup|create", "~x*", "+object|encoding"],
        ["-@all", "+config", "-config|set", "+acl|whoami", "+eval", "~s*"]]

    def setUp(self):
        super().setUp()
        for index, words in enumerate(self.USERS):
            self.both([["ACL", "SETUSER", "u%d" % index, "reset", "on"] + words])

    def check(self, args, users=None):
        if args == [b"pfmerge", b"s1"]:
            return              # 7.0 takes a PFMERGE without sources for one without keys, and allows it
        for user in users or range(len(self.USERS)):
            ours, theirs = (client.call("ACL", "DRYRUN", "u%d" % user, *args) for client in (self.c, self.r))
            if canonical(ours) != canonical(theirs):
                self.fail("DRYRUN of %r as %r\n    ours   %r\n    redis  %r" % (args, self.USERS[user], ours, theirs))

    def rows(self):
        ours, theirs = (set(client.must("COMMAND", "LIST")) for client in (self.c, self.r))
        return sorted(ours & theirs)

    def test_all_rows(self):
        for name in self.rows():
            info = self.r.must("COMMAND", "INFO", name)[0]
            words = name.split(b"|")
            for extra in range(3 if info[1] < 0 else 1):
                args = words + [b"s1", b"z1", b"x1", b"y", b"1"][:1] * max(0, abs(info[1]) + extra - len(words))
                self.check(args)

    def test_random_arguments(self):
        """Keys and what is done to them depend on the arguments."""
        generator = Generator(7, {name.decode() for name in self.rows()})
        pick = random.Random(7)
        for _ in range(scaled(3000)):
            args = generator.command()
            if args[0].startswith(b"@sort"):
                args = args[1:]
            if args[0].startswith(b"@") or any(b"\0" in arg for arg in args):      # a key with a NUL ends there in Redis' text
                continue
            self.check(args, pick.sample(range(len(self.USERS)), 4))

    def test_flags_that_depend_on_arguments(self):
        for line in ("set s1 v", "set s1 v get", "set z1 v get", "set z1 v nx get", "set z1 v keepttl", "set z1 v ex 10 GET", "bitfield z1 get u8 0", "bitfield z1 set u8 0 1",
                     "bitfield s1 incrby u8 0 1 get u8 0", "sort s1", "sort s1 store z1", "sort s1 by nosort get # store s2", "sort s1 by w_* get o_*", "sort_ro s1 by w_*",
                     "georadius s1 1 1 1 m store z1", "georadius s1 1 1 1 m storedist s2", "georadius s1 1 1 1 m", "copy s1 z1", "rename s1 z1", "smove s1 z1 m", "lmove s1 z1 left left",
                     "eval x 1 s1", "eval x 2 s1 h1", "eval_ro x 1 s1", "evalsha x 1 z1", "fcall f 1 s1", "fcall_ro f 1 z1", "eval x 0 s1",
                     "xread streams s1 x1 0 0", "xreadgroup group g c streams x1 0", "zunionstore z1 2 s1 s2", "zinter 2 s1 z1", "getex s1 ex 1", "getdel z1", "restore z1 0 x",
                     "migrate h 1 s1 0 1", "object encoding s1", "object help", "memory usage s1", "debug object s1", "exists h1", "touch h1 s1", "type h1", "ttl h1", "del h1", "unlink s1 h1",
                     "pfcount s1 h1", "pfmerge z1 s1", "blpop s1 h1 0", "blmpop 0 2 s1 z1 left", "lcs s1 s2", "mget s1 h1 z1", "mset z1 v s1 v", "watch h1", "dump s1", "expire s1 1"):
            if self.c.must("COMMAND", "INFO", line.split()[0]) != [None]:
                self.check(line.split())

    def test_channels(self):
        for line in ("subscribe s1", "subscribe s1 q", "ssubscribe s1 h1", "psubscribe s*", "psubscribe s1", "psubscribe *", "psubscribe z\\*", "publish s1 m", "publish q m",
                     "spublish s1 m", "spublish q s1", "unsubscribe q", "punsubscribe q", "sunsubscribe q", "pubsub channels q", "pubsub numsub q"):
            self.check(line.split())


class SessionTest(PairCase):
    """What a client with limits gets."""

    def pair(self, *rules):
        self.both([["ACL", "SETUSER", "s", "reset", "on", ">p"] + list(rules)])
        pair = self.clients()
        self.both("AUTH s p\nACL WHOAMI" if "+acl|whoami" in rules else "AUTH s p", pair)
        return pair

    def same(self, pair, script):
        for line in script.strip().split("\n"):
            ours, theirs = (client.call(*line.split()) for client in pair)
            self.assertEqual(canonical(ours), canonical(theirs), line)

    def test_denied(self):
        pair = self.pair("+get", "+mget", "%R~a*", "+acl|whoami", "+config|get", "+subscribe", "+publish", "&n*", "+multi", "+exec", "(+set ~b*)")
        self.same(pair, """GET a
            GET b
            MGET a1 a2 b1
            SET b 1
            SET a 1
            set b 1 get
            config get maxmemory
            config set maxmemory 0
            acl whoami
            acl users
            flushall
            nosuch
            get
            PUBLISH n1 x
            PUBLISH m x
            PING
            MULTI
            SET a 1
            GET a
            EXEC
            MULTI
            GET a
            SET b 1
            EXEC
            SUBSCRIBE n1 m1
            SUBSCRIBE n1""")

    def test_scripts(self):
        pair = self.pair("+eval", "+get", "~a*", "+acl|whoami")
        for client in pair:
            self.assertIn(b"NOPERM", client.call("EVAL", "return redis.pcall('SET', 'a', '1').err", "0") + b"NOPERM")
        for script in ("return redis.call('GET', 'a1')", "return redis.call('GET', 'b')", "return redis.call('SET', 'a', 'x')",
                       "return redis.acl_check_cmd('get', 'a')", "return redis.acl_check_cmd('get', 'b')", "return redis.acl_check_cmd('set', 'a', '1')"):
            ours, theirs = (client.call("EVAL", script, "0") for client in pair)
            self.assertEqual(isinstance(ours, Error), isinstance(theirs, Error), script)
            if not isinstance(ours, Error):
                self.assertEqual(ours, theirs)

    def test_sort_with_patterns(self):
        self.both("RPUSH al 1 2")
        for rules in (["+sort", "+sort_ro", "~a*"], ["+sort", "+sort_ro", "%R~*", "%W~a"], ["+sort", "+sort_ro", "~*"], ["+sort", "+sort_ro", "%W~*", "%R~a*"],
                      ["+sort", "~a*", "(+sort_ro %R~*)"]):
            pair = self.pair(*rules)
            self.same(pair, """SORT al BY w_*
                SORT al BY nosort
                SORT al GET #
                SORT al GET o_*
                SORT_RO al BY w_* GET #
                SORT al BY w_* STORE a
                SORT al STORE b
                SORT al STORE a""")

    def test_log(self):
        self.both("ACL LOG RESET")
        pair = self.pair("+get", "~a*", "+eval", "+multi", "+exec", "+publish", "&n")
        for client in pair:
            for line in ("GET b", "GET b", "SET a 1", "set a 1", "config set maxmemory 0", "PUBLISH q x", "EVAL return(redis.call('get','q')) 0", "MULTI", "SET a 1",
                         "EXEC", "auth s wrong", "AUTH nosuch wrong", "HELLO 3 AUTH nosuch wrong"):
                client.call(*line.split())
        logs = [client.must("ACL", "LOG", "100") for client in (self.c, self.r)]
        entries = [[dict(zip(entry[::2], entry[1::2])) for entry in log] for log in logs]
        for name in (b"count", b"reason", b"context", b"object", b"username"):
            self.assertEqual([entry[name] for entry in entries[0]], [entry[name] for entry in entries[1]], name)
        commands = [[re.search(rb" cmd=(\S+)", entry[b"client-info"])[1] for entry in log] for log in entries]
        self.assertEqual(commands[0], commands[1])
        if not is_redis():
            newest = entries[0][0]
            self.assertEqual([bytes(name) for name in logs[0][0][::2]], b"count reason context object username age-seconds client-info entry-id timestamp-created "
                             b"timestamp-last-updated".split())
            self.assertIn(b"user=s ", newest[b"client-info"])
            self.assertEqual([entry[b"entry-id"] for entry in entries[0]], sorted((entry[b"entry-id"] for entry in entries[0]), reverse=True))
            self.assertLessEqual(newest[b"timestamp-created"], newest[b"timestamp-last-updated"])
            self.assertLess(float(newest[b"age-seconds"]), 60)
        self.assertEqual(len(self.c.must("ACL", "LOG")), min(10, len(entries[0])))
        self.both("ACL LOG 0\nACL LOG -1\nCONFIG SET acllog-max-len 2")
        self.assertEqual(len(self.c.must("ACL", "LOG", 1)), 1)
        for client in pair:
            client.call("DEL", "x")
        self.assertEqual([len(client.must("ACL", "LOG")) for client in (self.c, self.r)], [2, 2])
        self.both("ACL LOG reset\nACL LOG\nCONFIG SET acllog-max-len 128")

    def test_an_old_entry_counts_again(self):
        pair = self.pair("+get", "~a")
        self.both("ACL LOG RESET")
        for key in ("b", "c", "b", "d", "b"):
            for client in pair:
                client.call("GET", key)
        for client in (self.c, self.r):
            log = [dict(zip(entry[::2], entry[1::2])) for entry in client.must("ACL", "LOG")]
            self.assertEqual([(entry[b"object"], entry[b"count"]) for entry in log], [(b"b", 3), (b"d", 1), (b"c", 1)])

    def test_auth(self):
        self.both([["ACL", "SETUSER", "s", "reset", "on", ">p", ">second", "+@all", "~*"], ["ACL", "SETUSER", "off", "reset", "off", ">p"],
                   ["ACL", "SETUSER", "free", "reset", "on", "nopass", "+@all"], ["ACL", "SETUSER", "none", "reset", "on", "+@all"]])
        pair = self.clients()
        self.both("""AUTH s wrong
            ACL WHOAMI
            AUTH s p
            ACL WHOAMI
            AUTH s second
            AUTH off p
            ACL WHOAMI
            AUTH free anything
            ACL WHOAMI
            AUTH none ""
            AUTH nosuch p
            AUTH p
            AUTH a b c
            HELLO 2 AUTH s wrong
            HELLO 2 AUTH s
            CLIENT KILL USER nosuch""", pair)
        for client in pair:
            self.assertNotIsInstance(client.call("HELLO", "2", "AUTH", "s", "p"), Error)
        self.both("ACL WHOAMI\nRESET\nACL WHOAMI", pair)

    def test_a_disabled_user_keeps_its_connections(self):
        pair = self.pair("+@all", "~*", "+acl|whoami")
        self.both("ACL SETUSER s off")
        self.same(pair, "GET a\nACL WHOAMI\nAUTH s p")

    def test_client_list_and_kill(self):
        pair = self.pair("+@all")
        for client, limited in zip((self.c, self.r), pair):
            self.assertIn(b" user=s ", limited.must("CLIENT", "INFO"))
            self.assertIn(b" user=s ", client.must("CLIENT", "LIST"))
            self.assertIn(b" user=default ", client.must("CLIENT", "INFO"))
            self.assertEqual(client.must("CLIENT", "KILL", "USER", "s"), 1)
            with self.assertRaises((Closed, OSError)):
                limited.call("PING")

    def test_a_removed_user_is_disconnected(self):
        pair = self.pair("+@all")
        self.both("ACL DELUSER s nosuch")
        for limited in pair:
            with self.assertRaises((Closed, OSError)):
                limited.call("PING")


class PasswordTest(PairCase):
    options = {"requirepass": "secret"}

    def setUp(self):
        self.options = dict(self.options)
        for name in ("server", "oracle"):
            client = getattr(self, name).client()
            self.addCleanup(client.close)
            setattr(self, "c" if name == "server" else "r", client)

    def test_requirepass_is_the_password_of_default(self):
        self.both("""PING
            GET a
            ACL WHOAMI
            AUTH wrong
            AUTH default wrong
            HELLO 3
            AUTH secret
            ACL WHOAMI
            AUTH default secret
            CONFIG GET requirepass
            ACL SETUSER default >other
            CONFIG GET requirepass""")
        pair = self.clients()
        self.both("AUTH other\nCONFIG SET requirepass third\nACL WHOAMI", pair)
        pair = self.clients()
        self.both("GET a\nAUTH other\nAUTH secret\nAUTH third\nPING\nCONFIG SET requirepass ''\nRESET\nPING\nAUTH x", pair)
        pair = self.clients()
        self.both("PING\nCONFIG SET requirepass secret", pair)
        for client in pair:
            self.assertEqual(dict(zip(*[iter(client.must("ACL", "GETUSER", "default"))] * 2))[b"passwords"],
                             [b"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"])


@kelvin_only
class AclFileTest(ServerCase):
    """aclfile, ACL LOAD and SAVE. The errors are those of Redis, as observed."""

    WARNING = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"

    def setUp(self):
        self.server = Server({"aclfile": "users.acl"}, start=False)
        self.addCleanup(self.server.stop)
        self.write("user default on nopass ~* &* +@all\nuser alice on >p ~a* +get\n")
        self.server.start()
        self.path = os.path.join(self.server.folder, "users.acl")
        self.c = self.server.client()
        self.addCleanup(self.c.close)

    @classmethod
    def setUpClass(cls):
        pass

    def write(self, text):
        with open(os.path.join(self.server.folder, "users.acl"), "w") as file:
            file.write(text)

    def load(self, text):
        self.write(text)
        return self.c.call("ACL", "LOAD")

    def test_save_and_load(self):
        self.assertEqual(self.c.must("ACL", "USERS"), [b"alice", b"default"])
        self.c.must("ACL", "SETUSER", "bob", "on", "#" + HASH, "%R~b*", "&n", "+@read", "(~tmp:* +set)")
        lines = self.c.must("ACL", "LIST")
        os.chmod(self.path, 0o600)
        self.c.must("ACL", "SAVE")
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), b"".join(line + b"\n" for line in lines))
        self.assertEqual(sorted(name for name in os.listdir(self.server.folder) if "acl" in name), ["users.acl"])
        self.c.must("ACL", "SETUSER", "bob", "+@all")
        self.c.must("ACL", "LOAD")
        self.assertEqual(self.c.must("ACL", "LIST"), lines)
        self.server.restart()
        with self.server.client() as client:
            self.assertEqual(client.must("ACL", "LIST"), lines)

    def test_requirepass_beside_a_file(self):
        with open(self.path, "w") as file:
            file.write("user alice on\n")
        with Server({"aclfile": self.path, "requirepass": "secret"}) as server, server.client() as client:
            self.assertIn(b"on nopass ", client.must("ACL", "LIST")[1])
            self.assertIn(b"requirepass has no effect", server.log())

    def test_all_or_nothing(self):
        before = self.c.must("ACL", "LIST")
        path = "users.acl"
        unknown = ": Error in applying operation '%s': Unknown command or category name in ACL. "
        for text, error in (
                ("# comment\nuser a on\n", path + ":1 should start with user keyword followed by the username. "),
                ("user\n", path + ":1 should start with user keyword followed by the username. "),
                ("USER a on\n", path + ":1 should start with user keyword followed by the username. "),
                ("user a on\nuser a off\n", "WARNING: Duplicate user 'a' found on line 2. "),
                ("user a +foo -bar\nuser b (\nuser a on\nuser a on\n", path + ":1" + unknown % "+foo" + path + ":1" + unknown % "-bar" + path
                 + ":2: Unmatched parenthesis in selector definition.WARNING: Duplicate user 'a' found on line 3. WARNING: Duplicate user 'a' found on line 4. "),
                ("user a on >x <y\n", path + ":1: The password you are trying to remove from the user does not exist. "),
                ("\n\nuser a on %Q~x foo\nuser b #12", path + ":3: Syntax error. " + path + ":4: The password hash must be exactly 64 characters and contain "
                 "only lowercase hexadecimal characters. "),
                ('user "a b" on\n', path + ":1: Syntax error. ")):
            self.assertEqual(self.load(text), Error(("ERR " + error + self.WARNING).encode()), text)
            self.assertEqual(self.c.must("ACL", "LIST"), before)
        os.unlink(self.path)
        self.assertEqual(self.c.call("ACL", "LOAD"), Error(b"ERR Error loading ACLs, opening file 'users.acl': No such file or directory"))

    def test_what_a_file_makes(self):
        for text, lines in (("", []), ("\n \n", []), ("user a on\r\n", ["user a on sanitize-payload resetchannels -@all"]),
                            ('  user a   on  +get   ~"x  ( +set ~b ) ', ['user a on sanitize-payload ~"x resetchannels -@all +get (~b resetchannels -@all +set)'])):
            self.assertEqual(bytes(self.load(text)), b"OK")
            self.assertEqual([line.decode() for line in self.c.must("ACL", "LIST")], lines + ["user default on nopass sanitize-payload ~* &* +@all"])

    def test_load_disconnects_all_but_the_default_user(self):
        alice = self.server.client()
        self.addCleanup(alice.close)
        alice.must("AUTH", "alice", "p")
        alice.must("GET", "a")
        self.assertEqual(bytes(self.load("user alice on >p ~a* +get\n")), b"OK")
        with self.assertRaises((Closed, OSError)):
            alice.call("GET", "a")
        self.assertEqual(self.c.must("ACL", "WHOAMI"), b"default")

    def test_the_one_that_loads_gets_its_reply(self):
        admin = self.server.client()
        self.addCleanup(admin.close)
        self.c.must("ACL", "SETUSER", "admin", "on", ">p", "+@all")
        admin.must("AUTH", "admin", "p")
        self.assertEqual(bytes(admin.call("ACL", "LOAD")), b"OK")
        with self.assertRaises((Closed, OSError)):
            admin.call("PING")

    def test_one_that_takes_its_own_rights_gets_its_reply(self):
        """On several workers the reply comes later than the change."""
        with Server({"aclfile": self.path, "io-threads": "4"}) as server:
            with server.client() as default:
                for line, ends in (("ACL LOAD", True), ("ACL DELUSER me", True), ("ACL SETUSER me -@all", False), ("ACL SETUSER me reset", False)):
                    for _ in range(20):
                        default.must("ACL", "SETUSER", "me", "reset", "on", ">p", "+@all")
                        with server.client() as me:
                            me.must("AUTH", "me", "p")
                            self.assertNotIsInstance(me.call(*line.split()), Error, line)
                            if ends:
                                with self.assertRaises((Closed, OSError)):
                                    me.call("PING")
                            else:
                                self.assertIsInstance(me.call("PING"), Error)

    def test_load_and_save_in_a_transaction(self):
        self.c.must("MULTI")
        for line in (("ACL", "SETUSER", "t", "on", "+get"), ("ACL", "SAVE"), ("ACL", "DELUSER", "t"), ("ACL", "LOAD"), ("ACL", "USERS")):
            self.c.must(*line)
        replies = self.c.must("EXEC")
        self.assertEqual([bytes(reply) for reply in replies[:2] + replies[3:4]], [b"OK"] * 3)
        self.assertEqual(replies[2:3] + replies[4:], [1, [b"alice", b"default", b"t"]])

    def test_a_file_that_cant_be_written(self):
        os.unlink(self.path)
        os.mkdir(self.path)
        self.assertEqual(self.c.call("ACL", "SAVE"),
                         Error(b"ERR There was an error trying to save the ACLs. Please check the server logs for more information"))
        self.assertIn(b"can't be written", self.server.log())

    def test_a_start_with_a_bad_file(self):
        self.write("user a on\nuser b +nosuch\n")
        with self.assertRaises(StartFailed) as caught:
            with Server({"aclfile": self.path}):
                pass
        self.assertIn("users.acl:2: Error in applying operation '+nosuch'", str(caught.exception))
        self.assertEqual(self.c.must("ACL", "USERS"), [b"alice", b"default"])


@kelvin_only
class ConfigurationTest(ServerCase):
    """User lines, and what CONFIG REWRITE makes of them."""

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        pass

    def starts(self, text, **options):
        server = Server(options, config=text)
        self.addCleanup(server.stop)
        client = server.client()
        self.addCleanup(client.close)
        return server, client

    def refused(self, text, part, **options):
        with self.assertRaises(StartFailed) as caught:
            with Server(options, config=text):
                pass
        self.assertIn(part, str(caught.exception))

    def test_errors_have_file_and_line(self):
        self.refused("# comment\nuser a on +nosuch\n", "test.conf:2: user 'a': Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL")
        self.refused("user a on\nuser b on\nuser a off\n", "test.conf, line 3: 'user a off': Error in user declaration 'a': Duplicate user found.")
        self.refused("user a on (+get\n", "test.conf:1: user 'a': Unmatched parenthesis in acl selector starting at '(+get'.")
        self.refused("user \"a b\" on\n", "Spaces not allowed in ACL usernames")
        self.refused("user\n", "Bad directive or wrong number of arguments")
        self.refused("user a on\naclfile x.acl\n", "use one of the two")
        self.refused("aclfile nosuch.acl\n", "Error loading ACLs, opening file 'nosuch.acl': No such file or directory")

    def test_user_lines(self):
        _, client = self.starts("user alice on >p ~a* +get (~b +set)\nuser default on nopass ~* +@all\nuser off\n")
        self.assertEqual(client.must("ACL", "LIST"), [
            b"user alice on sanitize-payload #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 ~a* resetchannels -@all +get "
            b"(~b resetchannels -@all +set)", b"user default on nopass sanitize-payload ~* resetchannels +@all",
            b"user off off sanitize-payload resetchannels -@all"])

    def test_channels_by_default(self):
        _, client = self.starts("acl-pubsub-default allchannels\nuser a on +get\n")
        client.must("ACL", "SETUSER", "b", "on", "(+get)")
        for user in (b"a", b"b"):
            self.assertEqual(dict(zip(*[iter(client.must("ACL", "GETUSER", user))] * 2))[b"channels"], b"&*")
        client.must("CONFIG", "SET", "acl-pubsub-default", "resetchannels")
        client.must("ACL", "SETUSER", "a", "reset")
        client.must("ACL", "SETUSER", "c")
        for user in (b"a", b"c"):
            self.assertEqual(dict(zip(*[iter(client.must("ACL", "GETUSER", user))] * 2))[b"channels"], b"")

    def rewritten(self, server, client):
        client.must("CONFIG", "REWRITE")
        with open(os.path.join(server.folder, "test.conf")) as file:
            text = file.read()
        lines = client.must("ACL", "LIST")
        with Server(config=text) as again, again.client() as other:
            self.assertEqual(other.must("ACL", "LIST"), lines)
        return text

    def test_rewrite(self):
        server, client = self.starts("# users\nuser alice on >p ~a* +get\n# end\n")
        self.assertIn("user alice on >p ~a* +get\n", self.rewritten(server, client), "users that did not change are left as they were")
        client.must("ACL", "SETUSER", "alice", "+set", '~"q')
        client.must("ACL", "SETUSER", "bob", "on", "nopass")
        text = self.rewritten(server, client)
        self.assertRegex(text, r"^# users\nuser alice on sanitize-payload \"#148de9.* -@all \+get \+set\nuser bob [^\n]*\nuser default [^\n]*\n# end\n")
        client.must("ACL", "DELUSER", "alice", "bob")
        self.assertNotIn("alice", self.rewritten(server, client))

    def test_rewrite_without_users(self):
        server, client = self.starts("maxmemory 0\n")
        client.must("CONFIG", "SET", "requirepass", "secret")
        text = self.rewritten_with_password(server, client)
        self.assertNotIn("user ", text)

    def rewritten_with_password(self, server, client):
        client.must("CONFIG", "REWRITE")
        with open(os.path.join(server.folder, "test.conf")) as file:
            return file.read()

    def test_a_file_is_not_mixed_with_lines(self):
        folder = Server(start=False)
        path = os.path.join(folder.folder, "u.acl")
        with open(path, "w") as file:
            file.write("user default on nopass ~* &* +@all\n")
        self.addCleanup(folder.discard)
        server, client = self.starts("aclfile %s\n" % path)
        client.must("ACL", "SETUSER", "x", "on")
        client.must("CONFIG", "REWRITE")
        with open(os.path.join(server.folder, "test.conf")) as file:
            self.assertNotIn("user x", file.read())


@kelvin_only
class ManyAtOnceTest(ServerCase):
    """Changes of users from several clients while others log in and run commands, on four workers."""

    options = {"io-threads": "4"}

    def setUp(self):
        super().setUp()
        self.stops = False
        self.problems = []

    def admin(self, number):
        pick = random.Random(number)
        with self.server.client() as client:
            for _ in range(scaled(150)):
                user = "w%d" % pick.randrange(3)
                line = pick.choice((("ACL", "SETUSER", user, "on", ">p", "+@all", "~*", "&*"), ("ACL", "SETUSER", user, "on", ">p", "-get"),
                                    ("ACL", "SETUSER", user, "reset"), ("ACL", "DELUSER", user, "w9"), ("ACL", "LIST"), ("CONFIG", "SET", "requirepass", ""),
                                    ("MULTI",)))
                reply = client.call(*line)
                if line == ("MULTI",):
                    client.must("ACL", "SETUSER", user, "on", "+get", "~k*")
                    client.must("ACL", "DELUSER", "w9")
                    reply = client.must("EXEC")[1]
                if isinstance(reply, Error):
                    self.problems.append((line, reply))

    def worker(self, number):
        pick = random.Random(number)
        while not self.stops:
            try:
                with self.server.client() as client:
                    client.call("AUTH", "w%d" % pick.randrange(3), "p")
                    for line in ("GET k", "SET k v", "SUBSCRIBE c", "UNSUBSCRIBE", "ACL WHOAMI", "GET k", "RESET", "PING"):
                        client.call(*line.split())
            except (Closed, OSError):
                pass            # its user was removed

    def test_changes_and_logins(self):
        workers = [threading.Thread(target=self.worker, args=(number,)) for number in range(4)]
        admins = [threading.Thread(target=self.admin, args=(number,)) for number in range(3)]
        for thread in workers + admins:
            thread.start()
        for thread in admins:
            thread.join()
        self.stops = True
        for thread in workers:
            thread.join()
        self.assertEqual(self.problems, [])
        self.c.must("ACL", "DELUSER", "w0", "w1", "w2")
        until(lambda: b"user=w" not in self.c.must("CLIENT", "LIST"))
        self.assertEqual(self.c.must("ACL", "LIST"), [b"user default on nopass sanitize-payload ~* &* +@all"])


class ClosedWhileWaitingTest(ServerCase):
    """A change of users closes clients that wait in all ways, at the worker of the caller as well as at the others."""

    waiting = ("BLPOP list 0", "BLMOVE list other LEFT RIGHT 0", "BZPOPMIN zset 0", "XREAD BLOCK 0 STREAMS stream $", "XREADGROUP GROUP g c BLOCK 0 STREAMS grouped >",
               "WAIT 3 0", "SUBSCRIBE c", "MONITOR", "CLIENT TRACKING ON", "WATCH list")

    def clients_of(self, user):
        self.c.must("ACL", "SETUSER", user, "on", "nopass", "+@all", "~*", "&*")
        found = [self.client() for _ in self.waiting * 2]
        for client, line in zip(found, self.waiting * 2):
            client.must("AUTH", user, "")
            client.send(encode(line.split()))
        until(lambda: sum(b" cmd=%s" % line.split()[0].lower().encode() in self.c.must("CLIENT", "LIST") for line in self.waiting) == len(self.waiting))
        return found

    def all_closed(self, clients):
        for client in clients:
            with self.assertRaises((Closed, ConnectionError)):
                while True:
                    client.receive()

    def test_deluser(self):
        self.c.must("XGROUP", "CREATE", "grouped", "g", "$", "MKSTREAM")
        for callers in range(4):
            clients = self.clients_of("gone")
            with self.server.client() as caller:
                self.assertEqual(caller.must("ACL", "DELUSER", "gone"), 1)
            self.all_closed(clients)
            clients = self.clients_of("gone")
            self.c.must("MULTI")
            self.c.must("ACL", "DELUSER", "gone")
            self.assertEqual(self.c.must("EXEC"), [1])
            self.all_closed(clients)
        self.c.must("RPUSH", "list", "a")
        self.assertEqual(self.c.must("LRANGE", "list", 0, -1), [b"a"])

    def test_clients_that_wait_and_lose_a_channel(self):
        self.c.must("ACL", "SETUSER", "deaf", "on", "nopass", "+@all", "~*", "&*")
        clients = [self.client() for _ in range(8)]
        for client in clients:
            client.must("AUTH", "deaf", "")
            client.must("HELLO", 3)
            client.must("SUBSCRIBE", "c")
            client.send(encode(("BLPOP", "list", "0")))
        until(lambda: self.c.must("CLIENT", "LIST").count(b" cmd=blpop ") == 8)
        self.c.must("ACL", "SETUSER", "deaf", "resetchannels")
        self.all_closed(clients)


@kelvin_only
class ClosedWhileWaitingAtWorkersTest(ClosedWhileWaitingTest):
    options = {"io-threads": "4"}


@kelvin_only
class SecretTest(ServerCase):
    options = {"slowlog-log-slower-than": "0"}

    def test_slow_log_and_info(self):
        self.c.must("ACL", "SETUSER", "s", "on", ">password", "+get", "~a")
        self.c.must("ACL", "GETUSER", "s")
        entries = [entry[3] for entry in self.c.must("SLOWLOG", "GET", 2)]
        self.assertEqual([[bytes(word) for word in entry if not word.startswith(b"(waited")] for entry in entries],
                         [[b"ACL", b"GETUSER", b"(redacted)"], [b"ACL", b"SETUSER"] + [b"(redacted)"] * 5])
        other = self.client()
        other.call("AUTH", "s", "wrong")
        other.must("AUTH", "s", "password")
        for line in ("GET b", "SET a 1", "GET c"):
            other.call(*line.split())
        stats = self.server.info("stats")
        self.assertEqual([int(stats["acl_access_denied_" + name]) for name in ("auth", "cmd", "key", "channel")], [1, 1, 2, 0])
        self.c.must("CONFIG", "RESETSTAT")
        self.assertEqual(int(self.server.info("stats")["acl_access_denied_key"]), 0)
        self.c.must("ACL", "DELUSER", "s")


if __name__ == "__main__":
    main()
