"""Any command with odd arguments: option words, keys, numbers and names of commands, each at any place.

The names and the option words are what the server says in COMMAND DOCS, so a new command is included without a row here. A part of the
commands are those of generate.py with one word replaced, as these get further before something is wrong.
"""
import random

from .commands import listed
from .generate import ODD_FLOATS, ODD_NUMBERS
from .replication.load import Changes

KEYS = b"k l s z h x geo hll store streams get nokey".split()
SMALL = [b"0", b"1", b"2", b"3", b"-1", b"10", b"1.5", b"inf", b"9223372036854775807", b"-9223372036854775807"]
# 2^31 is a valid offset of a bit, and makes a value of 256 MB.
NUMBERS = [word for word in ODD_NUMBERS + ODD_FLOATS if word != b"2147483648"]
NAMES = b"* > $ + - ( (1 [a a b m f g c u8 i64 #1 1-1 0-0 1-* asc km left right on off nopass +@all -@all ~* k* \xff\x00".split() + [b""]
SCRIPTS = [b"return {KEYS, ARGV}", b"return redis.call(ARGV[1], KEYS[1], ARGV[2])", b"return redis.pcall(unpack(ARGV))", b"return redis.call(",
           b"error({err = KEYS[1]})", b"return {1, {2, {3, 'x'}}, {ok = 'y'}, {err = 'z'}, false, 1.5}",
           b"#!lua name=l\nredis.register_function('f', function(keys, args) return redis.pcall(unpack(args)) end)",
           b"#!lua flags=no-writes\nreturn redis.pcall(unpack(ARGV))"]
SETUP = [b"SET k 1", b"RPUSH l 1 2 b", b"SADD s 1 2 m", b"ZADD z 1 a 2 b", b"HSET h f 1 g x", b"XADD x 1-1 f v", b"XGROUP CREATE x g 0",
         b"XGROUP CREATE x streams 0", b"XREADGROUP GROUP g c STREAMS x >", b"XADD x 2-1 f v", b"GEOADD geo 1 1 m 2 2 a", b"PFADD hll a b",
         b"ZADD store 1 a", b"XADD streams 1-1 a b", b"XGROUP CREATE streams g 0", b"RPUSH get 1"]


def tokens(arguments):
    found = set()
    for described in arguments:
        facts = listed(described)
        if b"token" in facts:
            found.update(facts[b"token"].split())
        found |= tokens(facts.get(b"arguments", []))
    return found


def documented(client):
    """{words of the name: option words} of all commands; of a container only its subcommands."""
    found = {}
    for name, docs in listed(client.must("COMMAND", "DOCS")).items():
        docs = listed(docs)
        if b"subcommands" in docs:
            for each, more in listed(docs[b"subcommands"]).items():
                found[tuple(each.split(b"|"))] = tokens(listed(more).get(b"arguments", []))
        else:
            found[name,] = tokens(docs.get(b"arguments", []))
    return found


def later_words(ours, theirs):
    """{name of the command: option words of it that only the first server knows}: ONE is one of BITOP, and an old one of REPLICAOF."""
    found = {}
    for name, words in ours.items():
        found[name[0]] = found.get(name[0], set()) | words - theirs.get(name, set())
    return found


def arities(client, names):
    infos = client.must("COMMAND", "INFO", *[b"|".join(name) for name in names])
    return {name: abs(info[1]) if isinstance(info, list) else len(name) for name, info in zip(names, infos)}


class OddCommands:
    """next(): the words of a command. `never`: names, such as (b"client", b"pause"), that are left out."""

    def __init__(self, client, seed, never=()):
        self.random = random.Random("%s/odd" % seed)
        found = documented(client)
        self.tokens = {name: sorted(words) for name, words in found.items()}
        self.names = sorted(name for name in found if name not in never and name[:1] not in never)
        self.arities = arities(client, sorted(found))
        self.all_tokens = sorted({word for words in found.values() for word in words})
        self.changes = Changes("%s/changes" % seed, databases=3)

    def next(self):
        return self.changed() if self.random.random() < 0.25 else self.mixed()

    def mixed(self):
        name = self.random.choice(self.names)
        own, args = self.tokens[name], list(name)
        count = self.random.randrange(10)
        if self.random.random() < 0.6:
            count = max(0, self.arities[name] - len(name)) + self.random.randrange(4)
        for _ in range(count):
            args.append(self.word(own))
        if (name[0].startswith(b"eval") or name[0] in (b"script", b"function")) and len(args) > len(name) and self.random.random() < 0.7:
            args[len(name)] = self.random.choice(SCRIPTS)
        return args

    def changed(self):
        """A command of generate.py, mostly with one other word."""
        args = list(self.changes.single())
        if len(args) > 1 and self.random.random() < 0.8:
            args[self.random.randrange(1, len(args))] = self.word(self.tokens.get((args[0].lower(),), []))
        return args

    def word(self, own):
        kind = self.random.random()
        if kind < 0.3 and own:
            return self.random.choice(own)
        if kind < 0.6:
            return self.random.choice(KEYS)
        if kind < 0.75:
            return self.random.choice(SMALL)
        if kind < 0.8:
            return self.random.choice(NUMBERS)
        if kind < 0.84:
            return self.random.choice(self.all_tokens)
        if kind < 0.87:
            return self.random.choice(self.names)[-1]
        return self.random.choice(NAMES)
