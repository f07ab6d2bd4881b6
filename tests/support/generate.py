"""Random commands that interact: few keys, all commands, and also invalid arguments.

A row of TEMPLATES is the syntax of a command. A word in lower case is replaced by a random argument of this kind (the
methods of Generator), `[...]` is included with a probability of one half, `a|b` is one of them, `x+` is one or more.
"""
import random
import re

# Arguments where a number is expected. None of them makes a server allocate hundreds of megabytes.
ODD_NUMBERS = [b"", b" ", b"-", b"abc", b"1 ", b" 1", b"+1", b"01", b"-0", b"0x10", b"1.0", b"1e3", b"\x00", b"nan", b"inf",
               b"-inf", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809",
               b"18446744073709551615", b"18446744073709551616", b"1" * 30, b"4294967296", b"2147483648", b"-2147483649"]
ODD_FLOATS = [b"", b"abc", b"nan", b"inf", b"-inf", b"+inf", b"1e400", b"-1e400", b"1e308", b"5e-324", b"0x1p4", b"1.5 ",
              b" 1.5", b"1e", b".5", b"-.5", b"5.", b"1" * 300, b"3.0e3", b"1,5", b"1e-10", b"0.1", b"-0.0"]

NEED_GROUP = (b"xreadgroup", b"xack", b"xclaim", b"xautoclaim", b"xpending")
NEW_ID = re.compile(rb"[0-9]+-[0-9]+")

TEMPLATES = {
    # Strings
    "append": "key value", "decr": "key", "decrby": "key int", "get": "key", "getdel": "key",
    "getex": "key [getexpiry]", "getrange": "key range range", "getset": "key value", "incr": "key",
    "incrby": "key int", "incrbyfloat": "key float", "lcs": "key key [LEN] [IDX] [MINMATCHLEN small] [WITHMATCHLEN]",
    "mget": "key+", "mset": "keyvalue+", "msetnx": "keyvalue+", "psetex": "key ms value",
    "set": ["key value", "key value", "key value", "key value [setexpiry] [NX|XX|GET] [GET|NX|XX]"],
    "setex": "key s value", "setnx": "key value", "setrange": "key offset value", "strlen": "key",
    "substr": "key range range",
    # Bitmaps
    "bitcount": ["key", "key range range [BIT|BYTE|bit|bytes]"], "bitfield": "key bitfieldop+",
    "bitfield_ro": "key bitfieldget+", "bitop": "AND|OR|XOR|NOT|and|NAND key key+",
    "bitpos": ["key binary", "key binary range", "key binary range range [BIT|BYTE|byte|bitt]"], "getbit": "key bitoffset",
    "setbit": "key bitoffset binary",
    # HyperLogLogs
    "pfadd": ["key element+", "key"], "pfcount": ["key", "key+"], "pfmerge": "key key+", "pfdebug": "ENCODING|TODENSE key",
    # Hashes
    "hdel": "key field+", "hexists": "key field", "hget": "key field", "hgetall": "key", "hincrby": "key field int",
    "hincrbyfloat": "key field float", "hkeys": "key", "hlen": "key", "hmget": "key field+",
    "hmset": "key fieldvalue+", "hrandfield": ["key", "key count", "key count WITHVALUES|withvaluess"],
    "hscan": "key 0 COUNT 100000 [MATCH pattern]", "hset": "key fieldvalue+", "hsetnx": "key field value",
    "hstrlen": "key field", "hvals": "key",
    # Lists
    "lindex": "key index", "linsert": "key BEFORE|AFTER|before|foo element element", "llen": "key",
    "lmove": "key key LEFT|RIGHT|left|foo RIGHT|LEFT", "lmpop": "numberedkeys LEFT|RIGHT|right|foo [COUNT count]",
    "lpop": ["key", "key count"], "rpop": ["key", "key count"],
    "lpos": ["key element", "key element [RANK rank] [COUNT small] [MAXLEN small]", "key element [maxlen small] [foo] [RANK rank]"],
    "lpush": "key element+", "rpush": "key element+", "lpushx": "key element+", "rpushx": "key element+",
    "lrange": "key range range", "lrem": "key smallrange element", "lset": "key index element", "ltrim": "key trim trim",
    "rpoplpush": "key key",
    "blpop": "key+ timeout", "brpop": "key+ timeout", "blmove": "key key LEFT|RIGHT|foo RIGHT|LEFT timeout", "brpoplpush": "key key timeout",
    "blmpop": "timeout numberedkeys LEFT|RIGHT|foo [COUNT count]", "bzpopmin": "key+ timeout", "bzpopmax": "key+ timeout",
    "bzmpop": "timeout zinputs MIN|MAX|foo [COUNT count]",
    # Sets
    "sadd": "key member+", "scard": "key", "sdiff": "key+", "sdiffstore": "key key+", "sinter": "key+",
    "sintercard": ["numberedkeys", "numberedkeys LIMIT small"], "sinterstore": "key key+", "sismember": "key member",
    "smembers": "key", "smismember": "key member+", "smove": "key key member", "srandmember": ["key", "key count"],
    "srem": "key member+", "sscan": "key 0 COUNT 100000 [MATCH pattern]", "sunion": "key+", "sunionstore": "key key+",
    # Sorted sets. Ranges by member only with keys whose scores are all 0: with others the result is undefined in Redis.
    "zadd": ["key scoremember+", "key scoremember+", "key [NX|XX] [GT|LT] [CH] scoremember+", "key [NX|XX|CH] INCR score zmember",
             "key [nx] [xx] [gt] [lt] [INCR] scoremember+", "lexkey zeromember+"],
    "zcard": "key", "zcount": "key scorebound scorebound", "zdiff": "zinputs [WITHSCORES]", "zdiffstore": "key zinputs",
    "zincrby": "key score zmember", "zinter": "zinputs [WEIGHTS zweights] [AGGREGATE SUM|MIN|MAX|foo] [WITHSCORES]",
    "zintercard": "zinputs [LIMIT count]", "zinterstore": "key zinputs [WEIGHTS zweights] [AGGREGATE SUM|MIN|max]",
    "zlexcount": "lexkey lexbound lexbound", "zmpop": "zinputs MIN|MAX|min|foo [COUNT count]", "zmscore": "key zmember+",
    "zpopmax": "key [count]", "zpopmin": "key [count]",
    "zrandmember": ["key", "key count", "key count WITHSCORES|withscoress"],
    "zrange": ["key range range [REV] [WITHSCORES]", "key scorebound scorebound BYSCORE [REV] [LIMIT limit limit] [WITHSCORES]",
               "lexkey lexbound lexbound BYLEX [REV] [LIMIT limit limit] [WITHSCORES]",
               "key range range [BYSCORE] [REV] [LIMIT limit limit] [withscores] [foo]"],
    "zrangebylex": "lexkey lexbound lexbound [LIMIT limit limit] [WITHSCORES]",
    "zrangebyscore": "key scorebound scorebound [WITHSCORES] [LIMIT limit limit] [REV]",
    "zrangestore": ["key key range range [REV] [LIMIT limit limit]", "key key scorebound scorebound BYSCORE [REV] [LIMIT limit limit]",
                    "lexkey lexkey lexbound lexbound BYLEX [REV] [LIMIT limit limit] [WITHSCORES]"],
    "zrank": "key zmember", "zrem": "key zmember+", "zremrangebylex": "lexkey lexbound lexbound",
    "zremrangebyrank": "key smallrange smallrange", "zremrangebyscore": "key scorebound scorebound",
    "zrevrange": "key range range [WITHSCORES]", "zrevrangebylex": "lexkey lexbound lexbound [LIMIT limit limit]",
    "zrevrangebyscore": "key scorebound scorebound [WITHSCORES] [LIMIT limit limit]", "zrevrank": "key zmember",
    "zscan": "key 0 COUNT 100000 [MATCH pattern]", "zscore": "key zmember",
    "zunion": "zinputs [WEIGHTS zweights] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]",
    "zunionstore": "key zinputs [WEIGHTS zweights] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]",
    # Geo. COUNT without ANY only where the order decides: it is undefined which of several members at the same distance are omitted.
    "geoadd": ["key geoplace+", "key [NX|XX] [CH] geoplace+", "key [nx] [xx] [ch] geoplace+"],
    "geodist": "key zmember zmember [geounit]", "geohash": ["key zmember+", "key"], "geopos": ["key zmember+", "key"],
    "geosearch": "key geofrom geoby [COUNT count ANY] [ASC|DESC|desc] [WITHCOORD] [WITHDIST] [WITHHASH] [foo]",
    "geosearchstore": "key key geofrom geoby [COUNT count ANY] [ASC|DESC|desc] [STOREDIST] [withdist]",
    "georadius": "key geopoint geocircle [COUNT count ANY] [ASC|DESC|desc] [WITHCOORD] [WITHDIST] [WITHHASH] [STORE|STOREDIST key] [STORE key]",
    "georadius_ro": "key geopoint geocircle [COUNT count ANY] [ASC|DESC|desc] [WITHDIST] [WITHHASH] [STORE key]",
    "georadiusbymember": "key zmember geocircle [COUNT count ANY] [ASC|DESC|desc] [WITHCOORD] [STORE|STOREDIST key]",
    "georadiusbymember_ro": "key zmember geocircle [COUNT count ANY] [ASC|DESC|desc] [WITHDIST]",
    # Streams. Always with explicit IDs, as generated ones depend on the clock. Idle times that all entries have, or none.
    "xack": "key xgroupname xid+",
    "xadd": ["key xnewid fieldvalue+", "key xnewid fieldvalue", "key xnewid xsamefields", "key xnewid xsamefields",
             "key [NOMKSTREAM] xtrim xnewid xsamefields", "key [nomkstream] [xtrim] [xtrim] xnewid fieldvalue+"],
    "xautoclaim": "key xgroupname xconsumer xidle xborder [COUNT count] [JUSTID]",
    "xclaim": ["key xgroupname xconsumer xidle xid+ [FORCE] [JUSTID] [RETRYCOUNT small] [LASTID xid]",
               "key xgroupname xconsumer xidle xid+ [IDLE small] [TIME small] [foo] [force]",
               "key xgroupname xconsumer 0 xid+ [FORCE] [TIME small] [RETRYCOUNT count] [LASTID xid] [JUSTID] [IDLE xidle]"],
    "xdel": "key xid+",
    "xgroup": ["CREATE key xgroupname xid|$ [MKSTREAM]", "CREATE key xgroupname 0 [ENTRIESREAD small]", "SETID key xgroupname xid|$ [ENTRIESREAD small]",
               "DESTROY|destroy key xgroupname", "CREATECONSUMER key xgroupname xconsumer", "DELCONSUMER key xgroupname xconsumer",
               "CREATE key xgroupname $ MKSTREAM", "CREATE key xgroupname xid [MKSTREAM] [ENTRIESREAD small]", "foo key xgroupname", "CREATE key xgroupname 0 foo"],
    "xinfo": ["STREAM key [FULL] [COUNT small]", "STREAM key FULL COUNT 0", "STREAM key FULL COUNT small", "STREAM key FULL", "GROUPS key", "CONSUMERS key xgroupname", "foo key"],
    "xlen": "key",
    "xpending": ["key xgroupname", "key xgroupname [IDLE xidle] xborder xborder count [xconsumer]"],
    "xrange": "key xborder xborder [COUNT count]", "xrevrange": "key xborder xborder [COUNT count]",
    "xread": ["[COUNT count] STREAMS key xid|$", "[COUNT count] STREAMS key key xid xid|$|>", "[NOACK] [foo] STREAMS key xid"],
    "xreadgroup": ["GROUP xgroupname xconsumer [COUNT count] [NOACK] STREAMS key >", "GROUP xgroupname xconsumer [COUNT small] STREAMS key >",
                   "GROUP xgroupname xconsumer [COUNT count] STREAMS key key >|xid >|xid", "GROUP xgroupname xconsumer STREAMS key xid|$|0"],
    "xsetid": "key xid [ENTRIESADDED small] [MAXDELETEDID xid]", "xtrim": "key xtrim [foo]",
    # Keys
    "copy": ["key key [REPLACE]", "key key DB db [REPLACE]"], "del": "key+", "exists": "key+",
    "expire": "key s [NX|XX|GT|LT] [XX|GT]", "expireat": "key at [NX|XX|GT|LT]", "expiretime": "key", "keys": "pattern",
    "move": "key db", "object": ["ENCODING key", "REFCOUNT|IDLETIME|encoding|foo key"], "persist": "key",
    "pexpire": "key ms [NX|XX|GT|LT]", "pexpireat": "key atms [NX|XX|GT|LT] [NX|foo]", "pexpiretime": "key",
    "pttl": "key", "randomkey": "", "rename": "key key", "renamenx": "key key",
    "scan": "0 COUNT 100000 [MATCH pattern] [TYPE string|hash|list|zset|set]", "touch": "key+", "ttl": "key", "type": "key",
    "unlink": "key+", "dump": "key",
    "sort": "sortkey [BY keypattern] [LIMIT range range] [GET keypattern] [GET keypattern] [ASC|DESC] [ALPHA] [STORE key] [foo]",
    "sort_ro": "sortkey [BY keypattern] [LIMIT range range] [GET keypattern] [ASC|DESC] [ALPHA] [STORE]",
    # Databases and the server
    "dbsize": "", "flushdb": "[ASYNC|SYNC|foo]", "flushall": "[ASYNC|SYNC]", "select": "db", "swapdb": "db db",
    "echo": "value", "ping": "[value]", "time": "", "lastsave": "",
}

# Relative frequencies; other commands have 100. Commands that empty databases are rare, as otherwise commands would not interact.
WEIGHTS = {"flushall": 2, "flushdb": 6, "select": 60, "swapdb": 25, "set": 600, "hset": 900, "mset": 150, "move": 60,
           "copy": 150, "rename": 150, "keys": 20, "scan": 20, "time": 5, "lastsave": 2, "echo": 10, "ping": 10,
           "randomkey": 20, "dump": 10, "del": 60, "unlink": 60, "expire": 150, "getdel": 60, "restore": 100,
           "setrange": 150, "append": 150, "hdel": 150, "lcs": 50, "dbsize": 60, "sadd": 900, "spop": 100, "pfadd": 300, "pfdebug": 10,
           "xadd": 1800, "xgroup": 200, "xreadgroup": 700, "xack": 200, "xclaim": 300, "xautoclaim": 200, "xdel": 200, "xsetid": 20, "xtrim": 60,
           "zadd": 1500, "geoadd": 700, "zunionstore": 150, "rpush": 900, "lpush": 600, "ltrim": 40, "linsert": 250, "lset": 250, "lmove": 150,
           "blpop": 30, "brpop": 30, "blmove": 30, "brpoplpush": 30, "blmpop": 30, "bzpopmin": 30, "bzpopmax": 30, "bzmpop": 30}

# These must not block for long, so their words are not mutated.
BLOCKING = ("blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop")
FAMILY = {name: b"s" for name in TEMPLATES if name.startswith((
    "append", "bit", "get", "lcs", "mget", "msetnx", "setbit", "setrange", "strlen", "substr"))}
FAMILY.update((name, b"z") for name in TEMPLATES if name.startswith("z"))
FAMILY.update((name, b"g") for name in TEMPLATES if name.startswith("geo"))
FAMILY.update((name, b"x") for name in TEMPLATES if name.startswith("x"))
FAMILY.update((name, b"n") for name in TEMPLATES if name.startswith(("incr", "decr")))
FAMILY.update((name, b"t") for name in TEMPLATES if name in (
    "sadd", "scard", "sinter", "sintercard", "sinterstore", "sismember", "smembers", "smismember", "smove", "srandmember", "srem",
    "sscan", "sunion", "sunionstore", "sdiff", "sdiffstore"))
FAMILY.update((name, b"p") for name in TEMPLATES if name.startswith("pf"))
FAMILY.update((name, b"l") for name in TEMPLATES if name in (
    "lindex", "linsert", "llen", "lmove", "lmpop", "lpop", "rpop", "lpos", "lpush", "rpush", "lpushx", "rpushx", "lrange", "lrem", "lset",
    "ltrim", "rpoplpush") + BLOCKING[:5])
FAMILY.update((name, b"z") for name in BLOCKING[5:])
# One letter for each family: the prefix of the keys that most of its commands use.
FAMILIES = (b"s", b"n", b"h", b"l", b"t", b"z", b"p", b"g", b"x")
WRITE_ANY = {"set", "setex", "psetex", "mset", "getset", "setnx"}


class Generator:
    """next() returns a list of arguments. Besides real commands: [b"@roundtrip", source, target, ms, words...], a DUMP of
    source whose payload is RESTOREd to target on the same server, [b"@pop", key, count...], a SPOP that removes the same
    members on both, [b"@sort", b"SORT", ...], [b"@setid", key, ID...], an XSETID, and [b"@demote", key] when `demote` is on."""

    def __init__(self, seed, commands, demote=False, keys=6, databases=3):
        self.random = random.Random(seed)
        self.commands = sorted(name for name in TEMPLATES if name in commands)
        if "restore" in commands and "dump" in commands:
            self.commands.append("restore")
        if "spop" in commands:
            self.commands.append("spop")
        self.weights = [WEIGHTS.get(name, 100) for name in self.commands]
        self.demote = demote
        # Most commands of a family use separate keys, as otherwise nearly all replies would be WRONGTYPE.
        self.keys = {family: [b"%s%d" % (family, index) for index in range(keys)] for family in FAMILIES}
        self.lex_keys = [b"lex%d" % index for index in range(3)]
        self.odd_keys = [b"", b"key with\r\n\x00\xff bytes", b"L" * 300]
        self.family = b"s"
        self.databases = databases
        self.stream_ms = 1
        self.stream_ids = {}            # by key: IDs of recent XADD commands
        self.at_key = b""               # the key that was drawn last
        self.coming = []

    def chance(self, share):
        return self.random.random() < share

    def pick(self, *choices):
        return self.random.choice(choices)

    def next(self):
        if not self.coming:
            args = self.command()
            # The last entry, since 7.4: the oracle does not know that.
            if args[0].lower() in (b"xread", b"xreadgroup"):
                args = [b"-" if word == b"+" else word for word in args]
            # Groups are created often: without a group, these commands only return NOGROUP.
            if args[0].lower() in NEED_GROUP and len(args) > 3 and self.chance(0.8):
                keys = args[args.index(b"STREAMS") + 1:-1] if b"STREAMS" in args else [args[1]]
                group = args[2 + args[1:].index(b"GROUP")] if b"GROUP" in args[1:-1] else args[2]
                self.coming += [[b"XGROUP", b"CREATE", key, group, b"0", b"MKSTREAM"] for key in keys]
            # Since 7.2 these always create the consumer, 7.0 only if it receives entries: so it is created before.
            if args[0].lower() in (b"xclaim", b"xautoclaim") and len(args) > 3:
                self.coming.append([b"XGROUP", b"CREATECONSUMER"] + args[1:4])
            if args[0].lower() == b"xreadgroup" and b"STREAMS" in args and len(args) > 3:
                self.coming += [[b"XGROUP", b"CREATECONSUMER", key] + args[2:4] for key in args[args.index(b"STREAMS") + 1:-1]]
            self.coming.append(args)
        return self.coming.pop(0)

    def command(self):
        self.family = self.pick(*FAMILIES)
        if self.demote and self.chance(0.35):
            return [b"@demote", self.key()]
        name = self.random.choices(self.commands, self.weights)[0]
        self.family = FAMILY.get(name) or (b"h" if name[0] == "h" else self.family)
        if name in WRITE_ANY and self.family not in (b"s", b"n") and self.chance(0.9):
            self.family = self.pick(b"s", b"n")
        if name == "restore":
            args = [b"@roundtrip", self.key(), self.key(), self.pick(b"0", b"0", b"0", self.ms(), b"-1", b"abc", b"")]
            return args + self.random.choices([[], [b"REPLACE"], [b"FREQ", b"9"],
                                               [b"IDLETIME", b"100"], [b"foo"]], [6, 9, 1, 1, 1])[0]
        if name == "spop":
            self.family = b"t"
            return [b"@pop", self.key()] + self.pick([], [self.count()])
        template = TEMPLATES[name]
        if isinstance(template, list):
            template = self.random.choice(template)
        args = [name.upper().encode() if self.chance(0.9) else name.encode()] + self.expand(template)
        if name == "xadd":
            self.stream_ids[args[1]] = (self.stream_ids.get(args[1], []) + [arg for arg in args[2:] if NEW_ID.fullmatch(arg)][:1])[-25:]
        if len(args) > 1 and args[-1] != b"ANY" and self.chance(0.015):
            args.pop()
        if name in BLOCKING:
            return args
        # Not if the value would be a count: Redis draws that number of elements.
        if self.chance(0.01) and name not in ("hrandfield", "srandmember", "zrandmember"):
            args.append(self.value())
        if len(args) > 1 and self.chance(0.01):
            args[self.random.randrange(1, len(args))] = self.pick(*ODD_NUMBERS, b"NX", b"GET", b"KEEPTTL")
            if args[0].lower() in (b"setrange", b"setbit", b"bitfield", b"bitop", b"hrandfield", b"srandmember",
                                   b"zrandmember"):
                return self.command()
            if args[0].lower() == b"zadd" and args[1] in self.lex_keys:
                return self.command()
            # Of a key with different scores, what a range of texts has depends on chance in Redis.
            if (b"lex" in args[0].lower() or b"BYLEX" in args) and not set(args[1:3]) & set(self.lex_keys):
                return self.command()
        if name == "xsetid":
            return [b"@setid"] + args[1:]
        return self.sort(args) if name in ("sort", "sort_ro") else args

    def sort(self, args):
        """The stored result must be the same on both: so not sorted by numbers, where Redis has a bug after ERANGE, or by equal texts."""
        if b"STORE" in args:
            while b"BY" in args:
                at = args.index(b"BY")
                args[at:at + 2] = []
            args.insert(2, b"ALPHA")
        return [b"@sort"] + args

    def expand(self, template):
        args, optional = [], None
        for word in template.split():
            if word.startswith("["):
                optional = self.chance(0.4)
            if optional is not False:
                args += self.word(word.strip("[]"))
            if word.endswith("]"):
                optional = None
        return args

    def word(self, word):
        if word.endswith("+"):
            out = []
            for _ in range(self.pick(1, 1, 1, 2, 2, 3, 5)):
                out += self.word(word[:-1])
            return out
        if "|" in word:
            return self.word(self.random.choice(word.split("|")))
        made = getattr(self, word, None) if word.islower() and word not in self.LITERAL else None
        if made is None:
            return [word.encode()]
        made = made()
        return made if isinstance(made, list) else [made]

    # Words in lower case that are literal
    LITERAL = {"bit", "byte", "bytes", "bitt", "and", "string", "hash", "list", "set", "zset", "encoding", "foo", "withvaluess",
               "withscoress", "left", "right", "before", "maxlen", "nx", "xx", "gt", "lt", "max", "min", "withscores",
               "ch", "withdist", "desc", "destroy", "force", "nomkstream"}

    def key(self):
        if self.chance(0.04):
            return self.random.choice(self.odd_keys)
        family = self.family if self.chance(0.93) else self.pick(*FAMILIES)
        self.at_key = self.random.choice(self.keys[family])
        return self.at_key

    def value(self):
        if self.family == b"n" and self.chance(0.8):
            return self.int() if self.chance(0.8) else self.float()
        kind = self.random.randrange(20)
        if kind < 5:
            return b"%d" % self.random.randrange(-20, 200)
        if kind < 7:
            return b"%.*f" % (self.random.randrange(1, 9), self.random.uniform(-100, 100))
        if kind < 9:
            return self.pick(*ODD_NUMBERS)
        if kind < 10:
            return self.pick(*ODD_FLOATS)
        if kind < 14:
            return self.random.randbytes(self.random.randrange(0, 12))
        if kind < 17:
            return bytes(self.random.choices(b"abcdxyz", k=self.random.choice((1, 3, 20, 43, 44, 45, 63, 64, 65))))
        if kind < 19:
            return bytes(self.random.choices(b"abc", k=self.random.randrange(100, 1000)))
        return bytes([self.random.randrange(256)]) * self.random.choice((4000, 4097, 20000, 70000))

    def keyvalue(self):
        return [self.key(), self.value()]

    def field(self):
        if self.chance(0.93):
            return b"f%d" % self.random.randrange(11)
        return self.pick(b"", b"12", b"-7", b"f\xff\x00", b"a field of more than twenty bytes")

    def element(self):
        return b"e%d" % self.random.randrange(3000) if self.chance(0.9) else self.value()

    def member(self):
        kind = self.random.random()
        if kind < 0.6:
            return b"%d" % self.random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -7, 300, 70000, -40000, 1 << 40, -(1 << 63)))
        return b"m%d" % self.random.randrange(9) if kind < 0.9 else self.value()

    def numberedkeys(self):
        keys = self.word("key+")
        return [b"%d" % len(keys) if self.chance(0.95) else self.count()] + keys

    def sortkey(self):
        self.family = self.pick(b"t", b"l")
        return self.key()

    def keypattern(self):
        return self.pick(b"s*", b"h*->f1", b"h*->f2", b"*", b"#", b"nosort", b"*->", b"p*", b"n*->f", b"t*", b"n*")

    def fieldvalue(self):
        return [self.field(), self.value() if self.chance(0.5) else b"%d" % self.random.randrange(-5, 50)]

    def element(self):
        kind = self.random.random()
        if kind < 0.4:
            return b"e%d" % self.random.randrange(6)
        return b"%d" % self.random.randrange(-3, 9) if kind < 0.7 else self.value()

    def index(self):
        return b"%d" % self.pick(0, 1, 2, 3, 5, 9, -1, -2, -3, -7, 100, -100) if self.chance(0.95) else self.pick(*ODD_NUMBERS)

    def trim(self):
        return b"%d" % self.pick(0, 0, 1, 2, -1, -1, -2, 30, -30) if self.chance(0.95) else self.pick(*ODD_NUMBERS)

    def timeout(self):
        return b"0.001" if self.chance(0.95) else self.pick(b"-1", b"abc", b"", b"nan", b"0.001 ", b"-0.5", b"1e-3", b"0x0.01p0")

    def rank(self):
        return b"%d" % self.pick(1, 2, 3, -1, -2, -3, 0) if self.chance(0.95) else self.pick(b"", b"abc", b"1.0", b"9223372036854775808")

    def zmember(self):
        if self.chance(0.9):
            return b"m%d" % self.random.randrange(14)
        return self.pick(b"", b"12", b"-7", b"007", b"m\xff\x00", b"1.5", b"nan", b"a member of more than twenty bytes")

    def score(self):
        if self.chance(0.05):
            return self.pick(*ODD_FLOATS)
        return self.pick(b"0", b"1", b"1", b"2", b"3", b"-1", b"0.5", b"-0", b"2.5", b"3.0", b"-3.14159265358979", b"0.1", b"1e20",
                         b"1e-7", b"1e300", b"inf", b"-inf", b"123456789012345678", b"4611686018427387904", b"9007199254740993",
                         b"%d" % self.random.randrange(-5, 10), b"%.3f" % self.random.uniform(-9, 9))

    def scoremember(self):
        return [self.score(), self.zmember()]

    def zeromember(self):
        return [b"0", self.zmember()]

    def scorebound(self):
        if self.chance(0.1):
            return self.pick(b"", b"(", b"((1", b"abc", b"nan", b"(nan", b" 1", b"1 ", b"1e400", b"0x10", b"1\x00x", b"[1", b"+", b"-")
        bound = self.pick(b"0", b"1", b"2", b"-1", b"0.5", b"-inf", b"+inf", b"inf", b"-inf", b"+inf", b"1e20", b"-3.14159265358979",
                          b"-0", b"%d" % self.random.randrange(-5, 10))
        return bound if self.chance(0.7) else b"(" + bound

    def xnewid(self):
        self.stream_ms += self.pick(0, 1, 1, 1, 2, 3)
        kind = self.random.random()
        if kind < 0.15:
            return b"%d-*" % self.stream_ms
        if kind < 0.95:
            return b"%d-%d" % (self.stream_ms, self.random.randrange(1, 1000))
        return self.pick(b"0-0", b"0", b"1-1", b"%d" % (self.stream_ms + 1), b"abc", b"", b"1-", b"-1", b"1-1-1", b"0-*", b"-", b"+", b"1-**", b"07-1")

    def xid(self):
        kind = self.random.random()
        ids = self.stream_ids.get(self.at_key)
        if ids and kind < 0.8:
            return self.random.choice(ids[-12:] if self.chance(0.7) else ids)
        if kind < 0.9:
            return b"%d-%d" % (max(0, self.stream_ms - self.random.randrange(30)), self.random.randrange(1000))
        return self.pick(b"0-0", b"0", b"1-1", b"%d" % self.stream_ms, b"%d" % self.stream_ms, b"abc", b"", b"1-*", b"18446744073709551615-1",
                         b"18446744073709551616-1", b"-", b"+", b"*", b"(1-1", b"1-01", b" 1-1", b"1--5")

    def xborder(self):
        kind = self.random.random()
        if kind < 0.5:
            return self.pick(b"-", b"+", b"0", b"-", b"+", b"0-0")
        if kind < 0.7:
            return b"(" + self.xid()
        if kind < 0.75:
            return self.pick(b"(", b"((1-1", b"(-", b"(+", b"(0-0", b"(18446744073709551615-18446744073709551615")
        return self.xid() if kind < 0.9 else b"%d" % max(0, self.stream_ms - self.random.randrange(30))

    def xgroupname(self):
        return b"g%d" % self.random.randrange(2) if self.chance(0.97) else self.pick(b"", b"g\xff\r\n")

    def xconsumer(self):
        return b"c%d" % self.random.randrange(4) if self.chance(0.95) else self.pick(b"", b"a consumer\x00\xff", b"12")

    def xidle(self):
        return self.pick(b"0", b"0", b"0", b"-5", b"100000000000") if self.chance(0.97) else self.pick(*ODD_NUMBERS)

    def xsamefields(self):
        return [b"a", self.value(), b"b", b"%d" % self.random.randrange(300)]

    def xtrim(self):
        how = self.pick([], [b"="], [b"~"], [b"~"])
        limit = self.pick([], [], [], [b"LIMIT", self.pick(b"0", b"3", b"10", b"-1", b"abc")])
        if self.chance(0.6):
            return [self.pick(b"MAXLEN", b"maxlen")] + how + [self.pick(b"0", b"3", b"10", b"20", b"-1", b"30", b"30")] + limit
        return [b"MINID"] + how + [self.xid()] + limit

    def lexkey(self):
        return self.pick(*self.lex_keys)

    def lexbound(self):
        if self.chance(0.08):
            return self.pick(b"", b"m1", b"--", b"+x", b"]m1", b"0", b" [m1", b"\x00")
        return self.pick(b"-", b"+", b"[", b"(", b"[m\xff", b"(m\xff", b"[m1", b"(m1", b"[" + self.zmember(), b"(" + self.zmember())

    def smallrange(self):
        return b"%d" % self.pick(0, 1, 2, -1, -2, 5, 100, -100) if self.chance(0.95) else self.pick(*ODD_NUMBERS)

    def limit(self):
        return b"%d" % self.pick(0, 0, 1, 2, 5, -1, -2) if self.chance(0.97) else self.pick(*ODD_NUMBERS)

    def zinputs(self):
        self.inputs = self.pick(1, 2, 2, 2, 3, 4)
        count = b"%d" % self.inputs if self.chance(0.96) else self.pick(b"0", b"-1", b"5", b"abc", b"", b"9223372036854775807")
        keys = [self.key() for _ in range(self.inputs)]
        if self.chance(0.2):
            keys[-1] = self.random.choice(self.keys[b"t"])
        return [count] + keys

    def zweights(self):
        count = self.inputs if self.chance(0.97) else self.inputs + self.pick(-1, 1)
        return [self.pick(b"1", b"2", b"0", b"-1", b"0.5", b"inf", b"-inf") if self.chance(0.97) else self.pick(*ODD_FLOATS)
                for _ in range(count)]

    def int(self):
        if self.chance(0.2):
            return self.pick(*ODD_NUMBERS)
        return b"%d" % self.random.choice((0, 1, -1, 5, -7, 100, 1 << 31, 1 << 40, -(1 << 62), (1 << 63) - 1))

    def float(self):
        if self.chance(0.2):
            return self.pick(*ODD_FLOATS)
        return self.pick(b"0", b"1", b"-1", b"0.5", b"3.14159", b"-2.25", b"1e5", b"1e-5", b"100000000000", b"0.1")

    def small(self):
        return b"%d" % self.random.randrange(-1, 5)

    def count(self):
        return b"%d" % self.random.choice((0, 1, 2, 3, 5, 20, -1, -5, -20)) if self.chance(0.9) else self.pick(*ODD_NUMBERS[:12])

    def range(self):
        if self.chance(0.15):
            return self.pick(*ODD_NUMBERS)
        return b"%d" % self.random.choice((0, 1, 2, 5, 30, 200, 100000, -1, -2, -3, -50, -100000))

    def offset(self):
        if self.chance(0.15):
            return self.pick(b"-1", b"abc", b"", b"9223372036854775807", b"9223372036854775808", b"536870912", b"4294967296")
        return b"%d" % self.random.choice((0, 0, 1, 2, 5, 40, 44, 100, 3000))

    # Places from a small set, so that they coincide; distant ones and close ones; and at the limits.

    def geopoint(self):
        if self.chance(0.05):
            return [self.pick(b"180.1", b"abc", b"nan", b"", b"inf", b"13"), self.pick(b"85.06", b"-90", b"38", b"1e400")]
        return self.pick([b"13.361389", b"38.115556"], [b"15.087269", b"37.502669"], [b"13.36139", b"38.11556"], [b"-13.5", b"38.1"],
                         [b"180", b"0"], [b"-180", b"0"], [b"179.9999", b"-1"], [b"0", b"85.05112878"], [b"-90", b"-85.05112878"],
                         [b"10", b"84.9"], [b"-179.5", b"84.9"], [b"0", b"0"], [b"%d" % self.random.randrange(-180, 181), b"%d" % self.random.randrange(-85, 86)])

    def geoplace(self):
        return self.geopoint() + [self.zmember()]

    def geounit(self):
        return self.pick(b"m", b"km", b"ft", b"mi", b"KM") if self.chance(0.97) else self.pick(b"foo", b"", b"yd")

    def geolength(self):
        if self.chance(0.04):
            return self.pick(b"-1", b"abc", b"nan", b"inf", b"", b"1e300", b"5e-324")
        return self.pick(b"0", b"0.5", b"10", b"200", b"3000", b"20000", b"1e5", b"3e6", b"1e7")

    def geocircle(self):
        return [self.geolength(), self.geounit()]

    def geofrom(self):
        return [b"FROMMEMBER", self.zmember()] if self.chance(0.4) else [b"FROMLONLAT"] + self.geopoint()

    def geoby(self):
        if self.chance(0.03):
            return self.pick([], [b"BYRADIUS", b"1", b"km", b"BYBOX", b"1", b"1", b"km"], [b"BYBOX", b"1"], [b"ANY"])
        return [b"BYRADIUS"] + self.geocircle() if self.chance(0.5) else [b"BYBOX", self.geolength()] + self.geocircle()

    def bitoffset(self):
        if self.chance(0.1):
            return self.pick(b"-1", b"abc", b"", b"4294967296", b"9223372036854775808", b"01", b" 1", b"#1")
        return b"%d" % self.random.choice((0, 1, 6, 7, 8, 9, 31, 63, 64, 100, 1000, 30000))

    def binary(self):
        return self.pick(b"0", b"1") if self.chance(0.95) else self.pick(b"2", b"-1", b"x", b"")

    def bitfieldtype(self):
        if self.chance(0.95):
            return self.pick(b"u8", b"i8", b"u1", b"i1", b"u5", b"i16", b"u32", b"i64", b"u63", b"i63")
        return self.pick(b"u64", b"i65", b"u0", b"x8", b"u", b"U8", b"")

    def bitfieldoffset(self):
        if self.chance(0.95):
            return self.pick(b"0", b"1", b"5", b"8", b"100", b"#0", b"#1", b"#7")
        return self.pick(b"-1", b"#-1", b"abc", b"#", b"4294967295000", b"")

    def bitfieldget(self):
        return [b"GET", self.bitfieldtype(), self.bitfieldoffset()]

    def bitfieldop(self):
        kind = self.random.randrange(8)
        if kind < 3:
            return self.bitfieldget()
        if kind < 5:
            return [b"SET", self.bitfieldtype(), self.bitfieldoffset(), self.int()]
        if kind < 7:
            return [b"INCRBY", self.bitfieldtype(), self.bitfieldoffset(), self.int()]
        return [b"OVERFLOW", self.pick(b"WRAP", b"SAT", b"FAIL", b"sat", b"foo")]

    # Times far in the future, or in the past: no key may expire between the calls on the two servers. Relative times are never
    # repeated, because the reply to `EXPIRE k 100 GT` after `EXPIRE k 100` depends on the millisecond.

    def s(self):
        if self.chance(0.06):
            return self.pick(*ODD_NUMBERS)
        return b"%d" % self.random.randrange(100, 100000000) if self.chance(0.8) else self.pick(b"0", b"-1")

    def ms(self):
        if self.chance(0.06):
            return self.pick(*ODD_NUMBERS)
        return b"%d" % self.random.randrange(100000, 100000000000) if self.chance(0.8) else self.pick(b"0", b"-1")

    def at(self):
        return self.pick(b"33177117420", b"33177117421", b"4000000000", b"1", b"0", b"-1", b"abc", b"9223372036854775807")

    def atms(self):
        return self.pick(b"33177117420000", b"33177117421000", b"4000000000000", b"1", b"0", b"-5", b"", b"9223372036854775807")

    def setexpiry(self):
        # No EXAT or PXAT in the past: it is undefined how long DBSIZE counts such a key.
        kind = self.random.randrange(6)
        return [[b"EX", self.s()], [b"PX", self.ms()], [b"EXAT", self.pick(b"33177117420", b"4000000000", b"-1", b"abc")],
                [b"PXAT", self.pick(b"33177117420000", b"4000000000000", b"0", b"")], [b"KEEPTTL"], [b"ex"]][kind]

    def getexpiry(self):
        kind = self.random.randrange(7)
        return [[b"EX", self.s()], [b"PX", self.ms()], [b"EXAT", self.at()], [b"PXAT", self.atms()], [b"PERSIST"],
                [b"persist"], [b"KEEPTTL"]][kind]

    def db(self):
        if self.chance(0.06):
            return self.pick(b"-1", b"16", b"abc", b"", b"9223372036854775808", b"1 ")
        return b"%d" % self.random.randrange(self.databases)

    def pattern(self):
        return self.pick(b"*", b"k*", b"k?", b"k[1-3]", b"k[^1-3]", b"[", b"k[", b"\\k1", b"*1*", b"", b"?", b"k1", b"f*", b"*\xff*",
                         b"[a-", b"k[3-1]", b"**", b"*k*1", b"[]", b"[^]")
