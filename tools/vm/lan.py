"""The network of one test machine, in namespaces of its own.

        host                 nwvK-proxy                        nwvK-lan
    nwvK 10.213.x.y   <-->   uplink     eth0 10.77.0.1   <-->  proxy - br0 - tap0  <-->  guest 10.77.0.2

What is under test runs in nwvK-proxy, beside clients or with clients on the host, which reach it at
the uplink's address. K is claimed by a folder in /run/nightwatt-vm, so machines at the same time do
not meet, and what a crash left behind is found again.
"""

import os
import signal
import subprocess
import time

from common import Failure, run

CLAIMS = "/run/nightwatt-vm"
GUEST, PROXY = "10.77.0.2", "10.77.0.1"


class Lan:
    def __init__(self, number):
        self.number = number
        self.lan, self.proxy, self.host = f"nwv{number}-lan", f"nwv{number}-proxy", f"nwv{number}"
        base = number * 4
        self.host_address = f"10.213.{base >> 8}.{(base & 255) + 1}"
        self.uplink_address = f"10.213.{base >> 8}.{(base & 255) + 2}"

    def namespaces(self):
        return (self.lan, self.proxy)

    def make(self):
        for name in self.namespaces():
            run("ip", "netns", "add", name)
            # No traffic of the kernels' own invention: what is on the wire is to be ours.
            run("ip", "netns", "exec", name, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1",
                "net.ipv6.conf.default.disable_ipv6=1")
        commands = f"""
            link set lo up
            link add br0 type bridge stp_state 0 forward_delay 0
            link set br0 up
            tuntap add tap0 mode tap
            link set tap0 master br0 up
            link add proxy type veth peer name eth0 netns {self.proxy}
            link set proxy master br0 up
        """
        self.batch(self.lan, commands)
        run("ip", "link", "add", self.host, "type", "veth", "peer", "name", "uplink",
            "netns", self.proxy)
        self.batch(self.proxy, f"""
            link set lo up
            address add {PROXY}/24 broadcast + dev eth0
            link set eth0 up
            address add {self.uplink_address}/30 dev uplink
            link set uplink up
        """)
        run("ip", "address", "add", f"{self.host_address}/30", "dev", self.host)
        run("ip", "link", "set", self.host, "up")

    @staticmethod
    def batch(namespace, commands):
        text = "\n".join(line.strip() for line in commands.strip().splitlines())
        done = subprocess.run(["ip", "-n", namespace, "-batch", "-"], input=text, text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Failure(f"cannot set up namespace {namespace}: {done.stderr.strip()}")

    def remove(self):
        """Ends all that runs in the namespaces, and removes them. Does not mind what is gone."""
        for name in self.namespaces():
            if not os.path.exists(f"/run/netns/{name}"):
                continue
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                pids = run("ip", "netns", "pids", name).split()
                if not pids:
                    break
                for pid in pids:
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                time.sleep(0.02)
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.host], check=False, capture_output=True)
        claim = os.path.join(CLAIMS, str(self.number))
        for name in ("dir", ""):
            try:
                path = os.path.join(claim, name)
                os.unlink(path) if name else os.rmdir(claim)
            except FileNotFoundError:
                pass


def claim(directory):
    """The first free number, now ours."""
    os.makedirs(CLAIMS, exist_ok=True)
    for number in range(16000):
        path = os.path.join(CLAIMS, str(number))
        try:
            os.mkdir(path)
        except FileExistsError:
            continue
        with open(os.path.join(path, "dir"), "w") as file:
            file.write(directory)
        return Lan(number)
    raise Failure(f"all numbers in {CLAIMS} are taken; `guest down --all` frees them")


def claims():
    """Which number belongs to which folder; None where a crash came before it was written."""
    found = []
    if os.path.isdir(CLAIMS):
        for name in os.listdir(CLAIMS):
            try:
                with open(os.path.join(CLAIMS, name, "dir")) as file:
                    found.append((Lan(int(name)), file.read()))
            except FileNotFoundError:
                found.append((Lan(int(name)), None))
    return found
