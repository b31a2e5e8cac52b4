"""Meets the waiting page in Chromium, as a person would, and takes its pictures.

walk.py NIGHTWATT FOLDER AXE_JS [PICTURES]: the gateway runs by FOLDER/nightwatt.toml. Anything that is not as
it should be is an AssertionError; says `walked` at the end.
"""

import json
import pathlib
import subprocess
import sys

from playwright.sync_api import expect, sync_playwright

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from walking import launched, nobody_is_kept_out

NIGHTWATT, FOLDER, AXE = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
PICTURES = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
PORT = (FOLDER / "port").read_text().strip()
# A name for each site, and both are this machine.
BLOG, SHOP, LOST = (f"http://{name}.localhost:{PORT}" for name in ("blog", "shop", "lost"))

LOOKS = {
    "light": dict(viewport={"width": 1280, "height": 800}, color_scheme="light"),
    "dark": dict(viewport={"width": 1280, "height": 800}, color_scheme="dark"),
    "phone": dict(viewport={"width": 360, "height": 740}, color_scheme="light", has_touch=True),
}


def opened(browser, **options):
    """A page of a person's browser: one without a window says that it is a robot, and is treated as such."""
    about = browser.new_page()
    agent = about.evaluate("navigator.userAgent").replace("Headless", "")
    about.close()
    return browser.new_context(user_agent=agent, **options).new_page()


def nightwatt(*words):
    command = [NIGHTWATT, *words, "-c", "nightwatt.toml"]
    return subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, text=True).stdout


def falls_asleep(page, site):
    """Puts a server to sleep and waits until it does; what it was asked is forgotten."""
    nightwatt("sleep", site)
    for _ in range(300):
        sites = json.loads(nightwatt("status", "--json"))["sites"]
        if next(it for it in sites if it["name"] == site)["state"] == "asleep":
            asked(site)
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{site} does not sleep: {nightwatt('status')}")


def asked(site):
    """What the server of a site was asked since it was last forgotten."""
    file = FOLDER / f"{site}.asked"
    lines = [line.rstrip() for line in file.read_text().splitlines()] if file.exists() else []
    file.unlink(missing_ok=True)
    return [line for line in lines if "favicon" not in line]


def waits_and_comes_to_the_exact_address(browser, look):
    page = opened(browser, **LOOKS[look])
    falls_asleep(page, "blog")
    elsewhere, complaints = [], []
    page.on("request", lambda it: elsewhere.append(it.url) if not it.url.startswith(BLOG) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # Of the first answer: no cache keeps it, and programs learn when to come back.
    there = BLOG + "/a%20b/caf%C3%A9?x=1&y=%2F&z#part"
    answer = page.goto(there)
    headers = answer.headers
    assert answer.status == 503, answer.status
    assert "no-store" in headers["cache-control"] and int(headers["retry-after"]) >= 1, headers
    expect(page.get_by_role("heading")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator("#left")).not_to_be_empty()
    nobody_is_kept_out(page, AXE, look)
    if PICTURES:
        page.screenshot(path=PICTURES / f"waiting-{look}.png")
    expect(page.get_by_role("heading")).to_have_text("GET /a%20b/caf%C3%A9?x=1&y=%2F&z", timeout=60_000)
    assert page.url == there, page.url
    assert asked("blog") == ["GET /a%20b/caf%C3%A9?x=1&y=%2F&z"], "asked once, and exactly that"
    assert not elsewhere and not complaints, (elsewhere, complaints)


def waits_without_javascript(browser):
    page = opened(browser, java_script_enabled=False)
    falls_asleep(page, "blog")
    assert page.goto(BLOG + "/plain?q=1").status == 503
    expect(page.get_by_role("heading")).to_have_text("GET /plain?q=1", timeout=60_000)
    assert asked("blog") == ["GET /plain?q=1"]


def sends_a_form_once(browser):
    page = opened(browser)
    page.goto(BLOG + "/form")
    expect(page.get_by_role("heading")).to_have_text("A form", timeout=60_000)
    falls_asleep(page, "blog")
    page.get_by_label("What").fill("tea")
    page.get_by_role("button", name="Send").click(timeout=60_000)
    expect(page.get_by_role("heading")).to_have_text("POST /order?n=1 what=tea", timeout=60_000)
    assert asked("blog") == ["POST /order?n=1 what=tea"], "held, and sent once"


def speaks_the_words_of_the_operator(browser):
    page = opened(browser)
    falls_asleep(page, "shop")
    page.goto(SHOP + "/")
    expect(page.get_by_role("heading")).to_have_text("Der Laden <öffnet> gleich")
    expect(page.locator("#left")).to_have_text("")  # its own `left` is empty
    assert page.locator("html").get_attribute("lang") == "de"
    assert page.evaluate("getComputedStyle(document.querySelector('progress')).accentColor") == "rgb(0, 128, 128)"
    nobody_is_kept_out(page, AXE, "in German")
    expect(page.get_by_role("heading")).to_have_text("GET /", timeout=60_000)


def asks_as_a_program(page, path):
    """What a script of the page itself gets: status, type and text."""
    script = """async (path) => { const answer = await fetch(path, { headers: { Accept: "application/json" } });
        return [answer.status, answer.headers.get("content-type"), await answer.text()]; }"""
    return page.evaluate(script, path)


def holds_programs(browser):
    page = opened(browser)
    page.goto(SHOP + "/")
    expect(page.get_by_role("heading")).to_have_text("GET /", timeout=60_000)
    falls_asleep(page, "shop")
    assert asks_as_a_program(page, "/api")[0] == 200
    assert asked("shop") == ["GET /api"], "held, and sent once"


def says_that_a_server_does_not_come(browser):
    page = opened(browser)
    page.goto(LOST + "/")
    expect(page.get_by_role("status")).to_contain_text("does not wake up", timeout=60_000)
    expect(page.get_by_role("progressbar")).to_be_hidden()
    nobody_is_kept_out(page, AXE, "failed")
    status, kind, text = asks_as_a_program(page, "/api")
    assert (status, kind) == (503, "application/problem+json"), (status, kind)
    assert json.loads(text)["status"] == 503, text


with sync_playwright() as playwright:
    browser = launched(playwright)
    for look in LOOKS:
        waits_and_comes_to_the_exact_address(browser, look)
        print("ok", look, flush=True)
    for walk in [
        waits_without_javascript, sends_a_form_once, speaks_the_words_of_the_operator,
        holds_programs, says_that_a_server_does_not_come,
    ]:
        walk(browser)
        print("ok", walk.__name__, flush=True)
    browser.close()
print("walked")
