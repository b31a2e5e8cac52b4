"""What the kernel says of processes: CPU time, memory, context switches."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def _text(path):
    """The text of a file under /proc; nothing once its process or thread has ended."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _parents():
    """Every process and its parent."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _text(f"/proc/{name}/stat")
            if stat:
                # The name in brackets may hold anything, so count from its end.
                parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    return parents


def family(pid):
    """A process and all that it started."""
    parents = _parents()
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return [one for one in found if one in parents]


@dataclass
class Cpu:
    """Seconds of CPU time of processes, since each of them began."""

    user: dict
    system: dict

    def since(self, before):
        """(user, system) seconds since then."""
        pairs = ((self.user, before.user), (self.system, before.system))
        return tuple(sum(now[pid] - then.get(pid, 0) for pid in now) for now, then in pairs)


def cpu(pids):
    user, system = {}, {}
    for pid in pids:
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:
            user[pid], system[pid] = (int(fields[place]) / TICKS for place in (11, 12))
    return Cpu(user, system)


def memory(pids):
    """Resident memory in KiB: RSS, and PSS, which counts what is shared once."""
    rss = pss = 0
    for pid in pids:
        for line in _text(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith("Rss:"):
                rss += int(line.split()[1])
            elif line.startswith("Pss:"):
                pss += int(line.split()[1])
    return {"rss_kib": rss, "pss_kib": pss}


def switches(pids):
    """Context switches so far by thread, voluntary and not."""
    found = {}
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except FileNotFoundError:
            continue
        for thread in threads:
            status = _text(f"/proc/{pid}/task/{thread}/status")
            counts = [
                int(line.split()[1]) for line in status.splitlines() if "_ctxt_switches" in line
            ]
            if counts:
                found[int(thread)] = sum(counts)
    return found


def switches_since(before, after):
    return sum(count - before.get(thread, 0) for thread, count in after.items())


def machine():
    """What the figures depend on."""
    lines = _text("/proc/cpuinfo").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    system = os.uname()
    return {
        "cpu": models[0] if models else system.machine,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "kernel": f"{system.sysname} {system.release}",
    }


def others():
    """Ticks of the whole machine: in use, and taken from it by its host."""
    fields = [int(field) for field in _text("/proc/stat").splitlines()[0].split()[1:]]
    return {"busy": sum(fields[:3]) + sum(fields[5:7]), "steal": fields[7], "all": sum(fields[:8])}
