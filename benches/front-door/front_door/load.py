"""Load: wrk and h2load (closed loop), oha (open loop), connections that idle, and one request by hand."""

import json
import re
import select
import socket
import subprocess
from pathlib import Path

from front_door.plan import STREAMS
from front_door.servers import Trouble, tool

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
HEADERS = {"User-Agent": AGENT, "Accept": "*/*"}
SCRIPT = Path(__file__).resolve().parent.parent / "wrk.lua"


def headers_of(flag):
    return [part for name, value in HEADERS.items() for part in (flag, f"{name}: {value}")]


def pinned(core, arguments, limit):
    """Runs a generator on its core; gives what it printed."""
    command = ["taskset", "-c", str(core), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    if done.returncode != 0:
        raise Trouble(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def wrk(core, server, row, seconds):
    """As fast as the server answers: requests, seconds, and what went wrong."""
    scheme, port = ("https", server.tls_port) if row.tls else ("http", server.port_of(row.path))
    numbers = ["-t1", f"-c{row.connections}", f"-d{seconds}s", "--timeout", "10s"]
    close = ["-H", "Connection: close"] if row.new_connections else []
    url = f"{scheme}://127.0.0.1:{port}/{row.path}"
    arguments = [tool("wrk"), *numbers, *headers_of("-H"), *close, "-s", SCRIPT, url]
    text = pinned(core, arguments, seconds + 60)
    return json.loads(text.partition("JSON ")[2].partition("\n")[0])


def h2load(core, server, row, seconds):
    """The same by HTTP/2."""
    url = f"https://127.0.0.1:{server.tls_port}/{row.path}"
    numbers = ["-t1", f"-c{row.connections}", f"-m{STREAMS}", f"-D{seconds}"]
    text = pinned(core, [tool("h2load"), *numbers, *headers_of("-H"), url], seconds + 60)
    if "Application protocol: h2" not in text:
        raise Trouble(f"{server.name} does not speak HTTP/2: {text}")

    def count(what):
        return int(re.search(rf"(\d+) {what}", text)[1])

    return {
        "requests": count("2xx"),
        "seconds": seconds,
        "errors": sum(map(count, ("failed", "errored", "timeout"))),
        "wrong_status": sum(map(count, ("3xx", "4xx", "5xx"))),
    }


def closed_loop(core, server, row, seconds):
    return (h2load if row.http2 else wrk)(core, server, row, seconds)


def oha(program, core, port, path, connections, seconds, rate):
    """Requests at fixed times, whatever the server does. Latencies in ms, from when each was due."""
    url = f"http://127.0.0.1:{port}/{path}"
    numbers = ["-c", connections, "-z", f"{seconds}s", "-q", rate, "--latency-correction"]
    quiet = ["--no-tui", "--output-format", "json", "--no-color"]
    arguments = [program, *numbers, *quiet, *headers_of("-H"), url]
    found = json.loads(pinned(core, arguments, seconds + 60))
    wrong = {code: count for code, count in found["statusCodeDistribution"].items() if code != "200"}
    percentiles = found["latencyPercentiles"]
    return {
        "p50_ms": percentiles["p50"] * 1e3,
        "p99_ms": percentiles["p99"] * 1e3,
        "requests_per_s": found["summary"]["requestsPerSec"],
        "errors": sum(wrong.values()),
    }


def request(path):
    lines = [f"GET /{path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def receive(connection):
    """One answer with a Content-Length: its head with the blank line, and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise Trouble(f"a connection ended within a head: {data!r}")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = [
        int(value)
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        if name.lower() == b"content-length"
    ]
    if not length:
        raise Trouble(f"an answer without Content-Length: {head!r}")
    while len(body) < length[0]:
        part = connection.recv(65536)
        if not part:
            raise Trouble(f"a connection ended within a body: {head!r}")
        body += part
    return head + b"\r\n\r\n", body


def fetch(port, path, timeout=10):
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(request(path))
        return receive(connection)


class Idle:
    """Keep-alive connections, each of which has made one request."""

    def __init__(self, port, path, count):
        self.connections = []
        try:
            for _ in range(count):
                connection = socket.create_connection(("127.0.0.1", port), 10)
                self.connections.append(connection)
                connection.sendall(request(path))
                receive(connection)
        except OSError as error:
            self.close()
            opened = len(self.connections)
            raise Trouble(f"only {opened} of {count} connections could be made: {error}") from error

    def closed(self):
        """How many the server has closed: an idle connection can be read only at its end."""
        poll = select.poll()
        for connection in self.connections:
            poll.register(connection, select.POLLIN | select.POLLHUP)
        return len(poll.poll(0))

    def close(self):
        for connection in self.connections:
            connection.close()
