#!/usr/bin/env python3
"""Stands in for the Wake-on-LAN half of the guest's NIC, and keeps the record of a test machine.

None of QEMU's NICs wakes its guest. This listens on the bridge as the NIC would on its wire, and
when a magic packet for the guest's address passes while the guest sleeps it presses QEMU's
`system_wakeup` (S3) or turns the machine on again (power off, hibernation). Like a NIC that is off,
it keeps all other frames from a sleeping guest: its port of the bridge is shut meanwhile, or they
would wait in the tap's queue and be answered after waking.

`guest up` starts it inside of the LAN namespace. It writes one JSON object a line to DIR/events.jsonl
and to each client of DIR/events.sock (first all past events, then new ones):

  {"event": "SUSPEND", "wall": UNIX_SECONDS, "monotonic": SECONDS, "data": {..}}
      QMP's SUSPEND, WAKEUP, SUSPEND_DISK, SHUTDOWN, RESET, POWERDOWN, STOP, RESUME; `wall` and `monotonic` (CLOCK_MONOTONIC of the host) say when QEMU emitted it
  {"event": "magic", .., "via": "ether"|"udp4:PORT"|"udp6:PORT"|.., "from": MAC, "to": MAC,
   "password": "ok"|"wrong"|"none", "dropped": BOOL, "plugged": BOOL, "guest": STATUS,
   "woke": BOOL}
      a magic packet for the guest; `dropped` if chance (--drop) took it before the NIC, not
      `plugged` if its cable was out (`guest link down`)
  {"event": "frame", .., "from": MAC, "to": MAC, "type": "arp"|"ipv4"|.., "for_guest": BOOL, ..}
      any other frame on the wire while the guest sleeps (a proxy that is to keep quiet sends none);
      `for_guest`: sent to its address, or asking by ARP for its address
"""

import argparse
import ctypes
import fcntl
import json
import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import time

from qmp import Qmp

ASLEEP = ("suspended", "shutdown")
# Of QEMU's events, those that tell of power; the others are noise here.
POWER_EVENTS = ("SUSPEND", "WAKEUP", "SUSPEND_DISK", "SHUTDOWN", "RESET", "POWERDOWN", "STOP", "RESUME")
SO_ATTACH_FILTER = 26
PACKET_MR_PROMISC = 1
# Frames recorded in one sleep; more say nothing new.
FRAMES_PER_SLEEP = 1000

# Ethertype 0x0842, or UDP over IPv4 or IPv6: an awake guest's other traffic is to cost us nothing.
# Each: code, instructions to skip if true, if false, operand.
WAKE_FILTER = [
    (0x28, 0, 0, 12),       # 0 load the ethertype
    (0x15, 6, 0, 0x0842),   # 1 Wake-on-LAN: 8
    (0x15, 0, 2, 0x0800),   # 2 IPv4: 3, else 5
    (0x30, 0, 0, 23),       # 3 load its protocol
    (0x15, 3, 4, 17),       # 4 UDP: 8, else 9
    (0x15, 0, 3, 0x86DD),   # 5 IPv6: 6, else 9
    (0x30, 0, 0, 20),       # 6 load its next header
    (0x15, 0, 1, 17),       # 7 UDP: 8, else 9
    (0x06, 0, 0, 0x40000),  # 8 take the frame
    (0x06, 0, 0, 0),        # 9 leave it
]
TYPES = {0x0800: "ipv4", 0x0806: "arp", 0x86DD: "ipv6", 0x0842: "ether"}


def mac_text(raw):
    return raw.hex(":")


def wire(namespace, interface):
    """A socket that sees all frames on an interface of another network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path):
        with open(path) as file:
            if libc.setns(file.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {path}")

    # A socket stays in the namespace it was made in; we do not.
    with open("/proc/self/ns/net") as home:
        enter(f"/run/netns/{namespace}")
        try:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
            sock.bind((interface, 0x0003))
        finally:
            if libc.setns(home.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "cannot return from the namespace")
    request = fcntl.ioctl(sock, 0x8933, struct.pack("16si12x", interface.encode(), 0))  # SIOCGIFINDEX
    index = struct.unpack("16si12x", request)[1]
    # SOL_PACKET, PACKET_ADD_MEMBERSHIP: the bridge then hands up what is not for itself too.
    sock.setsockopt(263, 1, struct.pack("iHH8s", index, PACKET_MR_PROMISC, 0, b""))
    sock.setblocking(False)
    return sock


class Nic:
    """The record, and what is done on each frame and each event of QEMU."""

    def __init__(self, options):
        self.options = options
        self.mac = bytes.fromhex(options.mac.replace(":", ""))
        self.address = socket.inet_aton(options.address)
        self.password = bytes.fromhex(options.secureon.replace(":", "")) if options.secureon else b""
        self.chance = random.Random(options.seed)
        self.path = os.path.join(options.dir, "events.jsonl")
        self.record = open(self.path, "a", buffering=1)
        self.readers = []
        self.frames = 0
        self.qmp = Qmp(os.path.join(options.dir, "nic.qmp"))
        self.frames_socket = wire(options.namespace, options.bridge)
        self.listen_asleep(False)

    def note(self, event, wall=None, **more):
        now = time.time()
        wall = now if wall is None else wall
        line = {"event": event, "wall": round(wall, 6),
                "monotonic": round(time.monotonic() - (now - wall), 6), **more}
        text = json.dumps(line) + "\n"
        self.record.write(text)
        for reader in self.readers[:]:
            try:
                reader.sendall(text.encode())
            except OSError:  # gone, or too slow to follow
                self.readers.remove(reader)
                reader.close()

    def accept(self, server):
        reader, _ = server.accept()
        reader.settimeout(1)
        with open(self.path, "rb") as file:
            try:
                reader.sendall(file.read())
                self.readers.append(reader)
            except OSError:
                reader.close()

    def listen_asleep(self, asleep):
        """Takes all frames while the guest sleeps, and shuts its port of the bridge."""
        if asleep:
            self.frames = 0
            # 27: SO_DETACH_FILTER; it fails without a filter.
            try:
                self.frames_socket.setsockopt(socket.SOL_SOCKET, 27, 0)
            except OSError:
                pass
        else:
            code = b"".join(struct.pack("HBBI", *step) for step in WAKE_FILTER)
            buffer = ctypes.create_string_buffer(code)
            program = struct.pack("HxxxxxxQ", len(WAKE_FILTER), ctypes.addressof(buffer))
            self.frames_socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        tap, space = self.options.tap, self.options.namespace
        subprocess.run(["bridge", "-n", space, "link", "set", "dev", tap, "state",
                        "0" if asleep else "3"], check=False)
        if asleep:
            # Making the queue shorter empties it of what came while the driver was stopped already.
            for length in ("1", "1000"):
                subprocess.run(["ip", "-n", space, "link", "set", tap, "txqueuelen", length], check=False)

    def machine(self):
        """One message of QEMU's."""
        self.qmp.events.append(self.qmp.read())
        while b"\n" in self.qmp.pending:
            self.qmp.events.append(self.qmp.read())
        self.take_events()

    def take_events(self):
        events, self.qmp.events = self.qmp.events, []
        for event in events:
            if event.get("event") not in POWER_EVENTS:
                continue
            stamp = event["timestamp"]
            self.note(event["event"], stamp["seconds"] + stamp["microseconds"] / 1e6,
                      data=event.get("data", {}))
            if event["event"] in ("SUSPEND", "SUSPEND_DISK", "SHUTDOWN"):
                self.listen_asleep(True)
            elif event["event"] in ("WAKEUP", "RESUME", "RESET"):
                self.listen_asleep(False)

    def frame(self):
        try:
            raw = self.frames_socket.recv(65536)
        except BlockingIOError:
            return
        if len(raw) < 14:
            return
        target, source = raw[:6], raw[6:12]
        kind = struct.unpack("!H", raw[12:14])[0]
        what = {"from": mac_text(source), "to": mac_text(target)}
        start = raw.find(b"\xff" * 6 + self.mac * 16, 14)
        if start >= 0 and (target == self.mac or target[0] & 1):
            self.magic(raw, start, kind, what)
        elif source != self.mac and self.qmp.status() in ASLEEP:
            self.frames += 1
            if self.frames <= FRAMES_PER_SLEEP:
                asks = kind == 0x0806 and raw[38:42] == self.address and raw[20:22] == b"\0\1"
                self.note("frame", **what, type=TYPES.get(kind, f"{kind:#06x}"),
                          for_guest=target == self.mac or asks, bytes=len(raw))
        self.take_events()

    def magic(self, raw, start, kind, what):
        via = TYPES.get(kind, f"{kind:#06x}")
        if kind == 0x0800 and raw[23] == 17:
            at = 14 + (raw[14] & 15) * 4
            via = f"udp4:{struct.unpack('!H', raw[at + 2:at + 4])[0]}"
        elif kind == 0x86DD and raw[20] == 17:
            via = f"udp6:{struct.unpack('!H', raw[56:58])[0]}"
        after = raw[start + 102:start + 108]
        password = "none" if not self.password else "ok" if after == self.password else "wrong"
        dropped = self.chance.random() < self.options.drop
        status = self.qmp.status()
        plugged = self.plugged()
        wakes = status in ASLEEP and plugged and not dropped and password != "wrong"
        # Noted before the deed, so that the record reads in order.
        self.note("magic", **what, via=via, password=password, dropped=dropped,
                  plugged=plugged, guest=status, woke=wakes)
        if wakes:
            self.wake(status)

    def plugged(self):
        """Whether the cable is in; we listen on the bridge, beyond it."""
        show = subprocess.run(["ip", "-n", self.options.namespace, "link", "show", self.options.tap, "up"],
                              capture_output=True, check=False)
        return bool(show.stdout)

    def wake(self, status):
        if status == "suspended":
            self.qmp.command("system_wakeup")
            return
        self.qmp.command("system_reset")
        for _ in range(100):
            try:
                self.qmp.command("cont")
                return
            except ConnectionError:  # the reset is not through yet
                time.sleep(0.02)
        self.note("error", text="QEMU did not start again")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name in ("--dir", "--namespace", "--bridge", "--tap", "--mac", "--address"):
        parser.add_argument(name, required=True)
    parser.add_argument("--secureon", default="")
    parser.add_argument("--drop", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--owner", type=int)
    options = parser.parse_args()
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.join(options.dir, "events.sock"))
    server.listen(16)
    nic = Nic(options)
    waits = selectors.DefaultSelector()
    waits.register(nic.frames_socket, selectors.EVENT_READ, nic.frame)
    waits.register(nic.qmp.socket, selectors.EVENT_READ, nic.machine)
    waits.register(server, selectors.EVENT_READ, lambda: nic.accept(server))
    if options.owner:
        down = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest"), "down",
                "--dir", options.dir]

        def orphaned():
            waits.unregister(owner)
            subprocess.Popen(down, start_new_session=True)

        try:
            owner = os.pidfd_open(options.owner)
            waits.register(owner, selectors.EVENT_READ, orphaned)
        except ProcessLookupError:
            subprocess.Popen(down, start_new_session=True)
    print("ready", flush=True)
    try:
        while True:
            for key, _ in waits.select():
                key.data()
    except ConnectionError as end:  # QEMU was ended
        nic.note("end", text=str(end))


if __name__ == "__main__":
    sys.exit(main())
