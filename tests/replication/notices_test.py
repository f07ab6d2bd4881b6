#!/usr/bin/python3
"""What clients of a replica are notified of when the primary's stream changes a key, by single commands and by transactions."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main
from support.resp import NULL_ARRAY, encode
from support.server import until

GROUPS = (["%s"], ["MULTI", "SET other 1", "%s", "EXEC"])


class NoticesTest(ReplicationCase):
    def scenario_of_blocked_readers(self):
        """XREAD changes nothing, so it may wait on a replica."""
        primary, replica = self.pair()
        for number, group in enumerate(GROUPS, 1):
            reader = self.client(replica)
            reader.send(encode([b"XREAD", b"BLOCK", b"0", b"STREAMS", b"x", b"$"]))
            until(lambda: replica.info("clients")["blocked_clients"] == "1", 10, "the reader waits")
            servers.must(primary, *[line.replace("%s", "XADD x %d-1 f v" % number) for line in group])
            self.assertEqual(reader.receive(), [[b"x", [[b"%d-1" % number, [b"f", b"v"]]]]])

    def scenario_of_client_side_caches(self):
        primary, replica = self.pair()
        servers.must(primary, "SET k 0")
        servers.wait_in_sync(primary, replica)
        reader = self.client(replica, protocol=3)
        reader.must("CLIENT", "TRACKING", "ON")
        for number, group in enumerate(GROUPS, 1):
            reader.must("GET", "k")
            servers.must(primary, *[line.replace("%s", "SET k %d" % number) for line in group])
            self.assertEqual(list(reader.receive()), [b"invalidate", [b"k"]])
            until(lambda: servers.values_of(replica, "GET k")[0] == b"%d" % number, 10, "the new value")

    def scenario_of_notifications(self):
        primary, replica = self.pair()
        servers.set_config(replica, notify_keyspace_events="KEA")
        listener = self.client(replica)
        listener.must("SUBSCRIBE", "__keyspace@0__:k")
        for group in GROUPS:
            servers.must(primary, *[line.replace("%s", "SET k v") for line in group])
            self.assertEqual(listener.receive(), [b"message", b"__keyspace@0__:k", b"set"])

    def scenario_of_watched_keys(self):
        primary, replica = self.pair()
        for number, group in enumerate(GROUPS, 1):
            watcher = self.client(replica)
            watcher.must("WATCH", "k")
            servers.must(primary, *[line.replace("%s", "SET k %d" % number) for line in group])
            until(lambda: servers.values_of(replica, "GET k")[0] == b"%d" % number, 10, "the new value")
            watcher.must("MULTI")
            watcher.must("GET", "k")
            self.assertEqual(watcher.call("EXEC"), NULL_ARRAY)


if __name__ == "__main__":
    main()
