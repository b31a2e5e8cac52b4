"""The server that sleeps: origin.py PORT SECONDS FILE says what it was asked, and takes a while to come up.

Each request but those of probes is a line in FILE, so that a test knows how often each came.
"""

import html
import http.server
import sys
import time

PORT, SECONDS, FILE = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]

FORM = """<!doctype html><html lang="en"><title>A form</title><h1>A form</h1><form method="post" action="/order?n=1">
<label>What <input name="what"></label> <button>Send</button></form>"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.tell(b"")

    def do_POST(self):
        self.tell(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def tell(self, body):
        line = f"{self.command} {self.path} {body.decode()}"
        if "nightwatt" not in self.headers.get("User-Agent", ""):
            with open(FILE, "a") as file:
                file.write(line + "\n")
        page = FORM if self.path == "/form" else f"<!doctype html><html lang=en><h1>{html.escape(line)}</h1>"
        page = page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


time.sleep(SECONDS)
http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
