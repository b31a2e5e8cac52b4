"""How many system calls a request takes, counted by strace."""

import subprocess
import tempfile
import time

from front_door import load
from front_door.servers import Trouble, end, tool

CONNECTIONS = 64
SECONDS = 2


def count(ground, server, path):
    """Calls per request by name. strace slows its subject down, which then finds more requests at
    each wake-up: calls for waiting are fewer than without it."""
    with tempfile.NamedTemporaryFile("r") as summary:
        watched = [part for pid in server.pids() for part in ("-p", str(pid))]
        strace = subprocess.Popen(
            [tool("strace"), "-f", "-c", "-U", "calls,name", "-o", summary.name, *watched],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        wait_for_tracer(server.pids(), strace)
        try:
            did = load.wrk(ground.load_core, server, Row(path, CONNECTIONS), SECONDS)
        finally:
            end(strace)
        server.empty_log()
        calls = {}
        for line in summary.read().splitlines():
            fields = line.split()
            if len(fields) == 2 and fields[0].isdigit() and fields[1] != "total":
                calls[fields[1]] = int(fields[0]) / did["requests"]
    if not calls:
        raise Trouble(f"strace saw no system call of {server.name}")
    return {"server": server.name, "path": path, "calls": calls}


def wait_for_tracer(pids, strace):
    deadline = time.monotonic() + 10
    while not all(is_traced(pid) for pid in pids):
        if strace.poll() is not None or time.monotonic() > deadline:
            strace.kill()
            raise Trouble(f"strace cannot watch: {strace.stderr.read().decode()}")
        time.sleep(0.05)


def is_traced(pid):
    with open(f"/proc/{pid}/status") as status:
        return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in status)
