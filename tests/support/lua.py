"""What the tests of scripts share: a Lua function that shows any value as text, and a case that runs scripts on both servers."""
from . import compare
from .case import shown
from .dialog import DialogCase

# One line, so that the numbers of lines in errors are those of the test's own text.
SHOW = ("local function show(v, depth) depth = depth or 0; local kind = type(v); "
        "if kind == 'number' then return string.format('%.17g', v) elseif kind == 'string' then return string.format('%q', v) "
        "elseif kind ~= 'table' then return kind == 'boolean' and tostring(v) or kind end; "
        "if depth > 6 then return '...' end; local names, parts = {}, {}; "
        "for name in pairs(v) do names[#names + 1] = name end; "
        "table.sort(names, function(a, b) if type(a) ~= type(b) then return type(a) < type(b) end; return a < b end); "
        "for _, name in ipairs(names) do parts[#parts + 1] = '[' .. show(name, depth + 1) .. ']=' .. show(v[name], depth + 1) end; "
        "return '{' .. table.concat(parts, ',') .. '}' end; ")


class LuaCase(DialogCase):
    """The protocols of the client and of the script are all combined in `everywhere`."""

    def setUp(self):
        super().setUp()
        self.present("EVAL")

    def each(self, scripts, *rest, protocol=2, name="EVAL"):
        """Runs each script on both servers, with the same keys and arguments; a script may be a tuple with its own."""
        pair = self.clients(protocol=protocol)
        replies = []
        for script in scripts:
            words = list(script) if isinstance(script, tuple) else [script] + list(rest or (0,))
            with self.subTest(script=words[0].replace(SHOW, ""), arguments=words[2:], protocol=protocol):
                self.before_command()
                ours, theirs = (client.call(name, *words) for client in pair)
                # 7.2 formats numbers with fewer digits than 7.0.
                self.assertTrue(ours == theirs or compare.scores(compare.shortest(ours), compare.shortest(theirs), words),
                                "replies differ\n    ours     %s\n    redis    %s" % (shown(ours), shown(theirs)))
                replies.append(ours)
        return replies

    def everywhere(self, scripts, *rest):
        """With a client of RESP2 and of RESP3, and in each the script in RESP2 and RESP3."""
        for protocol in (2, 3):
            for within in (2, 3):
                self.each([prefixed(script, "redis.setresp(%d); " % within) for script in scripts], *rest, protocol=protocol)

    def shown(self, expressions, prefix="", texts=True):
        """Compares the value of each expression, or its error. `texts` False: only whether it is one. Debian's redis-server has the
        libraries of Debian's Lua packages, whose errors read differently from those of Redis."""
        scripts = ["%s%slocal ok, a, b = pcall(function() return %s end); return {tostring(ok), show(a), show(b)}" % (SHOW, prefix, expression)
                   for expression in expressions]
        self.values([(script, 0) for script in scripts], texts)

    def values(self, scripts, texts=False):
        """Scripts that return {..., tostring(ok), value or error, ...}."""
        for script in scripts:
            with self.subTest(script=script[0].replace(SHOW, ""), arguments=script[2:]):
                self.before_command()
                ours, theirs = (client.call("EVAL", *script) for client in (self.c, self.r))
                if not texts and isinstance(ours, list) and isinstance(theirs, list) and b"false" in ours and b"false" in theirs:
                    continue
                self.assertEqual(ours, theirs)


def prefixed(script, prefix):
    return (prefix + script[0],) + script[1:] if isinstance(script, tuple) else prefix + script


__all__ = ["LuaCase", "SHOW", "prefixed"]
