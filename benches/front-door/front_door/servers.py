"""The servers under test, their origin, and how each is started and watched."""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from email.utils import formatdate
from pathlib import Path

from front_door import configs, proc

KIB = 1024
SIZES = (1, 16, 256)
MISS = "miss1"
"""A path whose answer must not be stored."""
START_SECONDS = 20


class Trouble(Exception):
    """What stops the benchmark, in words for its user."""


def hit(kib):
    """The path of an answer of that size, which may be stored for a day."""
    return f"hit{kib}"


PATHS = [hit(kib) for kib in SIZES] + [MISS]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def body_of(path):
    """The same bytes each time: text that does not compress to nothing."""
    kib = int("".join(filter(str.isdigit, path)))
    chosen = random.Random(path).choices(b"abcdefghijklmnopqrstuvwxyz     \n", k=kib * KIB)
    return bytes(chosen)


def answer_of(path):
    body = body_of(path)
    lasting = "no-store" if path == MISS else "public, max-age=86400"
    lines = [
        "HTTP/1.1 200 OK",
        f"Date: {formatdate(usegmt=True)}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        f"Cache-Control: {lasting}",
        f'ETag: "{path}-1"',
        "Last-Modified: Sat, 03 Mar 2012 06:26:42 GMT",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Ground:
    """Where and with what everything runs."""

    def __init__(self, folder, binaries, nofile, log_buffer=True):
        self.folder = Path(folder)
        self.nightwatt, self.floor = binaries
        self.nofile = nofile
        self.log_buffer = log_buffer
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.load_core = cores[0], cores[-1]
        self.origin_port = free_port()
        self.chain, self.key = self.folder / "chain.pem", self.folder / "key.pem"
        self.certify()

    def certify(self):
        """A certificate of P-256, as authorities give them now, for all that speak TLS."""
        request = [tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        request += ["-nodes", "-days", "30", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", self.key, "-out", self.chain]
        subprocess.run([*request, *files], check=True, capture_output=True)

    def start(self, arguments, name, core):
        """Starts a program on one core; what it says goes to a file."""
        with open(self.folder / f"{name}.output", "ab") as output:
            return subprocess.Popen(
                ["taskset", "-c", str(core), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )


class Server:
    """A program that listens. `name` is also that of its folder."""

    name = ""
    paths = PATHS
    speaks_tls = False
    speed_only = False
    """Is there only to be compared by speed?"""
    log = None
    """The access log, if it writes one."""
    log_may_lose = False
    """May lines of it be missing?"""

    def __init__(self, ground):
        self.ground = ground
        self.port, self.tls_port = free_port(), free_port()
        self.process = None
        self.folder = ground.folder / self.name
        self.folder.mkdir(parents=True)
        self.config = self.configure()

    def configure(self):
        """Writes what the server reads, and gives it as text."""
        raise NotImplementedError

    def arguments(self):
        raise NotImplementedError

    def version(self):
        return None

    def fill(self, text, **more):
        """A configuration with the places of this run."""
        return text.format(
            **more,
            port=self.port,
            tls_port=self.tls_port,
            chain=self.ground.chain,
            key=self.ground.key,
            origin=self.ground.origin_port,
            folder=self.folder,
            nofile=self.ground.nofile,
            log_buffer=" buffer=64k flush=1s" if self.ground.log_buffer else "",
            user="user root;\n" if os.geteuid() == 0 else "",
            log=self.folder / "access.log",
        )

    def start(self):
        core = self.ground.server_core
        self.process = self.ground.start(self.arguments(), self.name, core)
        self.wait()

    def wait(self):
        """Until it listens."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    output = (self.ground.folder / f"{self.name}.output").read_text()
                    raise Trouble(f"{self.name} did not start: {output}") from error
                time.sleep(0.05)

    def stop(self):
        end(self.process)

    def port_of(self, path):
        return self.port

    def pids(self):
        return proc.family(self.process.pid)

    def helpers(self):
        """Processes that only write its log."""
        return []

    def empty_log(self):
        """Logs are opened for appending, so that what follows starts at the beginning again."""
        if self.log:
            os.truncate(self.log, 0)


class Nightwatt(Server):
    name = "nightwatt"
    speaks_tls = True

    def configure(self):
        self.log = self.folder / "access.log"
        text = self.fill(configs.NIGHTWATT)
        (self.folder / "nightwatt.toml").write_text(text)
        return text

    def binary(self):
        return self.ground.nightwatt

    def arguments(self):
        return [self.binary(), "serve", "-c", self.folder / "nightwatt.toml"]

    def version(self):
        return output_of([self.binary(), "--version"])


class EarlierNightwatt(Nightwatt):
    """Another binary, of a commit before; without TLS, which it may not know."""

    speaks_tls = False
    speed_only = True

    def __init__(self, ground, file):
        self.file = file.resolve()
        self.name = f"before-{file.name}"
        super().__init__(ground)

    def binary(self):
        return self.file

    def fill(self, text, **more):
        before, _, tls = text.partition("[tls]")
        return super().fill(before + tls[tls.index("[scenario]") :], **more)


class Nginx(Server):
    name = "nginx"
    speaks_tls = True
    choices = configs.NGINX_AS_ADVISED

    def configure(self):
        self.log = self.folder / "access.log"
        text = self.fill(configs.NGINX, **self.choices)
        (self.folder / "nginx.conf").write_text(text)
        return text

    def arguments(self):
        return [tool("nginx"), "-e", self.folder / "error.log", "-c", self.folder / "nginx.conf"]

    def version(self):
        return output_of([tool("nginx"), "-v"]).rpartition("/")[2]


class NginxAtItsBest(Nginx):
    name = "nginx-best"
    choices = configs.NGINX_AT_ITS_BEST
    speed_only = True


class Varnish(Server):
    name = "varnish"
    reporter = None
    # It writes its log from a ring in memory; what does not keep up with that loses lines.
    log_may_lose = True

    def configure(self):
        self.log = self.folder / "access.log"
        text = self.fill(configs.VARNISH)
        (self.folder / "front.vcl").write_text(text)
        commands = [
            " ".join(["varnishd", *map(self.fill, configs.VARNISH_ARGUMENTS)]),
            " ".join(["varnishncsa", *map(self.fill, configs.VARNISHNCSA_ARGUMENTS)]),
        ]
        return "\n".join([*commands, "", text])

    def arguments(self):
        return [tool("varnishd"), *map(self.fill, configs.VARNISH_ARGUMENTS)]

    def start(self):
        super().start()
        arguments = [tool("varnishncsa"), *map(self.fill, configs.VARNISHNCSA_ARGUMENTS)]
        self.reporter = self.ground.start(arguments, "varnishncsa", self.ground.server_core)
        deadline = time.monotonic() + START_SECONDS
        while not self.log.exists():
            if self.reporter.poll() is not None or time.monotonic() > deadline:
                output = (self.ground.folder / "varnishncsa.output").read_text()
                raise Trouble(f"varnishncsa did not start: {output}")
            time.sleep(0.05)

    def stop(self):
        if self.reporter:
            end(self.reporter)
        super().stop()

    def pids(self):
        return super().pids() + self.helpers()

    def helpers(self):
        return proc.family(self.reporter.pid)

    def version(self):
        return output_of([tool("varnishd"), "-V"]).partition("varnish-")[2].partition(" ")[0]


class Floor(Server):
    """Answers, byte for byte, what nightwatt answered. Each answer has an address of its own."""

    name = "floor"
    paths = [hit(kib) for kib in SIZES]

    def configure(self):
        self.ports = {path: free_port() for path in self.paths}
        self.port = self.ports[hit(SIZES[0])]
        return "the answers of nightwatt, as they were sent"

    def prepare(self, answers):
        for path in self.ports:
            (self.folder / path).write_bytes(answers[path])

    def arguments(self):
        listens = [f"127.0.0.1:{port}={self.folder / path}" for path, port in self.ports.items()]
        return [self.ground.floor, *listens]

    def port_of(self, path):
        return self.ports[path]


class Origin(Server):
    """The floor's program again, with an answer for each path; shares the generator's core."""

    name = "origin"

    def configure(self):
        self.port = self.ground.origin_port
        for path in PATHS:
            (self.folder / path).write_bytes(answer_of(path))
        return answer_of(MISS).partition(b"\r\n\r\n")[0].decode()

    def start(self):
        arguments = [self.ground.floor, f"127.0.0.1:{self.port}={self.folder}"]
        self.process = self.ground.start(arguments, self.name, self.ground.load_core)
        self.wait()

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)


def tool(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Trouble(f"{name} is missing; `make bench-front-door` installs it on Debian")
    return found


def output_of(arguments):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().partition("\n")[0]


def end(process):
    """Asks a program that we started to stop, and makes it if it does not."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
