"""Draws throughput over the share of hot requests, from the JSON of the part tiers, or of the part cold, as SVG.

    utils/measure plot --part cold build/measure.json docs/benchmarks/cold.svg --keep docs/benchmarks/cold.json

It shows requests per second of CPU time. With the server on one core, this is its throughput if nothing else runs on the core, and other work
on the machine affects it least. --wall-clock shows requests per second of elapsed time, for a machine without other work. --keep also writes
the numbers that the plot and its caption use, in the same format: a small file that can be plotted again. --part write draws the part write:
throughput, worst request and size of the store over time.
"""
import argparse
import json

from . import timeline
from .report import count, medians
from .svg import Svg, step_for

WIDTH, HEIGHT = 760, 448
LEFT, RIGHT, TOP, BOTTOM = 70, 730, 62, 356
COLOURS = {"kelvin": "#c2410c", "redis": "#1d4ed8"}
NAMES = {"kelvin": "Kelvin, a third of the data in RAM", "redis": "redis-server, all of the data in RAM"}
DASHES = {"get": "", "set": "6 4"}
KEPT = ("keys", "value_size", "clients", "pipeline", "duration_s", "maxmemory", "hot_keys", "redis", "cgroup", "load", "rss_worst")


def series_of(tiers, wall_clock):
    """Returns {(test, server): [(percent hot, requests per second)]}. Redis is drawn at the share of hot requests that Kelvin had."""
    found = {}
    for row in tiers["runs"]:
        share = medians(row["runs"]["kelvin"])["hot_percent"]
        for server in ("kelvin", "redis"):
            middle = medians(row["runs"][server])
            found.setdefault((row["test"], server), []).append((share, middle["ops"] if wall_clock else 1e6 / middle["cpu_us"]))
    return {name: sorted(points) for name, points in found.items()}


def draw(data, part, wall_clock):
    tiers = data["parts"][part]
    series = series_of(tiers, wall_clock)
    lowest = min(share for points in series.values() for share, _ in points)
    first = 10 * int(lowest // 10)
    highest = max(ops for points in series.values() for _, ops in points)
    step = step_for(highest)
    top = step * (int(highest // step) + 1)
    svg = Svg(WIDTH, HEIGHT)

    def x_of(share):
        return LEFT + (RIGHT - LEFT) * (share - first) / (100 - first)

    def y_of(ops):
        return BOTTOM - (BOTTOM - TOP) * ops / top

    svg.text(LEFT, 26, "Throughput and the share of requests that find their key in RAM", more=' font-size="16" font-weight="bold"')
    svg.text(LEFT, 46, caption(tiers), more=' font-size="12" fill="#4b5563"')
    for ops in range(0, top + 1, step):
        svg.line(LEFT, y_of(ops), RIGHT, y_of(ops), "#d1d5db" if ops else "#1f2937")
        svg.text(LEFT - 8, y_of(ops) + 4, "%dk" % (ops // 1000) if ops else "0", "end")
    for share in range(first, 101, 10):
        svg.line(x_of(share), BOTTOM, x_of(share), BOTTOM + 5, "#1f2937")
        svg.text(x_of(share), BOTTOM + 20, "%d %%" % share, "middle")
    svg.text((LEFT + RIGHT) / 2, BOTTOM + 40, "requests whose key is hot (in Kelvin's RAM)", "middle")
    svg.text(20, (TOP + BOTTOM) / 2, "requests per second" + ("" if wall_clock else " of CPU time"), "middle",
             ' transform="rotate(-90 20 %.1f)"' % ((TOP + BOTTOM) / 2))
    for (test, server), points in series.items():
        svg.series([(x_of(share), y_of(ops)) for share, ops in points], COLOURS[server], DASHES[test])
    for number, (test, server) in enumerate(sorted(series)):
        x, y = LEFT + (number % 2) * 340, HEIGHT - 30 + (number // 2) * 18
        svg.line(x, y - 4, x + 30, y - 4, COLOURS[server], 2.5, DASHES[test])
        svg.text(x + 38, y, "%s %s" % (test.upper(), NAMES[server]))
    return svg.end()


def caption(tiers):
    limit = tiers.get("cgroup", {}).get("limit")
    return "%s keys, values of %d bytes, %d connections, P=%d; maxmemory %.0f MB, %s" % (
        count(tiers["keys"]), tiers["value_size"], tiers["clients"], tiers["pipeline"], tiers["maxmemory"] / (1 << 20),
        "cgroup %.0f MB" % (limit / (1 << 20)) if limit else "no cgroup")


def kept(data, part):
    """Returns only what the plot needs, without paths of the machine."""
    tiers = data["parts"][part]
    return {"machine": {name: data["machine"][name] for name in ("cpu", "cores", "memory_mb", "kernel", "commit")},
            "started": data["started"],
            "parts": {part: {**{name: tiers[name] for name in KEPT if name in tiers}, "runs": tiers["runs"]}}}


def main(arguments):
    parser = argparse.ArgumentParser(prog="utils/measure plot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json")
    parser.add_argument("svg")
    parser.add_argument("--keep", metavar="FILE")
    parser.add_argument("--wall-clock", action="store_true")
    parser.add_argument("--part", choices=("tiers", "cold", "write"), default="tiers")
    options = parser.parse_args(arguments)
    with open(options.json, encoding="utf-8") as file:
        data = json.load(file)
    with open(options.svg, "w", encoding="utf-8") as file:
        file.write(timeline.draw(data["parts"]["write"]) if options.part == "write" else draw(data, options.part, options.wall_clock))
    if options.keep and options.part != "write":
        with open(options.keep, "w", encoding="utf-8") as file:
            json.dump(kept(data, options.part), file, indent=1)
            file.write("\n")
    return 0
