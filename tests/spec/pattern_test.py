"""Glob patterns: KEYS, SCAN MATCH and other commands match as in Redis, and the time is limited for every pattern."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, main                                                             # noqa: E402
from support.server import scaled, seed_new                                                         # noqa: E402

LONG = 50000
SOON_S = 5                  # for matches that take a millisecond, or minutes if the limit fails
STARS_MAX = 1000            # the depth to which Redis follows stars that are followed by something


class PatternTest(PairCase):

    def test_random_patterns_match_what_redis_matches(self):
        seed = seed_new()
        rand = random.Random(seed)
        print("  seed %d" % seed, file=sys.stderr)
        letters = [b"a", b"b", b"B", b"]", b"\\", b"*", b"-", b"^", b"\xff", b"\x00"]
        keys = {b"".join(rand.choices(letters, [8, 8, 2, 1, 1, 1, 1, 1, 1, 1], k=rand.randint(0, 9))) for _ in range(150)}
        for client in (self.c, self.r):
            client.pipeline([[b"SET", key, b"v"] for key in sorted(keys)])
        pieces = [b"a", b"b", b"B", b"*", b"**", b"?", b"[ab]", b"[^a]", b"[a-b]", b"[b-a]", b"[a-", b"[", b"]", b"^", b"-", b"\\", b"\\*",
                  b"[\\]b]", b"[]", b"[^]", b"[\xfe-a]", b"[a-]b]", b"\xff", b"\x00", b"*a", b"*?", b"a*b"]
        patterns = [b"".join(rand.choices(pieces, k=rand.randint(0, 8))) for _ in range(scaled(4000))]
        for at in range(0, len(patterns), 200):
            some = patterns[at:at + 200]
            ours, theirs = (client.pipeline([[b"KEYS", pattern] for pattern in some]) for client in (self.c, self.r))
            for pattern, our, their in zip(some, ours, theirs):
                self.assertEqual(sorted(our), sorted(their), "seed %d, pattern %r" % (seed, pattern))

    def quick(self, script):
        began = time.monotonic()
        replies = self.both(script)
        self.assertLess(time.monotonic() - began, SOON_S)
        return replies

    def test_very_long_nested_loops_match_nothing(self):
        self.both([["SET", "a" * LONG, 1]])
        pattern = "*?" * LONG
        self.assertEqual(self.quick([["KEYS", pattern], ["SCAN", 0, "MATCH", pattern, "COUNT", 100]]), [[], [b"0", []]])
        self.both([["SADD", "s", "a" * LONG], ["HSET", "h", "a" * LONG, 1], ["ZADD", "z", 1, "a" * LONG]])
        self.quick([["SSCAN", "s", 0, "MATCH", pattern], ["HSCAN", "h", 0, "MATCH", pattern], ["ZSCAN", "z", 0, "MATCH", pattern],
                    ["CONFIG", "GET", pattern]])

    def test_the_number_of_stars_is_limited(self):
        self.both([["SET", "a" * LONG, 1]])
        for count in (STARS_MAX - 1, STARS_MAX, STARS_MAX + 1, STARS_MAX + 2):
            replies = self.quick([["KEYS", loop * count + end] for loop in ("*?", "*a", "a*", "**a", "[a]*", "*\\a") for end in ("", "*", "**", "a", "b")])
            self.assertEqual([len(replies[0]), len(replies[1])], [count <= STARS_MAX] * 2)
        # Escaped stars are not counted.
        self.both([["SET", "*" * 2000, 1], ["KEYS", "\\*" * 2000], ["KEYS", "[*]" * 2000]])

    def test_patterns_with_exponentially_many_ways_are_fast(self):
        self.both([["SET", "a" * 3000, 1], ["SET", "a" * 150, 1]])
        self.assertEqual(self.quick([["KEYS", "a*" * 43 + "b"], ["KEYS", "a*" * 900 + "b"], ["SCAN", 0, "MATCH", "*a" * 900 + "b", "COUNT", 100]])[0], [])


if __name__ == "__main__":
    main()
