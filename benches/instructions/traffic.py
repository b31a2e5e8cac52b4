"""What stands around the gateway while it is measured: an origin, and clients that ask one thing after
another over one connection.
"""

import collections
import contextlib
import socket
import ssl
import struct
import threading
import time

BODY = b"x" * 1024
SECONDS = 60

AWAKE = "/awake"
CACHED = "/cached"
UNCACHED = "/uncached"

# What Chrome sends when a user opens a page, in its order; Accept-Language and DNT as a user sets them.
BROWSER = [
    ("Connection", "keep-alive"),
    ("DNT", "1"),
    ("Sec-CH-UA", '"Chromium";v="140", "Not=A?Brand";v="24", "Google Chrome";v="140"'),
    ("Sec-CH-UA-Mobile", "?0"),
    ("Sec-CH-UA-Platform", '"Linux"'),
    ("Upgrade-Insecure-Requests", "1"),
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/140.0.0.0 Safari/537.36",
    ),
    (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    ),
    ("Sec-Fetch-Site", "none"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-User", "?1"),
    ("Sec-Fetch-Dest", "document"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Accept-Language", "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7"),
]
# What wrk sends.
BARE = [("User-Agent", "wrk/4.1.0")]


class Trouble(Exception):
    """What keeps the benchmark from going on."""


class Origin:
    """Answers `/cached` with an answer that stays fresh for an hour, all else with one that must not
    be stored."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked = collections.Counter()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        # Without this the answer to each request waits for an acknowledgement.
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held = b""
        with peer, contextlib.suppress(OSError):
            while True:
                head, end, rest = held.partition(b"\r\n\r\n")
                if not end:
                    more = peer.recv(65536)
                    if not more:
                        return
                    held += more
                    continue
                held = rest
                target = head.split(b" ", 2)[1].decode("latin-1")
                self.asked[target] += 1
                keep = b"max-age=3600" if target == CACHED else b"no-store"
                # Head and body leave in one piece, so that the gateway reads as often each time.
                peer.sendall(
                    b"HTTP/1.1 200 OK\r\n"
                    b"Date: " + time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()).encode() + b"\r\n"
                    b"Server: origin\r\nContent-Type: text/html; charset=utf-8\r\n"
                    b"Cache-Control: " + keep + b"\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(BODY) + (BODY if not head.startswith(b"HEAD") else b"")
                )

    def close(self):
        self.listener.close()


def connected(port, alive):
    """A connection to the gateway, which may still be starting."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            peer = socket.create_connection(("127.0.0.1", port), SECONDS)
        except OSError as error:
            if not alive() or time.monotonic() > deadline:
                raise Trouble("the gateway did not start") from error
            time.sleep(0.05)
            continue
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer


class Http1:
    """A client that speaks HTTP/1.1 and keeps its connection."""

    def __init__(self, port, alive, target, fields):
        self.peer = connected(port, alive)
        lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
        lines += [f"{name}: {value}" for name, value in fields]
        self.request = "\r\n".join([*lines, "", ""]).encode()

    def ask(self):
        """Sends one request and reads its answer."""
        self.peer.sendall(self.request)
        held = b""
        while b"\r\n\r\n" not in held:
            held += self.more()
        head, _, body = held.partition(b"\r\n\r\n")
        size = len(body)
        while size < len(BODY):
            size += len(self.more())
        if not head.startswith(b"HTTP/1.1 200 ") or size != len(BODY):
            raise Trouble(f"unexpected answer: {head.decode('latin-1')}")

    def more(self):
        data = self.peer.recv(65536)
        if not data:
            raise Trouble("the gateway closed the connection")
        return data

    def close(self):
        self.peer.close()


class Http2:
    """A client that speaks HTTP/2 over TLS, one stream after another.

    The first request puts its fields into HPACK's dynamic table and the later ones refer to them, as
    browsers do.
    """

    DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
    END_STREAM, END_HEADERS, ACK = 1, 4, 1
    # Of the static table (RFC 7541, appendix A): `:method: GET`, `:scheme: https`; names only.
    GET, HTTPS = 0x80 | 2, 0x80 | 7
    AUTHORITY, PATH = 1, 4
    FIRST_DYNAMIC = 62

    def __init__(self, port, alive, target, fields):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self.peer = context.wrap_socket(connected(port, alive), server_hostname="localhost")
        if self.peer.selected_alpn_protocol() != "h2":
            raise Trouble("the gateway does not offer HTTP/2")
        self.held = b""
        self.stream = 1
        hop = {"connection"}
        named = [(name.lower(), value) for name, value in fields if name.lower() not in hop]
        pseudo = bytes([self.GET, self.HTTPS])
        self.first = (
            pseudo
            + bytes([0x40 | self.AUTHORITY])
            + self.text(f"localhost:{port}")
            + bytes([0x40 | self.PATH])
            + self.text(target)
            + b"".join(b"\x40" + self.text(name) + self.text(value) for name, value in named)
        )
        # The table's newest entry comes first.
        entries = len(named) + 2
        self.later = pseudo + bytes(0x80 | self.FIRST_DYNAMIC + entries - 1 - at for at in range(entries))
        # No pushes; windows that no answer of a run exhausts, so that none is ever updated.
        settings = struct.pack(">HIHI", 2, 0, 4, 2**31 - 1)
        self.peer.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + self.frame(self.SETTINGS, 0, 0, settings)
            + self.frame(self.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65535))
        )

    @staticmethod
    def text(value):
        data = value.encode()
        if len(data) < 127:
            return bytes([len(data)]) + data
        rest, prefix = len(data) - 127, b"\x7f"
        while rest >= 128:
            prefix += bytes([rest % 128 + 128])
            rest //= 128
        return prefix + bytes([rest]) + data

    @staticmethod
    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload

    def ask(self):
        """Sends one request and reads its answer."""
        block = self.first if self.stream == 1 else self.later
        flags = self.END_STREAM | self.END_HEADERS
        self.peer.sendall(self.frame(self.HEADERS, flags, self.stream, block))
        size = 0
        while True:
            kind, flags, stream, payload = self.next()
            if kind == self.SETTINGS and not flags & self.ACK:
                self.peer.sendall(self.frame(self.SETTINGS, self.ACK, 0, b""))
            elif kind == self.PING and not flags & self.ACK:
                self.peer.sendall(self.frame(self.PING, self.ACK, 0, payload))
            elif kind in (self.RST_STREAM, self.GOAWAY):
                raise Trouble(f"the gateway ended the stream: {payload!r}")
            elif kind == self.HEADERS and payload[:1] != b"\x88":
                raise Trouble(f"unexpected answer: not 200, {payload!r}")
            elif kind == self.DATA:
                size += len(payload)
            if kind in (self.DATA, self.HEADERS) and stream == self.stream and flags & self.END_STREAM:
                break
        if size != len(BODY):
            raise Trouble(f"unexpected answer: {size} bytes")
        self.stream += 2

    def next(self):
        head = self.exactly(9)
        payload = self.exactly(int.from_bytes(head[:3], "big"))
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return kind, flags, stream & 0x7FFFFFFF, payload

    def exactly(self, count):
        while len(self.held) < count:
            data = self.peer.recv(65536)
            if not data:
                raise Trouble("the gateway closed the connection")
            self.held += data
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def close(self):
        self.peer.close()
