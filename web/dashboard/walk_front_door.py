"""Walks through the dashboard of a proxy with much at its front door (front_door.toml), as a person would who
looks for each of these: hours, refused requests, compression, a certificate, a probe of use, containers,
datagrams, magic packets.

walk_front_door.py SAID AXE_JS: SAID is what `nightwatt serve --json` printed, a file. Anything that is not as it
should be is an AssertionError; prints `walked` at the end.
"""

import http.client
import json
import pathlib
import re
import socket
import ssl
import sys

from playwright.sync_api import expect, sync_playwright

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from walking import LOOKS, is_sound, launched, opened

SAID = json.loads(pathlib.Path(sys.argv[1]).read_text().splitlines()[0])
AXE = sys.argv[2]
URL = f"http://{SAID['admin']}/"
DEADLINE = 60_000


def asked(connection, host, **fields):
    """The status of an answer, its coding and its bytes."""
    connection.request("GET", "/", headers={"Host": host, "User-Agent": "curl/8", **fields})
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Encoding"), len(answer.read())
    connection.close()
    return found


def plain(host, **fields):
    return asked(http.client.HTTPConnection(SAID["listening"][0], timeout=60), host, **fields)


def traffic():
    """What clients do before the dashboard is opened: the bytes of a page, and those of its answers by coding."""
    status, given, before = plain("media.test")
    assert (status, given) == (200, None), (status, given)
    after = {"gzip": 0, "br": 0}
    for coding in ["gzip", "gzip", "br"]:
        status, given, size = plain("media.test", **{"Accept-Encoding": coding})
        assert (status, given) == (200, coding) and size * 3 < before, (status, given, size)
        after[coding] += size
    trusting = ssl._create_unverified_context()
    by_tls = http.client.HTTPSConnection(SAID["listening_tls"][0], timeout=60, context=trusting)
    assert asked(by_tls, "media.test")[0] == 200
    for _ in range(3):
        assert plain("private.test")[0] == 403
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(60)
        client.connect(address(SAID["listening_udp"][0]))
        client.send(b"hello")
        assert client.recv(100) == b"hello"
    return before, after


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def card(page, name):
    return page.locator(".card").filter(has=page.get_by_role("heading", name=re.compile(rf"^{name}\b")))


def rows(page, table):
    """The cells of a table below the heading of its panel."""
    return page.locator(f"#{table} tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")


def chooses(page, site):
    page.locator("#site").select_option(site)


def sees_its_hours(page):
    expect(card(page, "office").locator(".state")).to_contain_text("awake", timeout=DEADLINE)
    expect(card(page, "office")).to_contain_text("hours in which it must be awake (`awake`), always", timeout=DEADLINE)
    expect(card(page, "office")).to_contain_text(re.compile(r"time zone.*UTC"))
    expect(card(page, "media")).not_to_contain_text("time zone")


def sees_what_was_not_let_in(page):
    chooses(page, "private")
    row = page.locator("#answers tbody tr").filter(has_text="not let in by `[site.access]`")
    expect(row).to_have_count(1)
    assert rows(page, "answers") == [["not let in by `[site.access]`", "", "3", "100 %"]], rows(page, "answers")
    expect(card(page, "private").locator(".state")).to_contain_text("asleep")
    expect(page.locator("#compression")).to_be_hidden()


def as_shown(count):
    """Bytes as the dashboard writes them."""
    return f"{count / 1024:.1f} KiB" if count >= 1024 else f"{count} B"


def sees_what_was_compressed(page, before, after):
    chooses(page, "media")
    expect(page.get_by_role("heading", name="Compression")).to_be_visible()
    whole, sent = as_shown(3 * before), as_shown(sum(after.values()))
    expect(page.locator("#compression-note")).to_contain_text(
        f"3 answers since the proxy started: {whole} became {sent}, ")
    cells = {name: rest for name, *rest in rows(page, "compression-table")}
    assert set(cells) == {"gzip", "Brotli"}, cells
    for name, coding, answers in [("gzip", "gzip", 2), ("Brotli", "br", 1)]:
        *shown, saved = cells[name]
        assert shown == [str(answers), as_shown(answers * before), as_shown(after[coding])], (cells, after)
        share = 100 * (1 - after[coding] / (answers * before))
        assert abs(int(saved.removesuffix(" %")) - share) <= 0.6, (saved, share)


def sees_the_certificate(page):
    expect(page.get_by_role("heading", name="Certificates")).to_be_visible()
    expect(page.locator("#certificates-note")).to_have_text(
        f"TLS at {SAID['listening_tls'][0]}: 1 handshake since the proxy started; failed: none.")
    [[names, origin, until, renewed, error]] = rows(page, "certificates-table")
    assert (names, origin, error) == ("media.test, *.media.test", "files", "none")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d, in (29 d \d+ h|30 d)", until), until
    assert renewed == "when its files change", renewed


def sees_what_is_in_use(page):
    """The probe is asked once the server has been idle for ten seconds."""
    media = card(page, "media")
    expect(media).to_contain_text(re.compile(r"in use, by players\s*yes: "), timeout=DEADLINE)


def sees_containers(page):
    expect(page.locator("#containers-note")).to_contain_text("answers.")
    found = {name: rest for name, *rest in rows(page, "containers-table")}
    assert set(found) == {"wiki", "bread"} and found["wiki"][:2] == ["site", "wiki.test"], found
    assert found["bread"][0] == "no site: wrong label" and "nightwatt.port" in found["bread"][2], found
    expect(card(page, "wiki")).to_have_count(1)
    expect(card(page, "bread")).to_have_count(0)


def sees_datagrams(page):
    [[name, on, sessions, _, held, received, sent, dropped, _]] = rows(page, "datagrams-table")
    assert [name, on, sessions, held, received, sent, dropped] == ["game", "metal", "1", "0", "1", "1", "none"]


def sees_magic_packets(page):
    """One that this machine sends is counted as such, and wakes nothing."""
    heard = page.request.get(f"{URL}api/v1/status").json()["magic_packets"]["listen"]
    expect(page.locator("#packets-note")).to_have_text(f"Heard at {heard[0]}.")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"\xff" * 6 + bytes.fromhex("aabbccddeeff") * 16, address(heard[0]))
    row = page.locator("#packets-table tbody tr")
    expect(row).to_have_count(1, timeout=DEADLINE)
    assert rows(page, "packets-table") == [["from the proxy itself", "1"]], rows(page, "packets-table")
    expect(card(page, "nas").locator(".state")).not_to_contain_text("waking")


before, after = traffic()
with sync_playwright() as playwright:
    browser = launched(playwright)
    # All of it on a phone, where there is least room.
    page = opened(browser, "phone", URL)
    sees_what_was_compressed(page, before, after)
    print("ok sees_what_was_compressed", flush=True)
    walks = [
        sees_what_was_not_let_in, sees_the_certificate, sees_containers, sees_datagrams, sees_magic_packets,
        sees_its_hours, sees_what_is_in_use,
    ]
    for walk in walks:
        walk(page)
        print("ok", walk.__name__, flush=True)
    for look in LOOKS:
        shown = opened(browser, look, URL)
        chooses(shown, "media")
        for panel in ["compression", "certificates", "containers", "datagrams", "packets"]:
            expect(shown.locator(f"#{panel}")).to_be_visible()
        for details in shown.locator("summary:visible").all():
            details.click()
        is_sound(shown, AXE, f"{look}, tables open")
        print("ok", look, flush=True)
    browser.close()
print("walked")
