"""The counterpart of disk_shim.c: sets its rules while a server runs, reads its journal, and creates from it a state of the disk that a
power failure could have left.

    disk = Disk(folder, journal=True)
    server = Server(options, folder=folder, environment=disk.environment)
    disk.rule(0, "write sync", "appendonlydir/*.incr.aof", FAIL, error=errno.EIO)

After a power failure, a file has everything that was written before its last fsync began, and a directory has all names that were
created before its last fsync; any part of the other changes may be there as well. `Journal.state` draws one such state for any moment.
"""
import collections
import mmap
import os
import struct

from .server import ROOT, under_test

KINDS = ("open", "create", "close", "read", "write", "sync", "rename", "link", "unlink", "mkdir", "rmdir", "truncate", "allocate",
         "sync begin", "sync failed", "start")
NUMBER = {name: number for number, name in enumerate(KINDS)}
NOTHING, KILL_BEFORE, KILL_MIDDLE, KILL_AFTER, FAIL, SHORT, LATE_FAIL, DELAY = range(8)
FOREVER = (1 << 64) - 1
CONTROL_SIZE, RULE_SIZE, RULES_AT, RULES, PATTERN_SIZE = 4096, 160, 160, 8, 120
RECORD = struct.Struct("<IHHQQQq")
SECTOR = 512


def shim_path(name="disk_shim.so"):
    path = os.path.join(os.path.dirname(under_test()), "tests", name)
    if not os.path.exists(path):
        path = os.path.join(ROOT, "build", "release", "tests", name)
    if not os.path.exists(path):
        raise FileNotFoundError("%s not found: run make shim" % path)
    return path


class Disk:
    """The files that control a preloaded shim. They are next to `folder`, not in it."""

    def __init__(self, folder, journal=False):
        self.folder = folder
        self.control_path, self.journal_path = folder + ".control", folder + ".journal" if journal else None
        with open(self.control_path, "wb") as file:
            file.write(bytes(CONTROL_SIZE))
        with open(self.control_path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), CONTROL_SIZE)
        self.environment = {"LD_PRELOAD": shim_path(), "KELVIN_DISK_DIR": folder, "KELVIN_DISK_CONTROL": self.control_path}
        if journal:
            open(self.journal_path, "wb").close()
            self.environment["KELVIN_DISK_JOURNAL"] = self.journal_path

    def number(self, at):
        return struct.unpack_from("<Q", self.page, at)[0]

    @property
    def operations(self):
        return self.number(8)

    @property
    def records(self):
        """The number of entries in the journal: a moment in the history of the disk."""
        return self.number(16)

    @property
    def acted(self):
        return self.number(24)

    def last(self):
        """Returns the last operation to which a rule was applied."""
        path = self.page[32:32 + PATTERN_SIZE].split(b"\0")[0].decode()
        return "%s %s" % (KINDS[struct.unpack_from("<I", self.page, 32 + PATTERN_SIZE)[0]], path)

    def rule(self, slot, kinds, pattern, action, first=1, last=FOREVER, error=0, delay_us=0):
        """`kinds`: words of KINDS, or "all"."""
        at = RULES_AT + slot * RULE_SIZE
        mask = (1 << 13) - 1 if kinds == "all" else sum(1 << NUMBER[kind] for kind in kinds.split())
        struct.pack_into("<I", self.page, at, 0)
        struct.pack_into("<IiIQQQ", self.page, at + 4, action, error, delay_us, 0, first, last)
        struct.pack_into("%ds" % PATTERN_SIZE, self.page, at + 40, pattern.encode())
        assert len(pattern) < PATTERN_SIZE
        struct.pack_into("<I", self.page, at, mask)

    def matched(self, slot):
        return self.number(RULES_AT + slot * RULE_SIZE + 16)

    def heal(self):
        for slot in range(RULES):
            struct.pack_into("<I", self.page, RULES_AT + slot * RULE_SIZE, 0)

    def journal(self):
        return Journal(self.journal_path)

    def remove(self):
        self.page.close()
        for path in (self.control_path, self.journal_path):
            if path and os.path.exists(path):
                os.remove(path)


Entry = collections.namedtuple("Entry", "kind handle path other offset data time")


def read_journal(path):
    entries = []
    with open(path, "rb") as file:
        text = memoryview(file.read())
    at = 0
    while at + RECORD.size <= len(text):
        kind, path_size, other_size, handle, offset, data_size, time_ns = RECORD.unpack_from(text, at)
        at += RECORD.size
        end = at + path_size + other_size + data_size
        if end > len(text):
            break                       # the process was killed while writing it
        name = bytes(text[at:at + path_size]).decode()
        other = bytes(text[at + path_size:at + path_size + other_size]).decode()
        entries.append(Entry(KINDS[kind], handle, name, other, offset, text[at + path_size + other_size:end], time_ns / 1e9))
        at = end
    return entries


class Node:
    """A file or a directory with all its changes: `changes` are (moment, ...), of a file (moment, offset, bytes) or
    (moment, size, None); of a directory (moment, {name: node or None}). `syncs` are (moment of the begin, moment of the end, whether it succeeded)."""

    def __init__(self, is_directory, name):
        self.is_directory, self.name = is_directory, name
        self.changes, self.syncs = [], []
        self.now = {}                   # of a directory: its entries after the changes read so far

    def durable_until(self, moment):
        """Returns the moment before which all changes are on the disk after a power failure at `moment`."""
        until = 0
        for began, ended, well in self.syncs:
            if ended > moment:
                break
            if well:
                until = began
        return until

    def doubtful(self, moment):
        """Returns (after, until): the changes of a failed sync. Their pages are clean for the kernel, so no later sync writes them."""
        spans, good = [], 0
        for began, ended, well in self.syncs:
            if ended > moment:
                break
            if well:
                good = max(good, began)
            else:
                spans.append((good, began))
        return spans


class Journal:
    """Moments are numbers of entries: 0 is before the first. The directory was empty then."""

    def __init__(self, path):
        self.entries = read_journal(path)
        self.root = Node(True, "")
        self.logs = []                  # the log's increments, in the order of their first write
        handles, begun = {}, {}
        for moment, entry in enumerate(self.entries, 1):
            kind = entry.kind
            if kind == "start":
                handles, begun = {}, {}
            elif kind == "create":
                handles[entry.handle] = self.enter(moment, entry.path, Node(False, entry.path))
            elif kind == "open":
                handles[entry.handle] = self.find(entry.path)
            elif kind == "mkdir":
                self.enter(moment, entry.path, Node(True, entry.path))
            elif kind in ("unlink", "rmdir"):
                self.leave(moment, entry.path)
            elif kind == "link":
                self.enter(moment, entry.other, self.find(entry.path))
            elif kind == "rename":
                self.rename(moment, entry.path, entry.other)
            elif kind == "write":
                node = handles[entry.handle]
                node.changes.append((moment, entry.offset, entry.data))
                if node.name.endswith(".incr.aof") and node not in self.logs:
                    self.logs.append(node)
            elif kind == "truncate":
                handles[entry.handle].changes.append((moment, entry.offset, None))
            elif kind == "sync begin":
                begun[entry.handle] = moment
            elif kind in ("sync", "sync failed"):
                handles[entry.handle].syncs.append((begun[entry.handle], moment, kind == "sync"))

    def __len__(self):
        return len(self.entries)

    def find(self, path):
        node = self.root
        for name in path.split("/") if path else ():
            node = node.now[name]
        return node

    def place(self, path):
        parent, _, name = path.rpartition("/")
        return self.find(parent), name

    def enter(self, moment, path, node):
        parent, name = self.place(path)
        parent.now[name] = node
        parent.changes.append((moment, {name: node}))
        return node

    def leave(self, moment, path):
        parent, name = self.place(path)
        del parent.now[name]
        parent.changes.append((moment, {name: None}))

    def rename(self, moment, path, other):
        (source, old), (target, new) = self.place(path), self.place(other)
        node = source.now.pop(old)
        target.now[new] = node
        if source is target:
            source.changes.append((moment, {old: None, new: node}))
        else:
            source.changes.append((moment, {old: None}))
            target.changes.append((moment, {new: node}))

    def log_commands(self):
        """Returns all commands that were written to the log, in order, including SELECT."""
        commands = []
        for node in self.logs:
            text = file_bytes(node.changes)
            at = 0
            commands.append([b"SELECT", b"0"])
            while at < len(text):
                end = text.find(b"\r\n", at)
                if end < 0:
                    break
                if text[at:at + 1] == b"#":
                    at = end + 2            # a mark
                    continue
                args, next_at = [], end + 2
                for _ in range(int(text[at + 1:end])):
                    end = text.find(b"\r\n", next_at)
                    if end < 0:
                        break
                    size = int(text[next_at + 1:end])
                    args.append(bytes(text[end + 2:end + 2 + size]))
                    next_at = end + 4 + size
                if next_at > len(text) or end < 0:
                    break               # torn by a kill
                commands.append(args)
                at = next_at
        return commands

    def state(self, moment, chance, folder):
        """Creates in `folder` a state that a power failure at `moment` could have left; with `chance` None, that of a kill. Returns a description."""
        names = chance.choice(("all", "none", "until", "prefix", "subset")) if chance else "all"
        datas = chance.choice(("all", "none", "mixed", "mixed", "torn", "zeros")) if chance else "all"
        cut = Cut(moment, chance, names, datas)
        cut.build(self.root, folder)
        return "names: %s, data: %s" % (names, datas)


class Cut:
    def __init__(self, moment, chance, names, datas):
        self.moment, self.chance, self.names, self.datas = moment, chance, names, datas
        self.until = chance.randrange(moment + 1) if chance else moment
        self.built = {}                 # nodes that have been created: a second name of a file is a link

    def build(self, directory, folder):
        os.makedirs(folder, exist_ok=True)
        for name, node in self.entries_of(directory).items():
            path = os.path.join(folder, name)
            if node.is_directory:
                self.build(node, path)
            elif node in self.built:
                os.link(self.built[node], path)
            else:
                with open(path, "wb") as file:
                    file.write(self.bytes_of(node))
                self.built[node] = path

    def entries_of(self, directory):
        durable = directory.durable_until(self.moment)
        open_ = [moment for moment, _ in directory.changes if durable < moment <= self.moment]
        if self.names == "all":
            kept = set(open_)
        elif self.names == "none":
            kept = set()
        elif self.names == "until":             # in order across directories, as in a journaling file system
            kept = {moment for moment in open_ if moment <= self.until}
        elif self.names == "prefix":            # in order within each
            kept = set(open_[:self.chance.randrange(len(open_) + 1)])
        else:
            kept = {moment for moment in open_ if self.chance.random() < 0.5}
        found = {}
        for moment, change in directory.changes:
            if moment <= durable or moment in kept:
                found.update(change)
        return {name: node for name, node in found.items() if node is not None}

    def bytes_of(self, node):
        done = [change for change in node.changes if change[0] <= self.moment]
        if self.datas == "all":
            return file_bytes(done)
        until, doubtful = node.durable_until(self.moment), node.doubtful(self.moment)
        durable, rest = [], []
        for change in done:
            sure = change[0] <= until and not any(first < change[0] <= last for first, last in doubtful)
            (durable if sure else rest).append(change)
        how = self.chance.choice(("all", "none", "prefix", "torn", "zeros")) if self.datas == "mixed" else self.datas
        if how == "none" or not rest:
            return file_bytes(durable)
        if how == "all":
            return file_bytes(done)
        if how == "prefix":
            return file_bytes(sorted(durable + rest[:self.chance.randrange(len(rest) + 1)], key=lambda change: change[0]))
        before, after = file_bytes(durable), file_bytes(done)
        if len(after) <= len(before):
            return after if self.chance.random() < 0.5 else before
        end = self.chance.randrange(len(before), len(after) + 1)
        if self.chance.random() < 0.5:
            end = max(len(before), end // SECTOR * SECTOR)
        return after[:end] + (bytes(len(after) - end) if how == "zeros" else b"")


def file_bytes(changes):
    text = bytearray()
    for _, at, data in changes:
        if data is None:
            del text[at:]
            text += bytes(at - len(text))
        else:
            if len(text) < at:
                text += bytes(at - len(text))
            text[at:at + len(data)] = data
    return bytes(text)
