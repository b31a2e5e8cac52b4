"""Two network namespaces of this machine that stand in for two machines."""

import dataclasses
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ADDRESSES = ("10.39.0.1", "10.39.0.2")
PORT = 7390
# No program needs longer for one run, s.
LIMIT = 900
# What tbf may send at once: 10 ms, and no less than two packets.
BURST_SECONDS, LEAST_BURST = 0.01, 3200


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: s, CPU s of this end and of the other, most memory of a process of each, and JSON on stdout."""

    seconds: float
    # Until the other end is done as well.
    both: float
    cpu: float
    mib: float
    other_cpu: float
    other_mib: float
    said: dict


def sh(line, **options):
    return subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], check=True, **options)


def build(root):
    """Builds the program, and returns where it is."""
    profile = os.environ.get("NIGHTWATT_PROFILE", "release")
    command = ["cargo", "build", "--profile", profile, "--locked", "-p", "nightwatt-cli"]
    subprocess.run(command, cwd=root, check=True)
    metadata = ["cargo", "metadata", "--no-deps", "--format-version=1", "--offline"]
    found = subprocess.run(metadata, cwd=root, check=True, capture_output=True)
    folder = "debug" if profile == "dev" else profile
    return Path(json.loads(found.stdout)["target_directory"], folder, "nightwatt")


def waited(child):
    """Waits for a child and its children: CPU seconds, and most MiB of one of them."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


class Link:
    """Two namespaces, an sshd in the second one, and ssh's options to reach it from the first."""

    def __init__(self, folder):
        self.names = [f"nwt-{os.getpid()}-{end}" for end in "ab"]
        self.config, self.output = Path(folder, "ssh"), Path(folder, "output")
        here, there = self.names
        for name in self.names:
            sh(f"ip netns add {name} && ip -n {name} link set lo up")
        sh(f"ip -n {here} link add nwt0 type veth peer name nwt0 netns {there}")
        for name, address in zip(self.names, ADDRESSES):
            sh(f"ip -n {name} address add {address}/30 dev nwt0 && ip -n {name} link set nwt0 up")
        for key in ("host", "id"):
            sh(f"ssh-keygen -q -t ed25519 -N '' -f {folder}/{key}")
        os.makedirs("/run/sshd", exist_ok=True)
        shutil.copy(f"{folder}/id.pub", f"{folder}/authorized")
        Path(folder, "known").write_text(f"{ADDRESSES[1]} {Path(folder, 'host.pub').read_text()}")
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
        command = f"""ip netns exec {there} {sshd} -D -f /dev/null -h {folder}/host -o StrictModes=no -o UsePAM=no
            -o PidFile=none -o PermitRootLogin=yes -o ListenAddress={ADDRESSES[1]} -o 'Subsystem=sftp internal-sftp'
            -o AuthorizedKeysFile={folder}/authorized"""
        self.sshd = subprocess.Popen(shlex.split(command), stderr=subprocess.DEVNULL)
        self.config.write_text(
            f"IdentityFile {folder}/id\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\nBatchMode yes\n"
            f"LogLevel ERROR\nConnectionAttempts 20\nCompression no\n"
        )
        self.ssh = f"ssh -F {self.config}"
        self.at = f"root@{ADDRESSES[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sshd.kill()
        self.sshd.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def slow(self, rate):
        # A queue of 100 ms.
        bits, burst = int(rate * 8), max(int(rate * BURST_SECONDS), LEAST_BURST)
        for name in self.names:
            sh(f"tc -n {name} qdisc replace dev nwt0 root tbf rate {bits} burst {burst} latency 100ms")

    def within(self, end, line, **options):
        """Starts a line of the shell at one end."""
        command = ["ip", "netns", "exec", self.names[end], "timeout", str(LIMIT), "bash", "-c"]
        return subprocess.Popen([*command, f"set -o pipefail; {line}"], **options)

    def serve(self, line):
        """Starts a program at the other end that listens on PORT, and waits until it does."""
        child = self.within(1, f"exec {line}", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        listening = ["ip", "netns", "exec", self.names[1], "ss", "-Hltn", f"sport = :{PORT}"]
        while not subprocess.run(listening, check=True, capture_output=True).stdout:
            if child.poll() is not None:
                sys.exit(f"error: it does not listen: {line}")
            time.sleep(0.02)
        return child

    def timed(self, program):
        """Runs a program's line and, if it needs one, the line of its other end."""
        line, other = program
        listener = self.serve(other) if other else None
        with self.output.open("wb") as output:
            start = time.monotonic()
            child = self.within(0, line, stdin=subprocess.DEVNULL, stdout=output)
            cpu, mib = waited(child)
            seconds = time.monotonic() - start
        other_cpu, other_mib = waited(listener) if listener else (0.0, 0.0)
        both = time.monotonic() - start
        if child.returncode or (listener and listener.returncode):
            sys.exit(f"error: it ended with status {child.returncode}: {line}")
        said = self.output.read_bytes()
        said = json.loads(said) if said.startswith(b"{") else {}
        return Run(seconds, both, cpu, mib, other_cpu, other_mib, said)

    def rate(self, intended):
        """The link's rate as it is, bytes per second: of a second of zeros, after what tbf lets through at once."""
        first, count = int(intended * 0.2), int(intended * 1.2)

        def seconds(count):
            line = f"head -c {count} /dev/zero | nc -N {ADDRESSES[1]} {PORT}"
            return self.timed((line, f"nc -l {ADDRESSES[1]} {PORT}")).both

        return (count - first) / (statistics.median(seconds(count) for _ in range(3)) - seconds(first))
