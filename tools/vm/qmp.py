"""QEMU's machine protocol: one JSON object a line."""

import json
import socket


class Qmp:
    """A connection to one QMP socket. QEMU serves one client per socket, so each user has its own."""

    def __init__(self, path, timeout=10):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.pending = b""
        self.events = []
        self.read()  # the greeting
        self.command("qmp_capabilities")

    def read(self):
        """The next message, waited for."""
        while b"\n" not in self.pending:
            got = self.socket.recv(65536)
            if not got:
                raise ConnectionError("QEMU is gone")
            self.pending += got
        line, _, self.pending = self.pending.partition(b"\n")
        return json.loads(line)

    def command(self, name, **arguments):
        """The answer to a command; events that come meanwhile wait in `events`."""
        message = {"execute": name}
        if arguments:
            message["arguments"] = arguments
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        while True:
            answer = self.read()
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise ConnectionError(f"QMP {name}: {answer['error']['desc']}")
            else:
                return answer["return"]

    def status(self):
        """`running`, `suspended`, `shutdown` (powered off or hibernated), ..."""
        return self.command("query-status")["status"]
