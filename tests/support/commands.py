"""What COMMAND INFO and COMMAND DOCS say of a command, without its texts, as a line that can be compared and read.

    name | arity | first last step | flags | ACL categories | tips | key specifications | since | group | doc flags | arguments

The arguments are in the language of src/commands/README.md. `python3 support/commands.py <port>` prints the lines of all commands of the
server at that port; spec/commands-7.2.txt has those of redis-server 7.2.6.
"""
import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.resp import Client                                                                      # noqa: E402


def listed(pairs):
    return dict(zip(pairs[::2], pairs[1::2]))


def words(values):
    return " ".join(bytes(value).decode() for value in values)


def argument(described):
    facts = {name.decode(): value.decode() if isinstance(value, bytes) else value for name, value in listed(described).items()}
    flags = {bytes(flag) for flag in facts.get("flags", [])}
    name, kind, token, is_optional = facts["name"], facts["type"], facts.get("token"), b"optional" in flags
    dots = "..." if b"multiple" in flags else ""
    version = "@" + facts["since"] if "since" in facts else ""
    version += "@!" + facts["deprecated_since"] if "deprecated_since" in facts else ""
    if kind == "pure-token":
        token = token or '""'
        text, token = token if name == token.lower() else "%s:%s" % (name, token), None
    elif kind in ("oneof", "block"):
        text = ("|" if kind == "oneof" else " ").join(argument(child) for child in facts["arguments"])
        if token is None:
            return name + ":" + ("[%s]" if is_optional else "(%s)") % text + dots + version
        text = "%s:(%s)" % (name, text)
    else:
        shown = "" if facts["display_text"] == name else "/" + facts["display_text"]
        text = "%s%s:%s" % (name, shown, "key-pattern" if kind == "pattern" and "key_spec_index" in facts else kind)
        if "key_spec_index" in facts:
            text += "#%d" % facts["key_spec_index"]
    if token is not None:
        text = token + " " + text
    if b"multiple_token" in flags:
        return ("[%s]" if is_optional else "(%s)") % text + dots + version
    return ("[%s]" if is_optional else "%s") % (text + dots) + version


def key_spec(described):
    facts = listed(described)
    parts = [",".join(sorted(bytes(flag).decode() for flag in facts[b"flags"]))]
    for step in (b"begin_search", b"find_keys"):
        how = listed(facts[step])
        parts.append(how[b"type"].decode() + "".join(" %s=%s" % (name.decode(), value.decode() if isinstance(value, bytes) else value)
                                                     for name, value in sorted(listed(how[b"spec"]).items())))
    return "; ".join(parts)


def line(info, docs):
    docs = listed(docs)
    fields = [info[0].decode(), info[1], words(map(str.encode, map(str, info[3:6]))), words(sorted(map(bytes, info[2]))),
              words(sorted(map(bytes, info[6]))), words(info[7]), " / ".join(key_spec(spec) for spec in info[8]), docs[b"since"].decode(),
              docs[b"group"].decode(), words(sorted(map(bytes, docs.get(b"doc_flags", [])))) + docs.get(b"deprecated_since", b"").decode(),
              " ".join(argument(each) for each in docs.get(b"arguments", []))]
    return " | ".join(str(field) for field in fields)


def lines(client, names=None):
    """Of these commands, or of all, by name."""
    names = sorted(names or [name.decode() for name in client.must("COMMAND", "LIST")])
    infos = client.must("COMMAND", "INFO", *names)
    docs = listed(client.must("COMMAND", "DOCS", *names))
    return {name: line(info, docs[name.encode()]) for name, info in zip(names, infos)}


if __name__ == "__main__":
    for each in lines(Client(("127.0.0.1", int(sys.argv[1])))).values():
        print(each)
