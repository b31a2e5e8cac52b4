"""Walks through the dashboard in Chromium, as a person would, and takes its pictures.

walk.py URL PASSWORD AXE_JS [PICTURES]: the server at URL is that of `nightwatt demo --dashboard`, after its
day. Anything that is not as it should be is an AssertionError; says `walked` at the end.
"""

import pathlib
import sys

from playwright.sync_api import expect, sync_playwright

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from walking import launched, nobody_is_kept_out

URL, PASSWORD, AXE = sys.argv[1:4]
PICTURES = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None

LOOKS = {
    "light": dict(viewport={"width": 1280, "height": 900}, color_scheme="light"),
    "dark": dict(viewport={"width": 1280, "height": 900}, color_scheme="dark"),
    "phone": dict(viewport={"width": 360, "height": 740}, color_scheme="light", has_touch=True),
    "phone-dark": dict(viewport={"width": 360, "height": 740}, color_scheme="dark", has_touch=True),
}


def opened(browser, look):
    """A page that has drawn itself, and what its console complains about from now on."""
    context = browser.new_context(**LOOKS[look])
    page = context.new_page()
    complaints, elsewhere = [], []
    # An answer of 401 or 429 is told there too, and is what some of these walks are for.
    tells = lambda it: it.type in ("error", "warning") and "the server responded with a status of 4" not in it.text
    page.on("console", lambda it: complaints.append(it.text) if tells(it) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda it: elsewhere.append(it.url) if not it.url.startswith((URL, "data:")) else None)
    page.goto(URL)
    page.wait_for_selector("body[data-ready]")
    page.complaints, page.elsewhere = complaints, elsewhere
    return page


def is_sound(page, where):
    """Nobody is kept out, nothing sticks out, nothing is asked of others, nothing is complained about."""
    nobody_is_kept_out(page, AXE, where)
    assert not page.complaints, f"{where}: {page.complaints}"
    assert not page.elsewhere, f"{where}: asked {page.elsewhere}"


def sees_a_sleep(page):
    expect(page.locator(".card .state")).to_contain_text("asleep", timeout=120_000)
    expect(page.locator("#summary")).to_contain_text("asleep")
    expect(page.locator(".piece.asleep").first).to_be_attached()
    assert page.locator(".card button").count() == 0, "nobody has signed in"


def sees_the_frontier(page):
    """Time-outs in the table: the longer, the fewer wait. The policy stands in its first row."""
    expect(page.locator("#frontier-note")).to_contain_text("The policy saves")
    cells = page.locator("#frontier-table tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")
    assert cells[0][0] == "by the policy" and len(cells) == 17, cells
    delayed = [int(row[2].replace(",", "")) for row in cells[1:]]
    assert delayed == sorted(delayed, reverse=True) and delayed[0] > 0, delayed
    drawn = "() => Chart.getChart('frontier-chart').data.datasets.map(it => it.data.length)"
    assert page.evaluate(drawn) == [1, 16]


def is_refused_with_a_wrong_password(page):
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("Password").fill("wrong password!")
    page.keyboard.press("Enter")
    expect(page.locator("#sign-in-trouble")).to_have_text("The password is wrong.")
    assert page.locator(".card button").count() == 0
    is_sound(page, "the refusal")


def signs_in(page):
    # One wrong password makes nobody wait.
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def wakes_it_by_button(page):
    page.get_by_role("button", name="Wake demo", exact=True).click()
    expect(page.locator("#done")).to_have_text("demo is being woken.")
    expect(page.locator(".card .state")).to_contain_text("awake", timeout=60_000)
    expect(page.locator("#wakes-table tbody tr").first).to_contain_text("the operator", timeout=60_000)


def keeps_it_awake(page):
    page.get_by_label("How long to keep awake: demo").select_option("4h")
    page.get_by_role("button", name="Keep awake demo").press("Enter")
    expect(page.locator(".card dl")).to_contain_text("stay-awake time", timeout=60_000)


def puts_it_to_sleep_by_button(page):
    page.get_by_role("button", name="Sleep demo", exact=True).click()
    expect(page.locator(".card .state")).to_contain_text("asleep", timeout=120_000)


def signs_out(page):
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator(".card button")).to_have_count(0)


def asks_nothing_while_hidden(page):
    asked = []
    page.on("request", lambda it: asked.append(it.url))
    hide = """hidden => { Object.defineProperty(document, 'visibilityState',
        { configurable: true, value: hidden ? 'hidden' : 'visible' });
        document.dispatchEvent(new Event('visibilitychange')); }"""
    page.evaluate(hide, True)
    page.wait_for_timeout(500)
    asked.clear()
    page.wait_for_timeout(7000)
    assert not asked, f"asked while nobody looked: {asked}"
    with page.expect_request("**/api/v1/status"):
        page.evaluate(hide, False)


with sync_playwright() as playwright:
    browser = launched(playwright)
    page = opened(browser, "light")
    walks = [
        sees_a_sleep, sees_the_frontier, is_refused_with_a_wrong_password, signs_in, wakes_it_by_button, keeps_it_awake,
        puts_it_to_sleep_by_button,
    ]
    for walk in walks:
        walk(page)
        print("ok", walk.__name__, flush=True)
    for look in LOOKS:
        shown = opened(browser, look)
        is_sound(shown, look)
        for details in shown.locator("summary").all():
            details.click()
        is_sound(shown, f"{look}, tables open")
        for details in shown.locator("summary").all():
            details.click()
        if PICTURES and look != "phone-dark":
            shown.evaluate("scrollTo(0, 0)")
            expect(shown.locator(".card .state")).to_contain_text("☾", timeout=60_000)
            shown.screenshot(path=PICTURES / f"dashboard-{look}.png", full_page=look == "light")
        print("ok", look, flush=True)
    is_sound(page, "signed in")
    if PICTURES:
        page.locator(".card").first.screenshot(path=PICTURES / "dashboard-buttons.png")
    signs_out(page)
    asks_nothing_while_hidden(page)
    is_sound(page, "the end")
    browser.close()
print("walked")
