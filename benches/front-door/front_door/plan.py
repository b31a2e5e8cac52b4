"""What is measured, for how long, and what is to be reached."""

from dataclasses import dataclass, field

from front_door.servers import MISS, SIZES, hit

CONNECTIONS = (64, 1000)


STREAMS = 10
"""Requests at once on a connection of HTTP/2."""

BEFORE = 0.95
"""Least share of what an earlier nightwatt reached."""


@dataclass(frozen=True)
class Row:
    """One line of the table of speeds."""

    path: str
    connections: int
    tls: bool = False
    new_connections: bool = False
    """Is each request the only one of its connection?"""
    http2: bool = False
    """By HTTP/2, which takes TLS, with `STREAMS` requests at once on each connection?"""

    @property
    def is_hit(self):
        return self.path != MISS

    @property
    def title(self):
        kib = "".join(filter(str.isdigit, self.path))
        by = " by TLS, a handshake each" if self.new_connections else " by TLS" if self.tls else ""
        by = " by HTTP/2" if self.http2 else by
        return f"{'hit' if self.is_hit else 'miss'} {kib} KiB{by}, {self.connections} connections"

    def is_for(self, server):
        return self.path in server.paths and (server.speaks_tls or not self.tls)

    @property
    def goals(self):
        """Least requests per CPU second, as multiples of a peer's; for the floor at most the CPU."""
        if self.tls or not self.is_hit:
            return {"nginx": 1.0, "before": BEFORE}
        nginx = {hit(1): 1.25, hit(16): 1.1}.get(self.path, 1.0)
        return {"nginx": nginx, "varnish": 2.5, "floor": 1.25, "before": BEFORE}


ROWS = [Row(path, n) for path in [*map(hit, SIZES), MISS] for n in CONNECTIONS]
ROWS += [Row(path, CONNECTIONS[0], tls=True) for path in [*map(hit, SIZES), MISS]]
ROWS += [Row(hit(1), CONNECTIONS[0], tls=True, new_connections=True)]
ROWS += [Row(path, CONNECTIONS[0], tls=True, http2=True) for path in [*map(hit, SIZES), MISS]]

RATES = {hit(1): 5000, hit(16): 5000, hit(256): 500, MISS: 2000}
"""Requests per second of the open loop: well below what the slowest of them can do on one core."""
RATE_CONNECTIONS = 64


@dataclass
class Plan:
    """How long everything takes."""

    rounds: int
    seconds: int
    latency_rounds: int
    latency_seconds: int
    idle_connections: int
    settle_seconds: int
    quiet_seconds: int
    rows: list = field(default_factory=lambda: list(ROWS))
    latency_paths: list = field(default_factory=lambda: list(RATES))


FULL = Plan(
    rounds=5,
    seconds=2,
    latency_rounds=3,
    latency_seconds=4,
    idle_connections=10_000,
    settle_seconds=10,
    quiet_seconds=65,
)
QUICK = Plan(
    rounds=1,
    seconds=1,
    latency_rounds=1,
    latency_seconds=2,
    idle_connections=2_000,
    settle_seconds=3,
    quiet_seconds=30,
)
