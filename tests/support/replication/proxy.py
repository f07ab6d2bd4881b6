"""A TCP proxy on loopback, as a network that breaks when the test says so.

    proxy = Proxy(replica.address, cut=lambda request, reply: b"FAILOVER" in request and b"+CONTINUE" in reply)

Each connection is cut when `cut(request, reply)` is true of all bytes that came in both directions so far; what made it true is not passed on.
"""
import socket
import threading


class Proxy:
    def __init__(self, target, cut=lambda request, reply: False):
        self.target, self.cut = target, cut
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            try:
                Passage(self, near, socket.create_connection(self.target))
            except OSError:
                near.close()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)    # ends its thread
        self.listener.close()


class Passage:
    def __init__(self, proxy, near, far):
        self.proxy, self.sockets = proxy, (near, far)
        self.seen = [b"", b""]
        self.lock = threading.Lock()
        self.ended = 0                  # under the lock
        for way in (0, 1):
            threading.Thread(target=self.carry, args=(way,), daemon=True).start()

    def carry(self, way):
        source, target = self.sockets[way], self.sockets[1 - way]
        try:
            while True:
                data = source.recv(1 << 16)
                if not data or self.is_cut(way, data):
                    break
                target.sendall(data)
        except OSError:
            pass
        for each in self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)     # also ends the recv of the other thread
            except OSError:
                pass
        self.end()

    def end(self):
        with self.lock:
            self.ended += 1
            if self.ended == 2:
                for each in self.sockets:
                    each.close()

    def is_cut(self, way, data):
        with self.lock:
            self.seen[way] = (self.seen[way] + data)[-4096:]
            if not self.proxy.cut(*self.seen):
                return False
            self.proxy.cuts += 1
            return True
