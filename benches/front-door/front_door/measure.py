"""The measurements. Each gives plain data, which `report` shows and JSON keeps."""

import time

from front_door import load, proc
from front_door.plan import RATE_CONNECTIONS, RATES
from front_door.servers import PATHS, SIZES, Trouble, hit


def order(servers, number):
    """Who is measured after whom in that round: everybody comes first in turn, and each second
    round goes backwards, so that no server always follows the same neighbour."""
    place = number % len(servers)
    turned = servers[place:] + servers[:place]
    return turned[::-1] if number % 2 else turned


def quiet(servers, settle, seconds):
    """Without requests: wake-ups of the whole process, and memory with an empty cache."""
    time.sleep(settle)
    before = {server.name: proc.switches(server.pids()) for server in servers}
    began = {server.name: proc.cpu(server.pids()) for server in servers}
    start = time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - start
    found = []
    for server in servers:
        pids = server.pids()
        switched = proc.switches_since(before[server.name], proc.switches(pids))
        helpers = server.helpers()
        of_helpers = {
            thread: count
            for thread, count in before[server.name].items()
            if thread in proc.switches(helpers)
        }
        user, system = proc.cpu(pids).since(began[server.name])
        found.append({
            "server": server.name,
            "seconds": lasted,
            "switches_per_s": switched / lasted,
            "helper_switches_per_s": proc.switches_since(of_helpers, proc.switches(helpers)) / lasted,
            "cpu_ms_per_s": (user + system) / lasted * 1e3,
            "processes": len(pids),
            **proc.memory(pids),
        })
    return found


def idle(servers, count):
    """Memory of connections that wait, each of which has made one request for a stored answer."""
    found = []
    for server in servers:
        path = hit(SIZES[0])
        load.fetch(server.port_of(path), path)
        before = proc.memory(server.pids())
        waiting = load.Idle(server.port_of(path), path, count)
        time.sleep(1)
        after = proc.memory(server.pids())
        closed = waiting.closed()
        waiting.close()
        if closed:
            raise Trouble(f"{server.name} closed {closed} of {count} idle connections")
        found.append({
            "server": server.name,
            "connections": count,
            "before": before,
            "after": after,
            "pss_kib_per_10000": (after["pss_kib"] - before["pss_kib"]) * 10_000 / count,
        })
    return found


def warm(servers):
    """Every stored answer is stored; gives the answers as clients get them."""
    answers = {}
    for server in servers:
        for path in PATHS:
            load.fetch(server.port_of(path), path)
            answers[server.name, path] = load.fetch(server.port_of(path), path)
    return answers


def closed_loop(ground, server, row, seconds):
    """One server, one row, once: as fast as it goes."""
    pids, helpers = server.pids(), server.helpers()
    before, of_helpers = proc.cpu(pids), proc.cpu(helpers)
    did = load.closed_loop(ground.load_core, server, row, seconds)
    user, system = proc.cpu(pids).since(before)
    helper = sum(proc.cpu(helpers).since(of_helpers))
    server.empty_log()
    if did["errors"] or did["wrong_status"] or not did["requests"]:
        raise Trouble(f"{server.name}, {row.title}: {did}")
    return {
        "server": server.name,
        "requests": did["requests"],
        "requests_per_s": did["requests"] / did["seconds"],
        "user_s": user,
        "system_s": system,
        "helper_s": helper,
        "requests_per_cpu_s": did["requests"] / (user + system),
        "requests_per_cpu_s_without_helper": did["requests"] / (user + system - helper),
        "cpu_share": (user + system) / did["seconds"],
    }


def speed(ground, servers, plan, say):
    """Requests per CPU second, alternately, in rounds."""
    rows = {row: [] for row in plan.rows}
    for number in range(plan.rounds):
        for row in plan.rows:
            say(f"round {number + 1} of {plan.rounds}: {row.title}")
            able = [server for server in servers if row.is_for(server)]
            one = [
                closed_loop(ground, server, row, plan.seconds) for server in order(able, number)
            ]
            rows[row].append({did["server"]: did for did in one})
    return [
        {"row": row.title, "path": row.path, "connections": row.connections, "goals": row.goals,
         "rounds": rounds}
        for row, rounds in rows.items()
    ]  # fmt: skip


def latency(ground, servers, plan, oha, say):
    """p50 and p99 at a fixed rate, the same for all."""
    found = {path: [] for path in plan.latency_paths}
    for number in range(plan.latency_rounds):
        for path, rounds in found.items():
            say(f"round {number + 1} of {plan.latency_rounds}: {path} at {RATES[path]} a second")
            able = [server for server in servers if path in server.paths]
            did = {}
            for server in order(able, number):
                did[server.name] = load.oha(
                    oha,
                    ground.load_core,
                    server.port_of(path),
                    path,
                    RATE_CONNECTIONS,
                    plan.latency_seconds,
                    RATES[path],
                )
                server.empty_log()
                if did[server.name]["errors"]:
                    raise Trouble(f"{server.name}, {path} at a fixed rate: {did[server.name]}")
            rounds.append(did)
    return [
        {"path": path, "rate": RATES[path], "connections": RATE_CONNECTIONS, "rounds": rounds}
        for path, rounds in found.items()
    ]
