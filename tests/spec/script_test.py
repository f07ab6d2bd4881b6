"""EVAL and related commands, compared with redis-server: conversions, errors, limits of what a script may do, and its environment.
script_library_test.py has the libraries of Lua, function_test.py FUNCTION and FCALL."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.compare import is_text_of_7_2                                                           # noqa: E402
from support.lua import LuaCase, SHOW                                                               # noqa: E402
from support.resp import Error, Push, Status, encode                                                # noqa: E402
from support.server import Server, is_redis                                                         # noqa: E402

# Commands that are not called in a script by these tests: 7.2 differs from 7.0, or they would not be comparable.
NOT_CALLED = {"blmove", "blpop", "brpop", "brpoplpush", "bzpopmax", "bzpopmin", "wait", "waitaof", "time", "lolwut", "command", "info", "role", "lastsave", "randomkey", "dbsize", "flushall", "flushdb", "hello"}


class ReturnTest(LuaCase):
    """What a script returns."""

    def test_numbers(self):
        self.everywhere(["return 1", "return -1", "return 3.99", "return -3.99", "return 0.5", "return -0.5", "return 1e15", "return 2^53",
                         "return 2^62", "return -2^63", "return 1e9", "return 4294967296.5", "return tonumber('0x10')", "return -0"])

    def test_strings(self):
        self.everywhere(["return 'text'", "return ''", "return 'a\\r\\nb'", "return '\\0\\1\\255'", "return string.rep('x', 100000)", "return '12'",
                         "return ARGV[1]", "return KEYS[1]", "return KEYS[2]", "return #KEYS + #ARGV"], 1, "key", b"a\x00\xff\r\n")

    def test_booleans_and_nothing(self):
        self.everywhere(["return true", "return false", "return nil", "return", "local x = 1", "", "return {true, false}", "return {nil}",
                         "return {false, nil, 1}", "return {1, nil, 3}", "return not true"])

    def test_tables(self):
        self.everywhere(["return {}", "return {1, 2, 3}", "return {1, 2, 3.3333, 'foo', nil, 'bar'}", "return {{1}, {2, {3, {}}}}", "return {a = 1}",
                         "return {1, 2, a = 3}", "return {[0] = 'zero', 'one'}", "return {[2] = 'two'}", "return {['1'] = 'text'}", "return {1.5, -2.7}",
                         "return {function() end}", "return function() end", "return {1, function() end, 3}", "return coroutine.create(function() end)",
                         "return {KEYS, ARGV}", "return setmetatable({}, {__index = function() return 1 end}) and 1"], 2, "k1", "k2", "a1")

    def test_status_and_error_tables(self):
        self.everywhere(["return {ok = 'fine'}", "return {ok = ''}", "return {ok = 'two\\r\\nlines'}", "return {ok = 1}", "return {ok = true}",
                         "return {ok = {}}", "return {ok = 'a', 1, 2}", "return {err = 'ERR text'}", "return {err = 'text'}", "return {err = ''}",
                         "return {err = 'two\\r\\nlines'}", "return {err = 'CODE\\ntext\\n'}", "return {err = 1}", "return {err = {}}", "return {err = 'E x', ok = 'y'}",
                         "return {err = '-MINE own'}", "return {'a', {err = 'ERR inside'}, {ok = 'inside'}}", "return {err = 'ERR x', ignore_error_stats_update = true}"])

    def test_helpers_for_status_and_error(self):
        self.everywhere(["return redis.status_reply('fine')", "return redis.error_reply('text')", "return redis.error_reply('-CODE text')",
                         "return redis.error_reply('CODE text')", "return redis.error_reply('')", "return redis.error_reply()",
                         "return redis.error_reply(1)", "return redis.error_reply('a', 'b')", "return redis.error_reply({})", "return redis.status_reply()",
                         "return redis.status_reply(1)", "return redis.status_reply({})", "return redis.status_reply('a', 'b')", "return redis.status_reply('')",
                         "return redis.error_reply('- text')", "return redis.error_reply('two\\r\\nlines')", "return redis.error_reply('no space')",
                         SHOW + "return show(redis.error_reply('text'))", SHOW + "return show(redis.status_reply('text'))",
                         SHOW + "return show(redis.error_reply('-A b'))"])

    def test_types_of_resp3(self):
        self.everywhere(["return {double = 1.5}", "return {double = 1/0}", "return {double = -1/0}", "return {double = 3}", "return {double = 'x'}", "return {double = 0.1}",
                         "return {double = 1e300}", "return {map = {}}", "return {map = {a = 1}}", "return {map = {a = {map = {b = false}}}}", "return {map = 1}",
                         "return {map = {[1] = 'x'}}", "return {set = {a = true}}", "return {set = {}}", "return {set = 1}", "return {set = {a = false}}",
                         "return {big_number = '123456789012345678901234567890'}", "return {big_number = 1}", "return {big_number = 'a\\r\\nb'}", "return {big_number = {}}",
                         "return {verbatim_string = {string = 'text', format = 'txt'}}", "return {verbatim_string = {string = 'text'}}", "return {verbatim_string = {format = 'txt'}}",
                         "return {verbatim_string = 'x'}", "return {verbatim_string = {string = 'a\\nb', format = 'long'}}", "return {verbatim_string = {string = 1, format = 'txt'}}",
                         "return {{double = 2.5}, {map = {k = {double = 1}}}, {set = {x = 1}}}"])

    def test_deep_tables(self):
        for depth in (5, 100, 150):
            self.each(["local t = 'x'; for i = 1, %d do t = {t} end; return t" % depth], protocol=3)

    def test_a_table_that_contains_itself(self):
        """Redis stops at the limit of the C stack of Lua, with an error as deep as that; here the reply is an error. Both go on."""
        replies = []
        for client in self.clients():
            client.send(encode(["EVAL", "local t = {}; t[1] = t; return t", 0]) + encode(["PING"]))
            data, closed = client.raw(10, quiet=0.5)
            replies.append((data.endswith(b"+PONG\r\n"), closed))
        self.assertEqual(replies, [(True, False)] * 2)

    def test_metamethods_are_not_used_for_replies(self):
        self.everywhere(["return setmetatable({}, {__index = function(t, n) return n == 'ok' and 'made up' or nil end})",
                         "return setmetatable({1, 2}, {__len = function() return 9 end})", "return setmetatable({1}, {__index = function() error('x') end})",
                         "return setmetatable({}, {__tostring = function() return 'x' end})"])


class CallTest(LuaCase):
    """What redis.call returns to a script, and what it accepts."""

    DATA = ["SET s text", "SET n 10", "HSET h f v g 1.5", "RPUSH l a b c", "SADD u x", "SADD e x y z", "ZADD z 1 a 2.5 b inf c", "XADD x 1-1 f v", "XADD x 1-2 g w",
            "XGROUP CREATE x g 0", "GEOADD geo 1 1 here", "SET ttl v EX 1000", "PFADD p a b", "SETBIT b 7 1"]
    READS = ["GET s", "GET absent", "MGET s absent h", "STRLEN s", "INCR n", "INCRBYFLOAT n 1.5", "SET s new", "SET s x NX", "SET s y GET", "SETNX s z", "GETRANGE s 0 0",
             "HGETALL h", "HGETALL absent", "HGET h f", "HGET h no", "HMGET h f no", "HKEYS u", "HKEYS absent", "HLEN h", "HINCRBYFLOAT h g 1", "HRANDFIELD h 2 WITHVALUES",
             "HRANDFIELD absent", "HSCAN h 0", "LRANGE l 0 -1", "LPOP absent", "LPOP absent 2", "LPOP l 2", "LPOS l a", "LPOS l none", "LINDEX l 99", "LMPOP 1 l LEFT",
             "LMPOP 1 absent LEFT", "SMEMBERS u", "SMEMBERS absent", "SMISMEMBER u x y", "SPOP absent", "SRANDMEMBER absent", "SINTER u e", "ZSCORE z b", "ZSCORE z c",
             "ZSCORE z none", "ZMSCORE z a none", "ZRANGE z 0 -1", "ZRANGE z 0 -1 WITHSCORES", "ZPOPMIN z", "ZPOPMAX z 2", "ZPOPMIN absent",
             "ZADD z INCR 1 a", "ZADD z NX INCR 1 a", "ZINCRBY z 1 a", "ZRANK z none", "ZMPOP 1 absent MIN", "XRANGE x - +", "XREAD STREAMS x 0", "XREAD STREAMS absent 0",
             "XREADGROUP GROUP g c STREAMS x >", "XPENDING x g", "XLEN x", "XADD x 2-1 a b", "XINFO GROUPS absent", "GEOPOS geo here none", "GEODIST geo here here",
             "GEODIST geo here none", "GEOSEARCH geo FROMMEMBER here BYRADIUS 1 m WITHCOORD WITHDIST", "TYPE s", "TYPE absent", "OBJECT ENCODING n", "OBJECT ENCODING absent",
             "EXISTS s absent", "TTL absent", "RENAME s t", "RENAME absent t", "DEL t", "EXPIRE h 100", "PERSIST h", "SORT e ALPHA", "SORT e ALPHA GET absent*", "BITFIELD b GET u8 0",
             "BITFIELD b OVERFLOW FAIL INCRBY u1 7 1", "PFCOUNT p", "PING", "PING text", "ECHO x", "DBSIZE", "KEYS none*", "SCAN 0 MATCH none COUNT 1000", "COPY h h2", "MOVE h 1", "SELECT 0",
             "EVALSHA x", "LCS n n IDX", "LCS n n", "COMMAND COUNT x", "CLIENT NOSUCH", "GEOHASH geo here none", "MSET a 1 b 2", "MSETNX a 1 c 2", "TOUCH a b", "SWAPDB 0 99"]

    def prepare(self):
        self.both("\n".join(["FLUSHALL"] + self.DATA))

    def test_replies_as_lua_values(self):
        for protocol in (2, 3):
            self.prepare()
            self.each([(SHOW + "redis.setresp(%d); return show(redis.pcall(unpack(ARGV)))" % protocol, 0, *line.split()) for line in self.READS])

    def test_replies_returned_as_they_are(self):
        for client in (2, 3):
            for within in (2, 3):
                self.prepare()
                self.each([("redis.setresp(%d); return redis.pcall(unpack(ARGV))" % within, 0, *line.split()) for line in self.READS], protocol=client)

    def test_errors_of_call_end_the_script(self):
        self.prepare()
        self.each([("redis.call(unpack(ARGV)); return 'not reached'", 0, *line.split()) for line in (
            "INCR s", "LPUSH s x", "GET", "GET a b", "NOSUCH", "NOSUCH a b", "HSET h f", "OBJECT", "OBJECT NOSUCH k", "SETRANGE s -1 x", "XADD x 0-0 f v", "EXPIRE s abc",
            "SELECT 99", "RENAME absent x", "ZADD z x m", "RESTORE k 0 bad", "SORT h", "BLMPOP abc 1 l LEFT", "MULTI", "EVAL 'return 1' 0", "SUBSCRIBE x", "CONFIG GET x")])

    def test_every_type_of_the_protocol(self):
        """DEBUG PROTOCOL exists for this, where scripts may call it."""
        names = ["string", "integer", "double", "null", "array", "set", "map", "attrib", "push", "verbatim", "true", "false", "bignum"]
        for client in (2, 3):
            for within in (2, 3):
                self.each([("redis.setresp(%d); return redis.pcall('DEBUG', 'PROTOCOL', ARGV[1])" % within, 0, name) for name in names], protocol=client)

    def test_arguments_are_strings_and_numbers(self):
        for value in ("1", "-1", "1.5", "0.1", "1e15", "1e16", "1e17", "2^53", "2^62", "1e300", "1/3", "1/0", "-1/0", "100", "3.0", "'text'", "'a\\0b'", "''", "1e14 + 0.5",
                      "123456789.123456789", "-0.1", "5e-324"):
            with self.subTest(value=value):
                ours, theirs = (client.call("EVAL", "redis.call('SET', 'k', %s); return redis.call('GET', 'k')" % value, 0) for client in (self.c, self.r))
                self.assertTrue(ours == theirs or is_text_of_7_2(ours, float(theirs)), "%r, %r" % (ours, theirs))
        self.each(["return redis.call(%s)" % arguments for arguments in (
            "", "'GET'", "nil", "true", "{}", "'GET', nil", "'GET', true", "'GET', {}", "'GET', function() end", "1", "1, 2", "'SET', 'k', 'v', nil", "nil, 'GET', 'k'", "'get', 'k'",
            "'gEt', 'k'", "'GET ', 'k'", "''", "'', 'x'", "'SET', 'k'", "'config|get', 'x'", "'CLIENT', 'nosuch'", "print", "'\\0'")])
        self.each(["return redis.pcall(%s)" % arguments for arguments in ("", "nil", "'NOSUCH'", "'GET'", "'GET', {}", "{}", "'INCR', 'text'")])
        self.each([SHOW + "return show(redis.pcall(%s))" % arguments for arguments in ("", "nil", "'NOSUCH'", "'GET'", "'GET', {}")])

    def test_many_arguments(self):
        self.each(["local t = {}; for i = 1, %d do t[i] = i end; return redis.call('RPUSH', 'l%d', unpack(t))" % (count, count) for count in (100, 1000, 7000, 7990, 7999)])
        self.each(["local t = {}; for i = 1, 9000 do t[i] = i end; return redis.call('RPUSH', 'l', unpack(t))",
                   "local t = {}; for i = 1, 100000 do t[i] = i end; return redis.call('RPUSH', 'l', unpack(t))"])

    def test_pcall_and_error_values(self):
        self.prepare()
        self.each([SHOW + script for script in (
            "local ok, e = pcall(redis.call, 'INCR', 's'); return {tostring(ok), show(e)}",
            "local ok, e = pcall(redis.call, 'NOSUCH'); return {tostring(ok), show(e)}",
            "local ok, e = pcall(redis.call); return {tostring(ok), show(e)}",
            "local ok, e = pcall(redis.pcall, 'INCR', 's'); return {tostring(ok), show(e)}",
            "local e = redis.pcall('INCR', 's'); return e", "local e = redis.pcall('INCR', 's'); return e.err", "return redis.pcall('INCR', 's')['err']",
            "local ok, e = pcall(function() error('text') end); return {tostring(ok), show(e)}",
            "local ok, e = pcall(function() error({err = 'MY error'}) end); return {tostring(ok), show(e)}",
            "local ok, e = pcall(function() error() end); return {tostring(ok), show(e)}",
            "local ok, e = xpcall(function() return redis.call('INCR', 's') end, function(e) return e end); return {tostring(ok), show(e)}",
            "local ok, e = pcall(error); return {tostring(ok), show(e)}",
            "local c = coroutine.wrap(function() return redis.call('GET', 's') end); return c()",
            "local ok, e = coroutine.resume(coroutine.create(function() return redis.call('INCR', 's') end)); return {tostring(ok), show(e)}",
            "local c = coroutine.wrap(function() coroutine.yield(redis.call('GET', 's')); return redis.call('GET', 'n') end); return {c(), c()}",
            "coroutine.yield(1)", "return coroutine.running() and 1 or 0", "return coroutine.status(coroutine.create(function() end))")])

    def test_errors_that_end_a_script(self):
        self.prepare()
        self.each(["error('text')", "error('text', 0)", "error('text', 2)", "error({err = 'MY error'})", "error({err = 'text'})", "error(1)",
                   "error(redis.error_reply('CODE x'))", "error({err = ''})", "error('two\\r\\nlines')", "assert(false)", "assert(false, 'text')", "assert(nil, {err = 'CODE x'})", "local x = nil; return x.y", "local x = nil; x()",
                   "return 1 + {}", "return 'a' + 1", "return #nil", "return nil .. 'x'", "return {} < {}", "local t = {}; t[nil] = 1", "redis.call('INCR', 's'); return 1",
                   "return redis.call('SET', 'k', 'v') and redis.call('INCR', 's')", "\n\nerror('third line')", "\n\nredis.call('INCR', 's')",
                   "local function f() redis.call('INCR', 's') end\nf()", "local function f() error('deep') end\n\nlocal function g() f() end\ng()", "return select(0)",
                   "string.rep()", "return ('x'):bad()", "for i = 1, 'x' do end", "return unpack({}, 1, 1e8)", "local function f() return f() + 1 end; return f()"])

    @kelvin_only
    def test_errors_without_a_text(self):
        """Redis 7.0 crashes."""
        for script in ("error({})", "error()", "error(nil)", "error(true)", "error({ok = 'x'})", "error(function() end)", "error({err = {}})", "error({err = 1})",
                       "error(setmetatable({}, {__tostring = function() return 'x' end}))", "error(coroutine.create(function() end))"):
            with self.subTest(script=script):
                self.assertIsInstance(self.c.call("EVAL", script, 0), Error)
        self.assertEqual(self.c.call("EVAL", "return 1", 0), 1)

    def test_syntax_errors(self):
        for name in ("EVAL", "EVAL_RO"):
            self.each(["return", "retrun 1", "return 1 +", "x = = 1", "return 'open", "\n\nreturn )", "--", "-- comment\nreturn 1", "return 1;", "return 1 return 2", "goto x", "#", "\0",
                       "return '\0'", "if true then return 1", "return [[long\ntext]]", "break", "local a <const> = 1", "return 0xg", "return \xff", "for", "=", "return 1" + " " * 1000,
                       "local x = {" + "{" * 250 + "}" * 250 + "}", " ", "return ...", "return #{...}", "function f() end", "return function end"], name=name)

    def test_many_locals_and_long_scripts(self):
        self.each(["".join("local v%d = %d; " % (i, i) for i in range(199)) + "return v198", "".join("local v%d = %d; " % (i, i) for i in range(201)) + "return v198",
                   "return {" + ",".join(map(str, range(3000))) + "}", "local s = '' " + "s = s .. 'x' " * 5000 + "return #s"])


class EvalTest(LuaCase):
    """EVAL, EVALSHA and SCRIPT as commands."""

    SHA = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"        # of "return 1"

    def test_wrong_arguments(self):
        self.both("""
            EVAL
            EVAL x
            EVAL "return 1"
            EVAL "return 1" x
            EVAL "return 1" -1
            EVAL "return 1" 1
            EVAL "return 1" 2 a
            EVAL "return 1" 1.5 a
            EVAL "return 1" 0 a b
            EVAL "return #KEYS" 2 a b
            EVAL "return #ARGV" 1 a b c
            EVAL "return 1" 99999999999999999999
            EVAL "return 1" 2147483648
            EVAL_RO "return 1" -1
            EVAL_RO "return 1"
            EVALSHA
            EVALSHA x
            EVALSHA x 0
            EVALSHA x x
            EVALSHA x -1
            EVALSHA x 5
            EVALSHA_RO x 0
            EVALSHA "" 0
        """)

    def test_noscript_and_load(self):
        self.both("SCRIPT FLUSH")
        self.both("""
            EVALSHA %(sha)s 0
            SCRIPT EXISTS %(sha)s
            SCRIPT LOAD "return 1"
            SCRIPT EXISTS %(sha)s absent %(sha)s
            EVALSHA %(sha)s 0
            EVALSHA %(upper)s 0
            SCRIPT EXISTS %(upper)s
            EVALSHA_RO %(sha)s 0
            EVALSHA %(sha)s 1
            EVALSHA %(short)s 0
            EVALSHA %(sha)sx 0
            SCRIPT FLUSH
            EVALSHA %(sha)s 0
            EVAL "return 1" 0
            EVALSHA %(sha)s 0
            SCRIPT FLUSH ASYNC
            EVALSHA %(sha)s 0
            EVAL_RO "return 1" 0
            EVALSHA_RO %(sha)s 0
            SCRIPT FLUSH SYNC
            SCRIPT FLUSH BAD
            SCRIPT FLUSH SYNC x
            SCRIPT LOAD "retrun 1"
            SCRIPT LOAD
            SCRIPT LOAD a b
            SCRIPT EXISTS
            SCRIPT NOSUCH
            SCRIPT
            SCRIPT LOAD ""
            EVALSHA da39a3ee5e6b4b0d3255bfef95601890afd80709 0
        """ % {"sha": self.SHA, "upper": self.SHA.upper(), "short": self.SHA[:-1]})
        self.assertIsInstance(self.c.call("SCRIPT", "HELP"), list)

    def test_a_failed_script_is_not_cached(self):
        self.both("SCRIPT FLUSH")
        self.both([["EVAL", "retrun 1", 0], ["SCRIPT", "EXISTS", "0" * 40], ["EVAL", "return nosuch", 0], ["EVAL", "error('x')", 0]])
        import hashlib
        self.both([["SCRIPT", "EXISTS"] + [hashlib.sha1(text).hexdigest() for text in (b"retrun 1", b"return nosuch", b"error('x')")]])

    def test_kill_and_debug_when_nothing_runs(self):
        self.both("""
            SCRIPT KILL
            SCRIPT KILL x
            SCRIPT DEBUG NO
            SCRIPT DEBUG BAD
            SCRIPT DEBUG
            SCRIPT KILL
        """)

    def test_scripts_are_known_to_all_clients(self):
        for client in self.clients(), self.clients():
            self.both([["SCRIPT", "LOAD", "return 'shared'"]])
            self.both([["EVALSHA", self.c.must("SCRIPT", "LOAD", "return 'shared'"), 0]], client)

    def test_a_script_sees_its_keys_and_arguments(self):
        self.each([("return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], #KEYS, #ARGV}", 2, "a", "b", "c", "d"), ("KEYS[1] = 'x'; ARGV[1] = 'y'; return {KEYS[1], ARGV[1]}", 1, "a", "b"),
                   ("KEYS[5] = 'x'; return #KEYS", 1, "a", "b"), ("KEYS = {}; return 1", 0), ("ARGV = nil; return 1", 0), ("return {type(KEYS), type(ARGV)}", 0),
                   ("local t = {}; for i, k in ipairs(KEYS) do t[i] = k .. i end; return t", 3, "a", "b", "c")])

    def test_keys_that_are_not_declared(self):
        self.each(["redis.call('SET', 'one', 1); redis.call('SET', 'two', 2); return redis.call('MGET', 'one', 'two')",
                   "for i = 1, 100 do redis.call('RPUSH', 'list:' .. (i % 7), i) end; return redis.call('LRANGE', 'list:3', 0, -1)",
                   "return redis.call('DEL', unpack(redis.call('KEYS', 'list:*')))"])

    def test_select_in_a_script_ends_with_it(self):
        self.both([["SET", "k", "zero"], ["EVAL", "redis.call('SELECT', 1); redis.call('SET', 'k', 'one'); return redis.call('GET', 'k')", 0], ["GET", "k"],
                   ["EVAL", "redis.call('SELECT', 1); return redis.call('GET', 'k')", 0], ["EVAL", "return redis.call('SELECT', 99)", 0],
                   ["EVAL", "redis.call('SELECT', 1); error('x')", 0], ["GET", "k"], ["SELECT", 1], ["GET", "k"], ["EVAL", "return redis.call('GET', 'k')", 0],
                   ["EVAL", "redis.call('SELECT', 0); redis.call('SWAPDB', 0, 1); return redis.call('GET', 'k')", 0], ["GET", "k"],
                   ["EVAL", "redis.call('MOVE', KEYS[1], 2); redis.call('SELECT', 2); return {redis.call('GET', 'k'), redis.call('DBSIZE')}", 1, "k"]])

    def test_counts_and_lists_of_keys(self):
        self.both("MSET a 1 b 2 c 3")
        self.each(["redis.call('SET', 'd', 4); redis.call('DEL', 'a'); local k = redis.call('KEYS', '*'); table.sort(k); return {redis.call('DBSIZE'), k}",
                   "redis.call('SET', 'e', 4); local r = redis.call('SCAN', 0, 'COUNT', 100); table.sort(r[2]); return r",
                   "redis.call('FLUSHDB'); return {redis.call('DBSIZE'), redis.call('RANDOMKEY'), redis.call('KEYS', '*')}",
                   "redis.call('SET', 'only', 1); return {redis.call('RANDOMKEY'), redis.call('DBSIZE')}", "redis.call('FLUSHALL'); return redis.call('EXISTS', 'only')"])

    def test_sort_in_a_script(self):
        self.both("RPUSH l 3 1 2\nMSET w_1 30 w_2 20 w_3 10 n_1 one n_2 two n_3 three\nSADD s b a c 10 9")
        self.each(["return redis.call('SORT', 'l')", "return redis.call('SORT', 'l', 'BY', 'w_*', 'GET', 'n_*')", "return redis.call('SORT', 's', 'ALPHA')",
                   "redis.call('SET', 'w_3', 99); redis.call('SORT', 'l', 'BY', 'w_*', 'STORE', 'm'); return redis.call('LRANGE', 'm', 0, -1)",
                   "return redis.call('SORT_RO', 'l', 'DESC')"])

    def test_blocking_commands_in_a_script(self):
        for name in ("call", "pcall"):
            self.each(["return redis.%s(%s)" % (name, call) for call in (
                "'BLMPOP', 0, 1, 'k', 'LEFT'", "'BZMPOP', 0, 1, 'k', 'MIN'", "'XREAD', 'BLOCK', 0, 'STREAMS', 'k', '$'", "'XREADGROUP', 'GROUP', 'g', 'c', 'BLOCK', 0, 'STREAMS', 'k', '>'")])

    @kelvin_only
    def test_what_scripts_of_7_2_may_call(self):
        """They do not block. 7.0, the oracle, refuses them; these are the replies of 7.2.6."""
        def run(call):
            return self.c.call("EVAL", "return redis.call(%s)" % call, 0)
        for call in ("'BLPOP', 'k', 0", "'BRPOP', 'k', 0", "'BLMOVE', 'k', 'l', 'LEFT', 'LEFT', 0", "'BRPOPLPUSH', 'k', 'l', 0", "'BZPOPMIN', 'k', 0", "'BZPOPMAX', 'k', 0"):
            self.assertIsNone(run(call), call)
        for call in ("'WAIT', 0, 0", "'WAIT', 1, 0", "'WAIT', 5, 100000"):
            self.assertEqual(run(call), 0, call)
        self.assertRegex(run("'BLPOP', 'k', 'x'"), b"^ERR timeout is not a float or out of range script: ")
        self.assertRegex(run("'WAITAOF', 0, 0, 0"), b"^ERR This Redis command is not allowed from script script: ")
        self.c.must("RPUSH", "k", "a", "b", "c", "d")
        self.c.must("ZADD", "z", 1, "one", 2, "two", 3, "three")
        self.assertEqual([run(call) for call in ("'BLPOP', 'none', 'k', 0", "'BRPOP', 'k', 0", "'BLMOVE', 'k', 'l', 'LEFT', 'LEFT', 0", "'BRPOPLPUSH', 'k', 'l', 0",
                                                 "'BZPOPMIN', 'z', 0", "'BZPOPMAX', 'none', 'z', 0", "'LRANGE', 'l', 0, -1", "'EXISTS', 'k'")],
                         [[b"k", b"a"], [b"k", b"d"], b"b", b"c", [b"z", b"one", b"1"], [b"z", b"three", b"3"], [b"c", b"b"], 0])
        self.assertEqual(self.c.pipeline([["MULTI"], ["EVAL", "return redis.call('BLPOP', 'k', 0)", 0], ["EXEC"]])[-1], [None])

    def test_commands_that_a_script_may_not_call(self):
        """Every command, without arguments: allowed ones have a wrong arity, or a reply."""
        names = sorted({each[0].decode() for each in self.c.must("COMMAND")} & {each[0].decode() for each in self.r.must("COMMAND")} - NOT_CALLED)
        self.each([(SHOW + "return show(redis.pcall(ARGV[1]))", 0, name) for name in names if name != "latency"])
        for name in names:
            arity = abs(self.r.must("COMMAND", "INFO", name)[0][1])
            if name not in ("debug", "shutdown", "cluster", "module", "acl", "client", "config", "latency", "memory", "slowlog", "script", "function", "object", "pubsub",
                            "xinfo", "xgroup", "migrate", "psync", "sync", "failover", "tier", "spop", "swapdb", "select", "keys", "scan", "sort", "dump", "ping"):
                self.both("FLUSHALL")
                self.each([(SHOW + "return show(redis.pcall(unpack(ARGV)))", 0, name, *["1"] * (arity - 1))])

    def test_subcommands_that_a_script_may_not_call(self):
        self.each([(SHOW + "return show(redis.pcall(unpack(ARGV)))", 0, *line.split()) for line in (
            "CLIENT LIST", "CLIENT GETNAME", "CLIENT SETNAME x", "CLIENT PAUSE 1", "CLIENT KILL ID 1", "CLIENT REPLY OFF", "CONFIG GET port", "CONFIG SET port 1", "CONFIG RESETSTAT",
            "SCRIPT LOAD x", "SCRIPT FLUSH", "SCRIPT EXISTS x", "SCRIPT KILL", "FUNCTION LIST", "FUNCTION FLUSH", "FUNCTION LOAD x", "OBJECT ENCODING absent", "OBJECT FREQ absent",
            "MEMORY USAGE absent", "DEBUG SLEEP 0", "DEBUG OBJECT k", "COMMAND GETKEYS GET k", "LATENCY RESET", "XINFO STREAM absent", "XGROUP CREATE absent g 0",
            "PUBSUB NUMPAT", "HELLO 3", "AUTH x", "RESET", "QUIT", "SAVE", "BGSAVE", "BGREWRITEAOF", "SHUTDOWN NOSAVE", "MONITOR", "SUBSCRIBE x", "PSUBSCRIBE x", "SSUBSCRIBE x",
            "UNSUBSCRIBE x", "WATCH k", "UNWATCH", "MULTI", "EXEC", "DISCARD", "EVAL x 0", "EVALSHA x 0", "FCALL x 0", "REPLICAOF NO ONE", "LASTSAVE x")])

    @kelvin_only
    def test_tiers_are_not_moved_by_scripts(self):
        self.c.must("SET", "k", "v")
        for call in ("'TIER', 'DEMOTE', 'k'", "'TIER', 'PROMOTE', 'k'", "'TIER', 'BACKUP', 'never'"):
            reply = self.c.call("EVAL", "return redis.call(%s)" % call, 0)
            self.assertIsInstance(reply, Error)
            self.assertIn(b"This Redis command is not allowed from script", reply)

    def test_publish_in_a_script(self):
        self.present("PUBLISH")
        self.dialog([("b", "SUBSCRIBE", "ch"), ("a", "EVAL", "return {redis.call('PUBLISH', 'ch', 'one'), redis.call('PUBLISH', 'ch', 'two'), redis.call('PUBLISH', 'none', 'x')}", 0),
                     ("b", "@receive"), ("b", "@receive")], protocol=3)

    @kelvin_only
    def test_a_message_to_oneself_comes_after_the_reply(self):
        """As in 7.2; 7.0 sends it in the middle of the reply."""
        self.present("SUBSCRIBE")
        client = self.client_of_resp3()
        client.must("SUBSCRIBE", "ch")
        self.assertEqual(client.call("EVAL", "redis.call('PUBLISH', 'ch', 'one'); redis.call('PUBLISH', 'ch', 'two'); return {1, 2}", 0), [1, 2])
        self.assertEqual([client.receive(), client.receive()], [Push([b"message", b"ch", b"one"]), Push([b"message", b"ch", b"two"])])
        for command in (["MULTI"], ["PUBLISH", "ch", "three"], ["SET", "k", "v"], ["PUBLISH", "ch", "four"]):
            client.must(*command)
        self.assertEqual(client.call("EXEC"), [1, Status(b"OK"), 1])
        self.assertEqual([client.receive(), client.receive()], [Push([b"message", b"ch", b"three"]), Push([b"message", b"ch", b"four"])])

    def client_of_resp3(self):
        client = self.server.client(protocol=3)
        self.addCleanup(client.close)
        return client

    def test_blocked_clients_are_served_after_the_script(self):
        self.dialog([("b", "!", "BLPOP", "l", 0), ("a", "@waiting", 1), ("a", "EVAL", "redis.call('RPUSH', 'l', 'one'); redis.call('RPUSH', 'l', 'two'); return redis.call('LLEN', 'l')", 0),
                     ("b", "@receive"), ("a", "LRANGE", "l", 0, -1), ("b", "!", "BLPOP", "m", 0), ("a", "@waiting", 1),
                     ("a", "EVAL", "redis.call('RPUSH', 'm', 'one'); redis.call('DEL', 'm'); return 1", 0), ("a", "@waiting", 1), ("a", "RPUSH", "m", "x"), ("b", "@receive")])

    def test_time_does_not_pass_for_expiry(self):
        wait = "for i = 1, 2e7 do end; "
        self.each(["redis.call('SET', 'k', 'v', 'PX', 30); %s return {redis.call('GET', 'k'), redis.call('EXISTS', 'k')}" % wait])
        self.both("GET k")
        self.each(["redis.call('SET', 'k', 'v', 'PX', 1); %s redis.call('PERSIST', 'k'); return redis.call('GET', 'k')" % wait])
        self.both("GET k")

    @kelvin_only
    def test_time_is_one_instant_within_a_script(self):
        first, second = self.c.must("EVAL", "local a = redis.call('TIME'); for i = 1, 2e6 do end; "
                                    "local b = redis.call('TIME'); return {a[1] .. a[2], b[1] .. b[2]}", 0)
        self.assertEqual(first, second)

    def test_random_numbers_are_the_same_in_each_run(self):
        self.each(["local t = {}; for i = 1, 20 do t[i] = tostring(math.random()) end; return t", "local t = {}; for i = 1, 20 do t[i] = math.random(1000000) end; return t",
                   "local t = {}; for i = 1, 20 do t[i] = math.random(-5, 5) end; return t", "math.randomseed(42); return {math.random(1000), math.random(1000), math.random(1000)}",
                   "math.randomseed(0); return {math.random(1000), math.random(1000)}", "math.randomseed(-7.9); return math.random(1000)", "return math.random(0)", "return math.random(5, 1)",
                   "return math.random(1, 2, 3)", "return math.random('x')", "math.randomseed()", "return {math.random(1), math.random(2^31)}", "return {math.random(1000), math.random(1000)}"])

    def test_a_changed_script_is_another_script(self):
        self.each(["return 1", "return 1 ", "return  1", "return 1\n", "--x\nreturn 1"])

    def test_no_globals_from_one_script_to_the_next(self):
        self.each(["x = 1", "return x", "_G.x = 1", "rawset(_G, 'x', 1)", "setmetatable(_G, {})", "local e = getfenv and getfenv(1); return type(e)", "function f() end", "return rawget(_G, 'x')",
                   "return type(rawget(_G, 'redis'))", "return _G.nosuch", "return nosuch", "local x = nosuch", "return KEYS == nil", "string.mine = 1", "return string.mine",
                   "table.insert = nil", "redis.call = nil", "redis.mine = 1", "cjson.encode = nil", "math.pi = 3", "getmetatable('').__index = nil", "return type(getmetatable(''))",
                   "getmetatable('').__index.upper = nil",
                   "setmetatable(redis, {})", "setmetatable(string, nil)", "setmetatable('', {})", "rawset(string, 'x', 1)", "rawset(redis, 'x', 1)", "rawset(_G, 'KEYS', {})",
                   "for k in pairs(redis) do redis[k] = nil end", "table.insert(_G, 1)", "table.sort(redis)", "next(redis); return 1", "_G = 1", "_VERSION = 2", "KEYS = 1", "ARGV = 1"])


class FlagsTest(LuaCase):
    """#!lua flags=..., EVAL_RO, and memory."""

    WRITE, READ = "return redis.call('SET', 'k', 'v')", "return redis.call('GET', 'k')"

    def test_shebang(self):
        self.each([head + "\nreturn 1" for head in (
            "#!lua", "#!lua ", "#!lua flags=", "#!lua flags=no-writes", "#!lua flags=no-writes,allow-stale", "#!lua flags=allow-oom", "#!lua flags=no-cluster", "#!lua flags=allow-cross-slot-keys",
            "#!lua flags=bad", "#!lua flags=no-writes,bad", "#!lua name=x", "#!lua x", "#!lua flags=no-writes flags=allow-oom", "#!lua flags = no-writes", "#!", "#!bad", "#! lua", "#!LUA",
            "#!lua flags=no-writes,", "#!lua flags=,", "#!lua  flags=no-writes", "#!lua\tflags=no-writes", "#!lua flags=NO-WRITES", " #!lua", "#!/usr/bin/lua", "#!lua name=mylib flags=no-writes")])
        self.each(["#!lua", "#!lua flags=no-writes", "#!lua\n", "#!lua\n\nerror('line 3')", "#!lua\nreturn nosuch", "#!lua\nretrun 1", "#!lua\r\nreturn 1", "#!lua\n" + self.WRITE])

    def test_scripts_that_do_not_write(self):
        for head in ("#!lua flags=no-writes\n", "#!lua\n", ""):
            for name in ("EVAL", "EVAL_RO"):
                self.each([head + script for script in (self.WRITE, self.READ, "return redis.pcall('SET', 'k', 'v')", "return redis.call('INCR', 'k')", "return redis.call('PUBLISH', 'ch', 'x')",
                                                        "return redis.call('PFCOUNT', 'k2')", "return redis.call('EXPIRE', 'k', -1)", "return redis.call('DEL', 'absent')", "return redis.call('GETEX', 'k')",
                                                        "return redis.call('SORT', 'absent')", "return redis.call('SORT_RO', 'absent')", "return redis.call('FLUSHALL')",
                                                        "return redis.call('SPUBLISH', 'ch', 'x')", "return redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 'x', '>')")], name=name)
        sha = self.c.must("SCRIPT", "LOAD", self.WRITE)
        self.r.must("SCRIPT", "LOAD", self.WRITE)
        self.both([["EVALSHA_RO", sha, 0], ["EVALSHA", sha, 0]])

    def test_memory_is_checked_before_the_first_write(self):
        options = {"maxmemory": "1", "maxmemory-policy": "noeviction", "tier-enabled": "no"}
        with Server(options) as ours, Server({"maxmemory": "1"}, binary=self.oracle.binary) as oracle:
            pair = ours.client(), oracle.client()
            for head in ("", "#!lua\n", "#!lua flags=allow-oom\n", "#!lua flags=no-writes\n", "#!lua flags=no-writes,allow-oom\n"):
                for script in (self.WRITE, self.READ, "return redis.pcall('SET', 'k', 'v')", "redis.call('DEL', 'k'); return redis.call('SET', 'k', 'v')", "return redis.call('DEL', 'x')", "return 1",
                               "redis.call('DEL', 'k'); local r = redis.pcall('SET', 'k', 'v'); return r.err or 'written'"):
                    self.both([["EVAL", head + script, 0], ["EVAL", head + script, 1, "k"]], pair)
                self.both([["EVAL_RO", head + self.READ, 0], ["SCRIPT", "LOAD", head + self.WRITE]], pair)
            for client in pair:
                client.close()

    def test_errors_are_counted_once(self):
        for client in (self.c, self.r):
            client.must("CONFIG", "RESETSTAT")
        self.each(["return redis.call('INCR', 'k')", "return redis.pcall('NOSUCH')", "error('x')", "error({err = 'MINE x'})", "return {err = 'OWN y'}", "return redis.pcall('LPUSH', 'k', 'x')",
                   "local e = redis.pcall('LPUSH', 'k', 'x'); return redis.pcall('LPUSH', 'k', 'x')", "pcall(redis.call, 'LPUSH', 'k', 'x'); return 1", "retrun", "return redis.error_reply('TWO z')"])
        found = []
        for client in (self.c, self.r):
            text = client.must("INFO", "errorstats").decode() + client.must("INFO", "commandstats").decode()
            found.append(sorted(line.split(",usec")[0] + line[line.find(",rejected"):] for line in text.split("\r\n")
                                if line.startswith(("errorstat", "cmdstat_eval:", "cmdstat_incr:", "cmdstat_lpush:"))))
        self.assertEqual(*found)


class ApiTest(LuaCase):
    """The table redis."""

    def test_sha1hex(self):
        self.each(["return redis.sha1hex('')", "return redis.sha1hex('x')", "return redis.sha1hex(string.rep('x', 100000))", "return redis.sha1hex(1)", "return redis.sha1hex(1.5)",
                   "return redis.sha1hex()", "return redis.sha1hex('a', 'b')", "return redis.sha1hex(nil)", "return redis.sha1hex({})", "return redis.sha1hex(true)"])

    def test_setresp(self):
        self.each(["return redis.setresp(2)", "redis.setresp(1)", "redis.setresp(4)", "redis.setresp()", "redis.setresp('3')", "redis.setresp('x')", "redis.setresp(2, 3)", "redis.setresp({})",
                   "redis.setresp(3); redis.setresp(2); return redis.call('HGETALL', 'x')", "redis.setresp(3.5)"])
        self.both([["HSET", "h", "f", "v"], ["EVAL", "redis.setresp(3); return redis.call('HGETALL', 'h')", 0], ["EVAL", "return redis.call('HGETALL', 'h')", 0]])

    def test_log(self):
        self.each(["redis.log(redis.LOG_NOTICE, 'text')", "redis.log(redis.LOG_DEBUG, 'a', 'b', 1)", "redis.log()", "redis.log(redis.LOG_NOTICE)", "redis.log('x', 'y')", "redis.log(99, 'x')",
                   "redis.log(-1, 'x')", "redis.log(redis.LOG_WARNING, {})", "redis.log(redis.LOG_WARNING, nil)", "return redis.log(redis.LOG_VERBOSE, 'x')", "redis.log(1.5, 'x')", "redis.log('2', 'x')",
                   "return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}"])

    def test_replication(self):
        self.each(["return redis.replicate_commands()", "redis.set_repl(redis.REPL_ALL); return 1", "redis.set_repl(redis.REPL_NONE); return redis.call('SET', 'k', 'v')", "redis.set_repl()",
                   "redis.set_repl(9)", "redis.set_repl('x')", "redis.set_repl(redis.REPL_AOF); redis.set_repl(redis.REPL_SLAVE); redis.set_repl(redis.REPL_REPLICA); return 1", "redis.set_repl(-1)",
                   "redis.set_repl(1, 2)", "return {redis.REPL_ALL, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_NONE}", "redis.set_repl(1.5)"])

    def test_debugging(self):
        self.each(["return redis.breakpoint()", "return tostring(redis.breakpoint())", "redis.debug('x')", "return redis.debug()", "redis.debug(1, {}, nil)"])

    def test_acl(self):
        self.each(["return redis.acl_check_cmd('GET', 'k')", "return redis.acl_check_cmd('SET', 'k', 'v')", "return redis.acl_check_cmd()", "return redis.acl_check_cmd('NOSUCH')",
                   "return redis.acl_check_cmd('GET')", "return redis.acl_check_cmd({})", "return redis.acl_check_cmd('GET', nil)", "return tostring(redis.acl_check_cmd('FLUSHALL'))",
                   "return redis.acl_check_cmd('CONFIG')", "return redis.acl_check_cmd('CONFIG', 'GET', 'x')"])

    def test_versions(self):
        if is_redis():
            return
        info = self.server.info("server")
        text, number = self.c.must("EVAL", "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}", 0)
        self.assertEqual(text.decode(), info["redis_version"])
        major, minor, patch = map(int, info["redis_version"].split("."))
        self.assertEqual(number, major << 16 | minor << 8 | patch)

    def test_functions_are_not_registered_by_scripts(self):
        self.each(["redis.register_function('f', function() end)", "return type(redis.register_function)", "redis.register_function()"])

    def test_the_names_in_every_table(self):
        """Those of redis-server that scripts have no use for are not here; `os` came with 7.4."""
        internal = {b"__redis__err__handler function", b"_COPYRIGHT string", b"os table"}
        for name in ("_G", "redis", "string", "table", "math", "coroutine", "cjson", "cmsgpack", "struct", "bit", "debug", "io", "package", "getmetatable('')"):
            with self.subTest(name=name):
                script = "local t = {}; for k, v in pairs(%s) do t[#t + 1] = tostring(k) .. ' ' .. type(v) end; table.sort(t); return t" % name
                ours, theirs = (client.call("EVAL", script, 0) for client in (self.c, self.r))
                self.assertEqual(*[[each for each in reply if each not in internal] if isinstance(reply, list) else reply for reply in (ours, theirs)])

    def test_what_is_not_there(self):
        self.each(["return type(%s)" % name for name in (
            "print", "io", "require", "module", "package", "dofile", "loadfile", "load", "loadstring", "debug", "newproxy", "getfenv", "setfenv", "collectgarbage", "gcinfo", "rawget", "rawset", "rawequal",
            "string.dump", "math.random", "coroutine.create", "unpack", "select", "xpcall", "jit", "ffi", "_VERSION")])

    def test_readonly_tables(self):
        self.each(["return loadstring('return 1')()", "local f = loadstring('return 1 +'); return type(f)", "local f, e = loadstring('return 1 +'); return e", "return type(loadstring('\\27Lua'))",
                   "return load(function() return nil end) and 1", "local done; local f = load(function() if not done then done = true; return 'return 7' end end); return f()", "return loadstring('x = 1')()",
                   "return loadstring('return nosuch')()", "setfenv(1, {}); return 1", "return getfenv(0) == _G", "setfenv(0, {}); return 1", "local f = function() return x end; setfenv(f, {x = 5}); return f()",
                   "newproxy(true); return 1", "return collectgarbage('count') > 0", "return collectgarbage('nosuch')", "return collectgarbage()", "return gcinfo and 1", "return dofile('/etc/passwd')",
                   "return loadfile('/etc/passwd')", "return io.open('/etc/passwd')"])

    def test_bytecode_is_refused(self):
        for script in ("return loadstring('\\27Lua')()", "return loadstring(string.dump(function() return 1 end))()", "return load(function() return '\\27Lua' end)()",
                       "return loadstring(string.dump(loadstring('return 1')))()"):
            with self.subTest(script=script):
                for client in (self.c, self.r):
                    self.assertIsInstance(client.call("EVAL", script, 0), Error)

    def test_the_metatable_of_globals_can_not_be_changed(self):
        for script in ("getmetatable(_G).__index = nil", "getmetatable(_G).__newindex = nil", "setmetatable(_G, nil)", "getmetatable(redis).__newindex = nil", "rawset(getmetatable(_G) or _G, '__index', nil)"):
            with self.subTest(script=script):
                for client in (self.c, self.r):
                    self.assertIsInstance(client.call("EVAL", script, 0), Error)


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdCallTest(CallTest):
    """The same with four workers, and keys that are cold before each command."""
    options = {"io-threads": "4"}

    def before_command(self):
        self.make_cold()


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdEvalTest(EvalTest):
    options = {"io-threads": "4"}
    demote = True

    def before_command(self):
        self.make_cold()


if __name__ == "__main__":
    main()
