"""The results: as Markdown to stdout when they are available, and all of them to a JSON file at the end."""
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
        """Prints a table; the first column is aligned left, numbers are aligned right."""
        cells = [list(head)] + [[str(cell) for cell in row] for row in rows]
        widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
        lines = ["| " + " | ".join(cell.rjust(width) if i else cell.ljust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))) + " |" for row in cells]
        rule = "| " + " | ".join("-" * (width - 1) + ":" if i else "-" * width for i, width in enumerate(widths)) + " |"
        self.note("\n".join([lines[0], rule] + lines[1:]) + "\n")

    def check(self, what, fine, found="", judged=True):
        """Reports a check. A failed one is listed again at the end, and the exit status is 1. With `judged` False it does not count,
        because it only holds for full sizes."""
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
    """Returns the median of each result separately."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def ratio_median(runs, others, name):
    """Returns the median of the ratios of runs that followed each other, so that other work on the machine affects both of a pair."""
    return statistics.median(one[name] / other[name] for one, other in zip(runs, others))


def ms(us):
    return "%.2f" % (us / 1000)


def count(number):
    return "{:,.0f}".format(number)


def mb(size):
    return "%.1f" % (size / (1 << 20))
