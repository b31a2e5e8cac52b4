"""What is behind the front door (front_door.toml): front_door_origin.py prints its addresses, as JSON.

By HTTP it is a server with a page that shrinks, a program that plays a film, and a daemon with two containers,
of which one has a wrong label. By UDP it sends back what it gets.
"""

import http.server
import json
import socket
import threading

LABELS = {
    "wiki": {"nightwatt.enable": "true", "nightwatt.hosts": "wiki.test", "nightwatt.port": "1",
             "nightwatt.address": "127.0.0.1"},
    "bread": {"nightwatt.enable": "true", "nightwatt.hosts": "bread.test", "nightwatt.port": "zero"},
}


def described(name):
    return {"Name": f"/{name}", "Created": "2026-11-23T20:15:00Z", "State": {"Status": "exited"},
            "Config": {"Labels": LABELS[name]}, "HostConfig": {"PortBindings": None}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/events":
            self.stays_silent()
        elif path == "/containers/json":
            self.gives([{"Id": name, "Names": [f"/{name}"], "Labels": labels} for name, labels in LABELS.items()])
        elif path.startswith("/containers/"):
            self.gives(described(path.split("/")[2]))
        elif path == "/api/players":
            self.gives({"players": [{"state": "paused"}, {"state": "playing"}]})
        else:
            lines = [f"<p>Line {number}, of which all are alike but for {number ** 2}.</p>" for number in range(400)]
            page = f"<!doctype html><html lang=en><title>A page</title>{''.join(lines)}"
            self.sends(page.encode(), "text/html; charset=utf-8")

    def stays_silent(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        threading.Event().wait()

    def gives(self, value):
        self.sends(json.dumps(value).encode(), "application/json")

    def sends(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def sends_back(datagrams):
    while True:
        data, client = datagrams.recvfrom(2048)
        datagrams.sendto(data, client)


datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
threading.Thread(target=sends_back, args=(datagrams,), daemon=True).start()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
written = [f"{host}:{port}" for host, port in (server.server_address, datagrams.getsockname())]
print(json.dumps(dict(zip(["http", "udp"], written))), flush=True)
server.serve_forever()
