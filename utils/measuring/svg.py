"""The elements of plots as SVG."""
from xml.sax.saxutils import escape

STEPS = (1, 2, 5)


class Svg:
    def __init__(self, width, height):
        self.parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
                      'font-family="sans-serif" font-size="13" fill="#1f2937">' % (width, height, width, height),
                      '<rect width="100%" height="100%" fill="#ffffff"/>']

    def text(self, x, y, text, anchor="start", more=""):
        self.parts.append('<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>' % (x, y, anchor, more, escape(text)))

    def line(self, x1, y1, x2, y2, colour, width=1, dash=""):
        self.parts.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"%s/>' % (
            x1, y1, x2, y2, colour, width, ' stroke-dasharray="%s"' % dash if dash else ""))

    def series(self, points, colour, dash):
        self.parts.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5"%s/>' % (
            " ".join("%.1f,%.1f" % point for point in points), colour, ' stroke-dasharray="%s"' % dash if dash else ""))
        for x, y in points:
            self.parts.append('<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>' % (x, y, colour))

    def curve(self, points, colour):
        self.parts.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>' % (
            " ".join("%.1f,%.1f" % point for point in points), colour))

    def end(self):
        return "\n".join(self.parts + ["</svg>", ""])


def step_for(highest):
    """Returns a step of 1, 2 or 5 times a power of ten, of which between four and ten reach the highest value."""
    power = 1
    while True:
        for step in STEPS:
            if highest / (step * power) <= 9:
                return step * power
        power *= 10
