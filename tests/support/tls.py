"""TLS for the tests: certificates made with the program `openssl`, and a client whose ciphertext a test can cut anywhere."""
import ctypes
import ctypes.util
import os
import random
import select
import socket
import ssl
import subprocess
import tempfile
import time

from .resp import Closed, Incomplete, Parser, encode


def openssl(*args, folder):
    done = subprocess.run(("openssl",) + args, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError("openssl %s: %s" % (" ".join(args), done.stderr.decode("utf-8", "replace")))


class Authority:
    """Certificates in a folder: ca.crt, and NAME.crt with NAME.key for each name that was asked for."""

    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="kelvin-test-tls-")
        self.folder = self.home.name
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.crt",
                "-days", "2", "-subj", "/CN=test authority", folder=self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, password=None, bits=2048):
        key = ["-newkey", "rsa:%d" % bits] if bits else ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        lock = ["-passout", "pass:" + password] if password else ["-nodes"]
        openssl("req", *key, *lock, "-keyout", name + ".key", "-out", name + ".csr", "-subj", "/CN=" + name, folder=self.folder)
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out",
                name + ".crt", folder=self.folder)
        return self.path(name + ".crt"), self.path(name + ".key")

    def close(self):
        self.home.cleanup()

    def server_options(self, port, name="server"):
        return {"tls-port": port, "tls-cert-file": self.path(name + ".crt"), "tls-key-file": self.path(name + ".key"),
                "tls-ca-cert-file": self.path("ca.crt")}

    def context(self, name="client"):
        """What a client needs; `name` None: it has no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.path("ca.crt"))
        if name:
            context.load_cert_chain(self.path(name + ".crt"), self.path(name + ".key"))
        return context

    def cli_options(self):
        return ["--tls", "--cert", self.path("client.crt"), "--key", self.path("client.key"), "--cacert", self.path("ca.crt")]


def whole(data):
    """A way of cutting: all at once. Another one is any function that returns the parts of its argument."""
    return [data]


def single_bytes(data):
    return [data[i:i + 1] for i in range(len(data))]


def random_cuts(seed):
    rng = random.Random(seed)

    def cut(data):
        parts = []
        while data:
            size = rng.choice((1, 2, 3, 5, 16, 100, 1000, 5000))
            parts.append(data[:size])
            data = data[size:]
        return parts
    return cut


class TlsClient:
    """A client over memory BIOs: `cut` decides in which parts its ciphertext is sent."""

    def __init__(self, port, context, cut=whole, timeout=20.0, handshake=True, session=None):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, session=session)
        self.cut, self.timeout = cut, timeout
        self.parser = Parser()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if handshake:
            self.handshake()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def push(self):
        """Sends the ciphertext that there is."""
        data = self.outgoing.read()
        for part in self.cut(data):
            self.socket.sendall(part)

    def pull(self):
        data = self.socket.recv(65536)
        if not data:
            raise Closed("the server closed the connection")
        self.incoming.write(data)

    def handshake(self):
        while True:
            try:
                self.tls.do_handshake()
                self.push()
                return
            except ssl.SSLWantReadError:
                self.push()
                self.pull()

    def send(self, data):
        self.tls.write(data)
        self.push()

    def read(self):
        """Returns some plain text; b"" after the server's close_notify."""
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                self.push()                 # reading may have produced something: a key update
                self.pull()
            except ssl.SSLZeroReturnError:
                return b""

    def receive(self):
        while True:
            try:
                return self.parser.next()
            except Incomplete:
                data = self.read()
                if not data:
                    raise Closed("the server sent close_notify")
                self.parser.feed(data)

    def call(self, *args):
        self.send(encode(args))
        return self.receive()

    def end(self):
        """Sends close_notify: nothing more comes from this side, but replies may be read."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.push()

    def is_closed(self, timeout=5):
        """Reads until the server has closed the connection; False: it has not within the time."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not select.select([self.socket], [], [], max(0, deadline - time.monotonic()))[0]:
                return False
            try:
                if not self.socket.recv(65536):
                    return True
            except ConnectionError:
                return True
        return False


class RawClient:
    """OpenSSL without Python's module, which can't update keys. TLS 1.3."""

    def __init__(self, port, authority):
        self.lib = ctypes.CDLL(ctypes.util.find_library("ssl"))
        self.crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
        self.context = self.function("SSL_CTX_new")(self.function("TLS_client_method")())
        for name, file in (("SSL_CTX_use_certificate_file", "client.crt"), ("SSL_CTX_use_PrivateKey_file", "client.key")):
            assert self.function(name, int)(self.context, authority.path(file).encode(), 1) == 1
        self.tls = self.function("SSL_new")(self.context)
        memory = self.function("BIO_s_mem")()
        self.incoming, self.outgoing = self.function("BIO_new")(memory), self.function("BIO_new")(memory)
        self.function("SSL_set_bio", None)(self.tls, self.incoming, self.outgoing)
        self.function("SSL_set_connect_state", None)(self.tls)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)        # small, so that it is soon full
        self.socket.settimeout(30)
        self.socket.connect(("127.0.0.1", port))
        self.buffer = ctypes.create_string_buffer(1 << 17)
        while self.function("SSL_do_handshake", int)(self.tls) != 1:
            self.push()
            self.pull()
        self.push()

    def function(self, name, kind=ctypes.c_void_p):
        found = getattr(self.lib if name.startswith(("SSL", "TLS")) else self.crypto, name)
        found.restype = ctypes.c_int if kind is int else kind

        def call(*args):
            return found(*[ctypes.c_void_p(arg) if isinstance(arg, int) and arg > 1 << 31 else arg for arg in args])
        return call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.function("SSL_free", None)(self.tls)
        self.function("SSL_CTX_free", None)(self.context)

    def push(self):
        while (size := self.function("BIO_read", int)(self.outgoing, self.buffer, len(self.buffer))) > 0:
            self.socket.sendall(self.buffer.raw[:size])

    def pull(self):
        data = self.socket.recv(len(self.buffer))
        if not data:
            raise Closed("the server closed the connection")
        self.function("BIO_write", int)(self.incoming, data, len(data))

    def send(self, data):
        assert self.function("SSL_write", int)(self.tls, data, len(data)) == len(data)
        self.push()

    def read(self, size):
        got = bytearray()
        while len(got) < size:
            part = self.function("SSL_read", int)(self.tls, self.buffer, len(self.buffer))
            if part > 0:
                got += self.buffer.raw[:part]
                continue
            assert self.function("SSL_get_error", int)(self.tls, part) == 2, "not SSL_ERROR_WANT_READ"
            self.pull()
        return got

    def update_key(self, push=True):
        """Updates its own key, and asks for an update of the server's."""
        assert self.function("SSL_key_update", int)(self.tls, 1) == 1
        assert self.function("SSL_do_handshake", int)(self.tls) == 1
        if push:
            self.push()
