"""The directives as src/config/config.def has them, and what the comments of conf/kelvin.conf say about them: for manual pages and docs/reference.md."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The bounds of config.def that are names there.
BOUNDS = {"INT_MAX": 2**31 - 1, "INT_MIN": -2**31, "UINT32_MAX": 2**32 - 1, "INT64_MAX": 2**63 - 1, "LLONG_MAX": 2**63 - 1, "LONG_MAX": 2**63 - 1}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rows():
    """The directives that users see, in the order of config.def."""
    found = {}
    pattern = r'^CONFIG_ROW\((\w+), "([^"]*)", (NULL|"[^"]*"), (\w+), ([\w |]+), "((?:[^"\\]|\\.)*)", (.*?), (.*?), (NULL|"[^"]*")\)$'
    text = re.sub(r'"\n +"', "", read("src/config/config.def"))
    for line in re.sub(r",\n +", ", ", text).split("\n"):
        if not line.startswith("CONFIG_ROW("):
            continue
        match = re.match(pattern, line)
        if match is None:
            sys.exit("utils/package/directives.py: can't read this row: " + line)
        _, name, alias, kind, flags, default, low, high, words = match.groups()
        row = {"name": name, "alias": alias.strip('"') if alias != "NULL" else None, "kind": kind, "flags": flags.split(" | "), "default": default,
               "low": low, "high": high, "words": re.split(r",\s*", words.strip('"')) if words != "NULL" else []}
        if "HIDDEN" not in row["flags"] and kind != "OBSOLETE":
            found[name] = row
    return found


def bound(text):
    return BOUNDS[text] if text in BOUNDS else int(text, 0) if re.fullmatch(r"-?(0x)?\w+", text) and text.lstrip("-")[:1].isdigit() else None


def facts(row):
    """Returns what config.def says about a directive, as a sentence."""
    said = []
    if row["kind"] == "BOOL":
        said.append("yes or no")
    elif row["kind"] in ("ENUM", "FLAGS"):
        said.append(("one of " if row["kind"] == "ENUM" else "any of ") + ", ".join(row["words"]))
    elif row["kind"] == "OCTAL":
        said.append("in octal")
    elif row["kind"] == "INTEGER":
        low, high = bound(row["low"]), bound(row["high"])
        if low is not None and high is not None:
            said.append("%d or more" % low if high >= 2**31 - 1 else "%d to %d" % (low, high))
    if row["alias"]:
        said.append("also known as " + row["alias"])
    if "ABSENT" in row["flags"]:
        said.append("can't be set to anything else")
    elif "UNUSED" in row["flags"]:
        said.append("accepted, without effect")
    elif "FIXED" in row["flags"]:
        said.append("fixed at the start")
    if "PROTECTED" in row["flags"]:
        said.append("CONFIG SET requires enable-protected-configs")
    return "; ".join(said)


def paragraphs(known):
    """Yields (section, prose, names) for each paragraph of conf/kelvin.conf: lines of comments, and the directives that follow them. Of a heading
    there is only the section, of other paragraphs it is None."""
    prose, items = [], []
    for line in read("conf/kelvin.conf").split("\n") + [""]:
        section = re.match(r"^# ---- (.*?) -*$", line)
        directive = re.match(r"^#?([a-z][\w-]+)( |$)", line)
        known_directive = directive and directive[1] in known
        if (section or line == "" or line.startswith("#") and not known_directive and items) and (prose or items):
            yield None, prose, items
            prose, items = [], []
        if section:
            yield section[1], [], []
        elif known_directive:
            if directive[1] not in items:
                items.append(directive[1])
        elif line.startswith("#"):
            prose.append(line[2:])
