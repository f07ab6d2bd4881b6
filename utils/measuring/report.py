"""What was found: Markdown to stdout as it comes, everything to a JSON file in the end."""
import json
import statistics
import sys


class Report:
    def __init__(self):
        self.data = {"parts": {}, "failures": []}

    def note(self, text=""):
        print(text, flush=True)

    def progress(self, text):
        print(text, file=sys.stderr, flush=True)

    def table(self, head, rows):
        """Figures to the right, the first column to the left."""
        cells = [list(head)] + [[str(cell) for cell in row] for row in rows]
        widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
        lines = ["| " + " | ".join(cell.rjust(width) if i else cell.ljust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))) + " |" for row in cells]
        rule = "| " + " | ".join("-" * (width - 1) + ":" if i else "-" * width for i, width in enumerate(widths)) + " |"
        self.note("\n".join([lines[0], rule] + lines[1:]) + "\n")

    def check(self, what, fine, found="", judged=True):
        """Something that must hold. What does not is named again at the end, and makes the exit status 1; unless it is not
        judged, as it only holds for real sizes."""
        verdict = "ok:" if fine else "**FAILED:**" if judged else "not at this size:"
        self.note("- %s %s%s" % (verdict, what, " (%s)" % found if found != "" else ""))
        if judged and not fine:
            self.data["failures"].append("%s (%s)" % (what, found))
        return fine

    def failure(self, text):
        self.note("**FAILED:** " + text)
        self.data["failures"].append(text)

    def write(self, path):
        with open(path, "w") as file:
            json.dump(self.data, file, indent=1)
            file.write("\n")


def medians(runs):
    """Of each figure on its own."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def ratio_median(runs, others, name):
    """Of the ratios of each pair that ran next to each other, so that what slows the machine for a while hits both."""
    return statistics.median(one[name] / other[name] for one, other in zip(runs, others))


def ms(us):
    return "%.2f" % (us / 1000)


def count(number):
    return "{:,.0f}".format(number)


def mb(size):
    return "%.1f" % (size / (1 << 20))
