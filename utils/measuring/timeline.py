"""Draws the part write as SVG: throughput, the worst request and the size of the store over time, one below the other."""
import math

from .report import count
from .svg import Svg, step_for

WIDTH, LEFT, RIGHT = 760, 70, 730
TOP, PANEL, GAP = 78, 130, 48
COLOURS = ("#c2410c", "#1d4ed8", "#15803d")
LOWEST_MS = 1


class Panel:
    """A plot of values over seconds, with its own vertical axis."""

    def __init__(self, svg, number, title, seconds):
        self.svg, self.colour, self.seconds = svg, COLOURS[number], seconds
        self.top = TOP + number * (PANEL + GAP)
        self.bottom = self.top + PANEL
        svg.text(LEFT, self.top - 8, title, more=' font-weight="bold"')

    def x_of(self, second):
        return LEFT + (RIGHT - LEFT) * second / self.seconds

    def rule(self, part, text):
        """A horizontal line at this part of the height, with its value."""
        y = self.bottom - PANEL * part
        self.svg.line(LEFT, y, RIGHT, y, "#d1d5db" if part else "#1f2937")
        self.svg.text(LEFT - 8, y + 4, text, "end")

    def linear(self, values, unit):
        step = step_for(max(max(values), 9))
        top = step * (int(max(values) // step) + 1)
        every = 2 if top // step > 5 else 1
        for value in range(0, top + 1, step * every):
            self.rule(value / top, unit(value))
        self.curve([value / top for value in values])

    def logarithmic(self, values):
        decades = max(1, math.ceil(math.log10(max(max(values), LOWEST_MS + 1) / LOWEST_MS)))
        for decade in range(decades + 1):
            self.rule(decade / decades, "%d" % (LOWEST_MS * 10 ** decade))
        self.curve([math.log10(max(value, LOWEST_MS) / LOWEST_MS) / decades for value in values])

    def curve(self, parts):
        self.svg.curve([(self.x_of(number + 1), self.bottom - PANEL * part) for number, part in enumerate(parts)], self.colour)

    def time_axis(self):
        step = step_for(self.seconds)
        for second in range(0, int(self.seconds) + 1, step):
            self.svg.line(self.x_of(second), self.bottom, self.x_of(second), self.bottom + 5, "#1f2937")
            self.svg.text(self.x_of(second), self.bottom + 20, "%d s" % second, "middle")


def draw(data):
    rows = data["rows"]
    svg = Svg(WIDTH, TOP + 3 * (PANEL + GAP))
    svg.text(LEFT, 26, "SETs to more data than memory", more=' font-size="16" font-weight="bold"')
    svg.text(LEFT, 46, "%s keys, values of %d bytes, %d connections, P=%d; maxmemory %.0f MB, %s" % (
        count(data["keys"]), data["value_size"], data["clients"], data["pipeline"], data["maxmemory"] / (1 << 20),
        "cgroup %.0f MB" % (data["cgroup"]["limit"] / (1 << 20)) if "cgroup" in data else "no cgroup"), more=' font-size="12" fill="#4b5563"')
    panels = [Panel(svg, number, title, len(rows)) for number, title in enumerate((
        "SETs in each second", "worst request of each second, ms", "files of the store, MB"))]
    panels[0].linear([row["sets"] for row in rows], lambda value: "%dk" % (value // 1000) if value >= 1000 else str(value))
    panels[1].logarithmic([row["worst_ms"] for row in rows])
    panels[2].linear([row["disk_bytes"] / (1 << 20) for row in rows], str)
    panels[2].time_axis()
    return svg.end()
