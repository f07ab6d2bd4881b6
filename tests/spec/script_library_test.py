"""The libraries that scripts have (cjson, cmsgpack, struct, bit, and those of Lua), compared with redis-server: results, and errors."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.lua import LuaCase, SHOW                                                               # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import Server, scaled, seed_new                                                 # noqa: E402


class JsonTest(LuaCase):
    def test_encode(self):
        self.shown(["cjson.encode(%s)" % value for value in (
            "1", "-1", "1.5", "0.1", "1e15", "1e16", "1e300", "1/3", "2^53", "123456789012345", "-0", "0", "'text'", "''", "'a\\0b'", "'\\1\\31\\127'", "'\\195\\164'", "'\\255'",
            "'\"\\\\/\\b\\f\\n\\r\\t'", "true", "false", "nil", "cjson.null", "{}", "{1, 2, 3}", "{a = 1}", "{{}, {}}", "{1, nil, 3}", "{[1] = 1, [2] = 2, [3] = 3}", "{[5] = 1}", "{[1] = 1, [3] = 3}",
            "{[1] = 1, a = 2}", "{[1.5] = 1}", "{[-1] = 1}", "{[0] = 1}", "{[true] = 1}", "{[{}] = 1}", "function() end", "{function() end}", "coroutine.create(function() end)", "1/0", "-1/0", "0/0",
            "{[1] = 1, [11] = 2}", "{[1] = 1, [10] = 2}", "{[20] = 1}", "{[2] = 'x', [1] = 'y'}", "setmetatable({}, {__index = function() return 1 end})", "{a = {b = {c = {}}}}", "{['1'] = 'text'}",
            "{'a', 'b', n = 2}", "print", "{cjson.null, cjson.null}", "'</script>'", "string.rep('x', 1000)", "12345678901234567890", "5e-324", "1.7976931348623157e308", "0.30000000000000004")], texts=False)
        self.shown(["cjson.encode()", "cjson.encode(1, 2)", "pcall(cjson.encode)"], texts=False)

    def test_encode_depth(self):
        for depth in (10, 999, 1000, 1001):
            self.shown(["#cjson.encode(nest())"], "local function nest() local t = {}; for i = 1, %d do t = {t} end; return t end; " % depth, texts=False)
        self.shown(["cjson.encode(t)"], "local t = {}; t[1] = t; ", texts=False)
        self.shown(["cjson.encode(t)"], "local t = {}; t.a = {b = t}; ", texts=False)

    TEXTS = ["1", "-1", "1.5", "1e5", "1E+5", "-0", "01", "+1", ".5", "5.", "0x10", "1e400", "nan", "NaN", "inf", "Infinity", "-inf", "123456789012345678901", "true", "false", "null", "True", "nul",
             "\"text\"", "\"\"", "\"a\\nb\"", "\"\\u00e4\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\u0000\"", "\"\\u12\"", "\"\\x\"", "\"open", "\"a\tb\"", "\"a\nb\"", "\"\\/\"", "{}",
             "[]", "[1,2,3]", "[1,]", "[,1]", "[1 2]", "[", "]", "[[[[]]]]", "{\"a\":1}", "{\"a\":1,\"a\":2}", "{\"a\"}", "{\"a\":}", "{a:1}", "{1:2}", "{\"1\":2}", "{\"a\":1,}", "{", "}", "{\"a\":{\"b\":[null]}}",
             "[null]", "[null,1]", " 1 ", "\n\t[ 1 , 2 ]\r\n", "1 2", "", " ", "'x'", "/* x */ 1", "// x", "\x00", "1\x00", "[1]\x00", "\"a\x00b\"", "\x01", "{\"\":1}", "[1.0]", "[100000000000000000000]",
             "\xef\xbb\xbf1", "tru", "truee", "[true false]", "-", "1e", "1e+", "--1", "1.2.3", "[1,[2,[3]]]"]

    def test_decode(self):
        script = SHOW + "local ok, a, b = pcall(cjson.decode, ARGV[1]); return {tostring(ok), show(a), show(b)}"
        self.values([(script, 0, text.encode("latin1")) for text in self.TEXTS])
        self.values([(script, 0, b'{"a":' + text.encode("latin1") + b"}") for text in self.TEXTS])
        self.shown(["cjson.decode()", "cjson.decode(nil)", "cjson.decode({})", "cjson.decode(12)", "cjson.decode('1', '2')", "cjson.decode(true)", "cjson.decode('null') == cjson.null", "type(cjson.null)",
                    "cjson.decode('[null]')[1] == cjson.null", "cjson.encode(cjson.decode('{\"a\":[1,null,{}]}'))", "cjson.encode(cjson.decode('[]'))"], texts=False)

    def test_decode_depth(self):
        script = SHOW + "local ok, a = pcall(cjson.decode, ARGV[1]); return {tostring(ok), ok and 'decoded' or show(a)}"
        for depth in (10, 999, 1000, 1001, 100000):
            self.values([(script, 0, b"[" * depth + b"]" * depth), (script, 0, b"[" * depth), (script, 0, b'{"a":' * depth + b"1" + b"}" * depth)])

    def test_settings(self):
        self.shown(["cjson.encode_max_depth()", "cjson.encode_max_depth(5)", "cjson.encode_max_depth()", "cjson.encode_max_depth(0)", "cjson.encode_max_depth('x')", "cjson.encode_max_depth(1000)",
                    "cjson.decode_max_depth()", "cjson.decode_max_depth(1000)", "cjson.decode_max_depth(-1)", "cjson.encode_number_precision()", "cjson.encode_number_precision(3)", "cjson.encode(1/3)",
                    "cjson.encode_number_precision(14)", "cjson.encode_number_precision(0)", "cjson.encode_number_precision(17)", "cjson.encode_number_precision(14)", "cjson.encode_keep_buffer()",
                    "cjson.encode_keep_buffer(false)", "cjson.encode_keep_buffer(true)", "cjson.encode_keep_buffer('x')", "cjson.encode_invalid_numbers()", "cjson.encode_invalid_numbers(true)",
                    "cjson.encode(1/0)", "cjson.encode_invalid_numbers('null')", "cjson.encode(0/0)", "cjson.encode_invalid_numbers(false)", "cjson.encode_invalid_numbers('bad')",
                    "cjson.decode_invalid_numbers()", "cjson.decode_invalid_numbers(false)", "cjson.decode('nan')", "cjson.decode_invalid_numbers(true)", "cjson.encode_sparse_array()",
                    "cjson.encode_sparse_array(true)", "cjson.encode({[1] = 1, [100] = 2})", "cjson.encode_sparse_array(false, 2, 10)", "cjson.encode_sparse_array('x')", "cjson.new and type(cjson.new)",
                    "cjson._NAME", "cjson._VERSION", "type(cjson.new())"], texts=False)

    def test_random_values_survive(self):
        seed = seed_new()
        chance = random.Random(seed)

        def value(depth):
            kind = chance.randrange(7 if depth < 4 else 5)
            if kind < 5:
                return ("%d" % chance.randrange(-1000, 1000), "%r" % chance.uniform(-1e6, 1e6), "true", '"%s"' % "".join(chance.choice("abc\\u00e4") if chance.random() < 0 else chance.choice("abc ")
                        for _ in range(chance.randrange(6))), "null")[kind]
            if kind == 5:
                return "[" + ",".join(value(depth + 1) for _ in range(chance.randrange(4))) + "]"
            return '{"k":' + value(depth + 1) + "}"
        script = SHOW + "local v = cjson.decode(ARGV[1]); return {show(v), cjson.encode(v), cmsgpack.pack(v), show(cmsgpack.unpack(cmsgpack.pack(v)))}"
        self.each([(script, 0, value(0)) for _ in range(scaled(200))])


class MessagePackTest(LuaCase):
    def test_pack(self):
        self.shown(["cmsgpack.pack(%s)" % value for value in (
            "1", "0", "127", "128", "255", "256", "65535", "65536", "2^31", "2^32", "2^32 - 1", "2^53", "2^62", "2^63", "2^64", "-1", "-32", "-33", "-128", "-129", "-32768", "-32769", "-2^31", "-2^31 - 1",
            "-2^63", "1.5", "0.1", "1e300", "1/0", "-1/0", "1/3", "3.0", "'text'", "''", "('x'):rep(31)", "('x'):rep(32)", "('x'):rep(255)", "('x'):rep(256)", "('x'):rep(65535)", "('x'):rep(65536)",
            "'a\\0b'", "true", "false", "nil", "{}", "{1, 2, 3}", "{a = 1}", "{{}, {1}}", "{1, nil, 3}", "{[1.5] = 1}", "{[2] = 1}", "{[0] = 1, 2}", "{[1] = 1, [2] = 2}", "1, 2, 'x'", "nil, nil",
            "function() end", "{function() end}", "cjson.null", "{[true] = 1}", "{[{}] = 1}", "coroutine.create(function() end)")], texts=False)
        self.shown(["cmsgpack.pack()", "cmsgpack.pack(t)", "#cmsgpack.pack(big)", "#cmsgpack.pack(large)"],
                   "local t = {}; t[1] = t; local big, large = {}, {}; for i = 1, 16 do big[i] = i end; for i = 1, 70000 do large[i] = i end; ", texts=False)

    def test_nesting(self):
        for depth in (1, 15, 16, 17, 100):
            self.shown(["cmsgpack.pack(t)"], "local t = {}; for i = 1, %d do t = {t} end; " % depth, texts=False)

    PACKED = ["01", "7f", "e0", "ff", "cc80", "cd0100", "ce00010000", "cf0000000100000000", "cfffffffffffffffff", "d080", "d18000", "d280000000", "d38000000000000000", "ca3fc00000", "cb3ff8000000000000",
              "c0", "c2", "c3", "c1", "a0", "a161", "a261", "d90161", "da000161", "db0000000161", "c40161", "c5000161", "c60000000161", "90", "9101", "93010203", "9301", "dc000101", "dd0000000101", "80",
              "8101", "810102", "82a16101a16202", "de0001a16101", "df00000001a16101", "d40061", "c70100", "", "0102", "dd7fffffff", "df7fffffff", "dbffffffff", "dcffff", "c1c1", "91" * 20 + "01",
              "91" * 200 + "c0", "8181", "81c001", "8190c0", "81cb7ff800000000000001", "d8" + "00" * 17, "da0002", "cd01", "cb00"]

    def test_unpack(self):
        script = SHOW + "local r = {pcall(cmsgpack.unpack, ARGV[1])}; return {#r, tostring(r[1]), show(r[2]), show(r[3])}"
        self.values([(script, 0, bytes.fromhex(text)) for text in self.PACKED])
        self.shown(["cmsgpack.unpack()", "cmsgpack.unpack(nil)", "cmsgpack.unpack(1)", "cmsgpack.unpack({})", "cmsgpack.unpack('\\1', 1)", "cmsgpack.unpack('\\1\\2\\3')"], texts=False)

    def test_partial(self):
        self.shown(["cmsgpack.unpack_one('\\1\\2\\3')", "cmsgpack.unpack_one('\\1\\2\\3', 1)", "cmsgpack.unpack_one('\\1\\2\\3', 3)", "cmsgpack.unpack_one('\\1\\2\\3', 9)", "cmsgpack.unpack_one('\\1', -1)",
                    "cmsgpack.unpack_limit('\\1\\2\\3', 2)", "cmsgpack.unpack_limit('\\1\\2\\3', 2, 1)", "cmsgpack.unpack_limit('\\1\\2\\3', 0)", "cmsgpack.unpack_limit('\\1\\2\\3', -1)",
                    "cmsgpack.unpack_limit('\\1', 5)", "cmsgpack.unpack_limit('\\1')", "cmsgpack.unpack_one()", "cmsgpack.unpack_limit('', 1)", "cmsgpack.unpack_one('')", "cmsgpack._NAME",
                    "cmsgpack._VERSION", "type(cmsgpack.safe)", "cmsgpack.safe and cmsgpack.safe.unpack('\\193')"], texts=False)

    def test_random_bytes(self):
        seed = seed_new()
        chance = random.Random(seed)
        script = SHOW + "local r = {pcall(cmsgpack.unpack, ARGV[1])}; return {#r, tostring(r[1]), show(r[2])}"
        leads = [0x00, 0x7f, 0x81, 0x82, 0x91, 0x93, 0xa1, 0xc0, 0xc2, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xd9, 0xda, 0xdc, 0xde, 0xe0, 0xff, 0xc1, 0xd4]
        for _ in range(scaled(400)):
            data = bytes(chance.choice(leads) if chance.random() < 0.6 else chance.randrange(4) for _ in range(chance.randrange(1, 14)))
            if b"\xca" in data or b"\xcb" in data:
                data = data.replace(b"\xca", b"\xc0").replace(b"\xcb", b"\xc2")     # keys that are not numbers have no order to be shown in
            self.values([(script, 0, data)])


class StructTest(LuaCase):
    FORMATS = ["b", "B", "h", "H", "i", "I", "l", "L", "i1", "i2", "i3", "i4", "i8", "I1", "I3", "I8", "i16", "i32", "i33", "i0", "f", "d", "s", "c0", "c1", "c5", "x", ">i4", "<i4", "=i4", "!", "!4i1i4",
               "!8", "!3", "!0", "!16", " i4 i4", "T", "z", "%", "", "i4i4i4", ">I2<I2", "c-1", "c99999999999", "i99999999999", "j", "(", "bbb", "c3b", "Bc0", "sss", "!2b i4", "xxx"]

    def test_size(self):
        self.shown(["struct.size('%s')" % text.replace("%", "%%") for text in self.FORMATS], texts=False)
        self.shown(["struct.size()", "struct.size(1)", "struct.size({})"], texts=False)

    def test_pack(self):
        for values in ("1", "-1", "300", "1.5", "'text'", "2^31", "-2^63", "2^64", "1, 2, 3", "'a', 'b', 'c'", "'abc', 5", "3, 'abc'", "", "nil", "{}", "1e300"):
            self.shown(["struct.pack('%s', %s)" % (text.replace("%", "%%"), values) if values else "struct.pack('%s')" % text.replace("%", "%%") for text in self.FORMATS], texts=False)

    def test_unpack(self):
        for data in ("abcdefghijklmnopqrst", "", "\\0\\0\\0\\0", "\\255\\255\\255\\255\\255\\255\\255\\255", "a\\0b\\0c\\0", "\\5hello world", "\\1"):
            self.values([(SHOW + "local r = {pcall(struct.unpack, ARGV[1], '%s')}; return {#r, tostring(r[1]), show(r[2]), show(r[3]), show(r[4])}" % data, 0, text) for text in self.FORMATS])
        self.shown(["struct.unpack('b', 'abc', %s)" % at for at in ("1", "2", "3", "4", "5", "0", "-1", "99999999999", "2^31", "2^53", "'x'", "nil")], texts=False)
        self.shown(["struct.unpack('i4', 'abcdefg', 4)", "struct.unpack('s', 'abc')", "struct.unpack('c0', 'abc')", "struct.unpack('c4', 'abc')", "struct.unpack('Bc0', '\\9abc')", "struct.unpack()",
                    "struct.unpack('b')", "struct.unpack(nil, 'x')", "struct.unpack('d', struct.pack('d', 0.1))", "struct.unpack('>f', struct.pack('>f', 1.5))", "struct.unpack('bbbb', 'abc', 2)",
                    "struct.unpack('c99999999999', 'x')", "struct.unpack('I8', '\\255\\255\\255\\255\\255\\255\\255\\255')"], texts=False)


class BitTest(LuaCase):
    NUMBERS = ["0", "1", "-1", "255", "0x12345678", "0xffffffff", "2^31", "2^32", "2^32 + 1", "2^53", "-2^31", "1.5", "-1.5", "0.5", "1e15", "'12'"]

    def test_operations(self):
        self.shown(["bit.%s(%s)" % (name, number) for name in ("tobit", "bnot", "bswap", "tohex") for number in self.NUMBERS])
        self.shown(["bit.%s(%s, %s)" % (name, a, b) for name in ("band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex")
                    for a in ("0x87654321", "-1", "1.7", "2^33") for b in ("0", "1", "31", "32", "33", "-1", "0xff", "8", "-8")])
        self.shown(["bit.band(1, 3, 7)", "bit.bor(1, 2, 4, 8)", "bit.bxor(1)", "bit.band()", "bit.tobit()", "bit.bnot('x')", "bit.bnot({})", "bit.lshift(1)", "bit.tohex(-1, -8)", "bit.tohex(1, 99)", "bit.nosuch"])


class LuaTest(LuaCase):
    """What the libraries of Lua 5.1 return here."""

    def test_strings(self):
        self.shown(["('%s'):format(%s)" % each for each in (
            ("%d", "3.7"), ("%5.2f", "1/3"), ("%x", "255"), ("%X", "-1"), ("%s", "nil"), ("%s", "true"), ("%q", "'a\\nb\\0c\\r'"), ("%c", "65"), ("%e", "1.5"), ("%g", "1e20"), ("%i", "1"), ("%u", "1"), ("%%", "1"),
            ("%5s|%-5s", "'a', 'b'"), ("%.3s", "'abcdef'"), ("%d", "'x'"), ("%y", "1"), ("%", "1"), ("%d", ""), ("%099d", "1"), ("%100d", "1"), ("%.100f", "1"), ("%-+ #0d", "1"), ("%a", "1"), ("%o", "8"))])
        self.shown(["('hello world'):%s" % call for call in (
            "find('wor')", "find('o', 6)", "find('l+')", "find('.', 1, true)", "find('x')", "find('')", "find('', 99)", "match('(%w+) (%w+)')", "match('()ll()')", "gsub('o', '0')", "gsub('%w+', '<%0>', 1)",
            "gsub('(h)(e)', '%2%1')", "gsub('l', {l = 'L'})", "gsub('l', function(x) return x:upper() end)", "gsub('', '-')", "gsub('o', '%9')", "rep(3)", "rep(0)", "rep(-1)", "reverse()", "upper()", "lower()", "len()",
            "byte(1, -1)", "byte(99)", "sub(2, -2)", "sub(-3)", "sub(0)", "find('%')", "find('[a')", "find('%f[%w]%w+')", "match('%b()')", "match('(')", "match(')')", "match('%1')", "gmatch('%w+')()", "char and 1")])
        self.shown(["string.char(0, 65, 255)", "string.char(256)", "string.char(-1)", "string.char()", "('x'):rep(10):len()", "tostring(1e15)", "tostring(1e14)", "tostring(0.1)", "tostring(-0)", "tostring(1/0)", "tostring(0/0)",
                    "tostring(2^53)", "tonumber('0x1p4')", "tonumber('1e5')", "tonumber(' 10 ')", "tonumber('10', 2)", "tonumber('zz', 36)", "tonumber('1', 99)", "tonumber('')", "tonumber('0x')", "tonumber('1 2')",
                    "tonumber({})", "tonumber()", "'10' + 5", "10 .. 20", "'a' < 'b'", "1 < '2'", "#'a\\0b'", "('a'):rep(100, ',')", "10 % 3", "-10 % 3", "10 % -3", "5 % 0", "2 ^ 0.5", "7 / 2", "-7 / 2"])

    def test_patterns_that_take_long_or_nest_deeply(self):
        self.shown(["('a'):rep(300):find(('a?'):rep(10) .. ('a'):rep(10))", "(('('):rep(33) .. (')'):rep(33)):match(('('):rep(33) .. (')'):rep(33))", "('a'):rep(3000):match('(.-)b')",
                    "#('a'):rep(250000):match('.-$')", "('x'):rep(3000):find('.-b')", "('('):rep(3000):find('%b()')", "#('a'):rep(250000):match('(a*)$')", "('x'):rep(250):match(('x?'):rep(250))"])

    def test_tables_and_functions(self):
        self.shown(["table.concat({1, 2, 'x'}, ',')", "table.concat({}, ',')", "table.concat({1, {}, 2})", "table.concat({1, 2, 3}, ',', 2, 3)", "table.concat({1}, ',', 1, 2)", "table.getn and table.getn({1, 2})", "table.maxn({1, [9] = 2})",
                    "unpack({1, 2, 3})", "unpack({1, 2, 3}, 2)", "unpack({}, 1, 3)", "unpack({}, 1, 1e7)", "select('#', 1, nil, nil)", "select(-1, 1, 2)", "select(0)", "next({})", "rawequal and rawequal('a', 'a')", "rawget({5}, 1)",
                    "type(nil)", "type()", "assert(1, 2)", "#{1, 2, nil}", "pairs(nil)", "ipairs({})", "setmetatable({}, {__call = function(self, a) return a end})(5)", "table.foreach and 1", "math.pow(2, 3)", "math.fmod(-5, 3)",
                    "math.floor(-1.5)", "math.huge", "math.max(1, 5, 3)", "math.max()", "math.log10(1000)", "math.frexp(8)", "math.modf(3.7)", "math.ldexp(1, 4)", "math.mod and 1", "math.deg(math.pi)", "coroutine.wrap(function() return 1 end)()"])
        self.shown(["table.sort(t)", "table.sort(t, function(a, b) return true end)", "table.sort({3, 'x'})", "(function() local t = {3, 1, 2}; table.sort(t); return table.concat(t, ',') end)()",
                    "(function() local t = {}; table.insert(t, 1); table.insert(t, 1, 0); return table.concat(t, ',') end)()", "table.insert({}, 5, 1)", "table.insert({})", "table.insert({}, 1, 2, 3)", "table.remove({})",
                    "table.remove({1, 2, 3}, 1)", "table.remove({1}, 9)"], "local t = {}; for i = 1, 50 do t[i] = (i * 7919) % 50 end; ")

    @kelvin_only
    def test_hostile_scripts_get_errors(self):
        """They would take all memory or the stack. A server that lets them do so is killed before it takes the machine's."""
        server = Server({"script-heap-max": "32mb"}, prefix=["prlimit", "--as=%d" % (6 << 30)])
        self.addCleanup(server.discard)
        before = server.info("memory")
        for script in ("local s = 'x'; while true do s = s .. s end", "local t = {}; for i = 1, 1e9 do t[i] = i end",
                       "local function f() return 1 + f() end; return f()",
                       "return cjson.decode(string.rep('[', 1e7))", "local s = string.rep('a', 1e8); return #s:gsub('a', s)", "return string.format('%99999999d', 1)",
                       "local t = setmetatable({}, {}); getmetatable(t).__index = t; return t.x", "local co = coroutine.wrap(function() local function f() return coroutine.wrap(f)() end; return f() end); return co()",
                       "return #struct.pack('c2000000000', 'x')", "local s = string.rep('x', 1e8); local t = {}; for i = 1, 100 do t[i] = s .. i end; return #t"):
            with self.subTest(script=script):
                server.restart(kill=True)
                with server.client(timeout=60) as client:
                    self.assertIsInstance(client.call("EVAL", script, 0), Error)
                    self.assertEqual(client.call("EVAL", "return 1", 0), 1)
        after = server.info("memory")
        self.assertLess(int(after["used_memory"]), int(before["used_memory"]) + (64 << 20))
        server.stop()

    @kelvin_only
    def test_deep_recursion_in_c_does_not_crash(self):
        """Lua's matcher calls itself for each `a?`, which overflows the stack of redis-server; scripts here have smaller stacks."""
        for depth in (100, 1000, 10000, 100000, 1000000):
            for script in ("return #(('a'):rep(%d):match(('a?'):rep(%d)))" % (depth, depth), "return #(('('):rep(%d):gsub('%%(', '%%1'))" % depth, "return #(('a'):rep(%d):match('^(a-)$'))" % depth,
                           "local s = ('x'):rep(%d); return #s:gsub('x', function(c) return (c:gsub('x', 'y')) end)" % min(depth, 100000),
                           "local f = loadstring('return ' .. ('('):rep(%d) .. '1' .. (')'):rep(%d)); return f and f()" % (depth, depth),
                           "local f = loadstring('return ' .. ('{'):rep(%d) .. ('}'):rep(%d)); return f and 1" % (depth, depth),
                           "local t = {}; for i = 1, %d do t = setmetatable({}, {__index = t}) end; return t.x" % depth,
                           "local function f(n) if n == 0 then return 0 end; return 1 + select(2, pcall(f, n - 1)) end; return f(%d)" % depth,
                           "local function f(n) if n == 0 then return 0 end; table.sort({1, 2}, function() f(n - 1) end) end; return f(%d)" % depth):
                with self.subTest(script=script):
                    self.client_long().call("EVAL", script, 0)
                    self.assertEqual(self.c.call("EVAL", "return 1", 0), 1)

    def client_long(self):
        client = self.server.client(timeout=120)
        self.addCleanup(client.close)
        return client


if __name__ == "__main__":
    main()
