"""Does the benchmark work? Nothing here depends on how fast the machine is."""

import time

from front_door import load, measure, proc
from front_door.plan import Row
from front_door.servers import MISS, PATHS, SIZES, Trouble, body_of, hit

LOG_SECONDS = 20
IDLE = 50


def require(fact, otherwise):
    if not fact:
        raise Trouble(otherwise)


def all_of(ground, origin, servers, say):
    """`servers` without the floor, which has no origin and no log."""
    for path in PATHS:
        for server in servers:
            same_body(server, path)
    say("each server gives the origin's bodies")
    from_cache(origin, servers)
    say("stored answers come without the origin, and the others do not")
    for server in servers:
        under_load(ground, server, Row(hit(16), 64))
        if server.speaks_tls:
            under_load(ground, server, Row(hit(16), 64, tls=True))
            under_load(ground, server, Row(hit(1), 64, tls=True, new_connections=True))
            under_load(ground, server, Row(hit(16), 64, tls=True, http2=True))
    say("each server stands the load, uses CPU time for it, and logs each request, by TLS and HTTP/2 too where it speaks them")
    found = measure.idle(servers, IDLE)
    require(all(row["after"]["pss_kib"] > 0 for row in found), f"no memory is seen: {found}")
    say("memory and idle connections can be measured")


def same_body(server, path):
    for _ in range(2):
        head, body = load.fetch(server.port_of(path), path)
        status = head.split(b" ", 2)[1]
        require(status == b"200", f"{server.name}: {path} is answered {status.decode()}")
        require(body == body_of(path), f"{server.name}: {path} has another body than the origin's")


def from_cache(origin, servers):
    origin.freeze()
    try:
        for server in servers:
            for kib in SIZES:
                try:
                    load.fetch(server.port_of(hit(kib)), hit(kib))
                except TimeoutError:
                    raise Trouble(f"{server.name} asks the origin for {hit(kib)}") from None
            try:
                # However long the client waits, there is no server that could answer this.
                load.fetch(server.port_of(MISS), MISS, timeout=0.3)
            except TimeoutError:
                continue
            raise Trouble(f"{server.name} answers {MISS} without the origin: it is stored")
    finally:
        origin.thaw()


def under_load(ground, server, row):
    pids = server.pids()
    before = proc.cpu(pids)
    server.empty_log()
    did = load.closed_loop(ground.load_core, server, row, 1)
    require(did["requests"] > 0, f"{server.name} answered nothing: {did}")
    require(not did["errors"] and not did["wrong_status"], f"{server.name}: {did}")
    require(sum(proc.cpu(pids).since(before)) > 0, f"{server.name}: its CPU time is not seen")
    if not server.log:
        return
    deadline = time.monotonic() + LOG_SECONDS
    wanted = 1 if server.log_may_lose else did["requests"]
    while lines(server.log) < wanted:
        if time.monotonic() > deadline:
            raise Trouble(
                f"{server.name} answered {did['requests']} requests and logged "
                f"{lines(server.log)}"
            )
        time.sleep(0.1)
    server.empty_log()


def lines(path):
    return path.read_bytes().count(b"\n")
