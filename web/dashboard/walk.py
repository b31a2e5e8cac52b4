"""Walks through the dashboard in Chromium, as a person would, and takes its pictures.

walk.py URL PASSWORD AXE_JS [PICTURES]: the server at URL is that of `nightwatt demo --dashboard`, after its
day. Anything that is not as it should be is an AssertionError; says `walked` at the end.
"""

import pathlib
import re
import sys

from playwright.sync_api import expect, sync_playwright

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from walking import LOOKS, is_sound, launched, opened

URL, PASSWORD, AXE = sys.argv[1:4]
PICTURES = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None


def sees_a_sleep(page):
    expect(page.locator(".card .state")).to_contain_text("asleep", timeout=120_000)
    expect(page.locator("#summary")).to_contain_text("asleep")
    expect(page.locator(".piece.asleep").first).to_be_attached()
    assert page.locator(".card button").count() == 0, "no user has signed in"


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


def sees_the_mirror(page):
    """All pages of the demo's site are mirrored; the coverage has a figure."""
    expect(page.locator("#mirror-note")).to_contain_text("http://site.example")
    cells = dict(page.locator("#mirror-table tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"))
    assert int(cells["pages"].split(", ")[0].replace(",", "")) > 300, cells
    assert cells["coverage"].endswith("in the last week") and cells["costs"], cells


def says_what_is_assumed(page):
    """Beside each green number, as no meter measures the demo's server."""
    expect(page.locator("#savings .tile")).to_have_count(3)
    for tile in page.locator("#savings .tile").all():
        expect(tile).to_contain_text(re.compile(r"assumes [\d.]+ W awake \(not measured\)"))


def shows_the_states_of_days(page):
    """Hours asleep and awake of each day, which are no more than 24 together."""
    page.get_by_role("button", name="30 days").click()
    expect(page.locator("#of-day")).to_be_hidden()
    expect(page.locator("#states-note")).to_contain_text("slept")
    sums = page.evaluate("""() => { const { data } = Chart.getChart('states-chart');
        return data.labels.map((_, day) => data.datasets.reduce((sum, it) => sum + it.data[day], 0)); }""")
    assert sums and all(0 < it <= 24.1 for it in sums), sums
    is_sound(page, AXE, "30 days")
    page.get_by_role("button", name="24 hours").click()
    expect(page.locator("#of-month")).to_be_hidden()


def tells_the_mirror_from_visitors(page):
    """What the mirror wakes for is named; quantiles of durations are in the note."""
    expect(page.locator("#wakes-note")).to_contain_text(re.compile(r"p50 .* p95 "))
    causes = page.locator("#wakes-table tbody tr td:nth-child(2)").all_text_contents()
    known = {"a person", "a program", "a crawler", "a monitor", "the mirror, for pages that were due (no visitor)"}
    assert causes and known & set(causes), causes


def is_refused_with_a_wrong_password(page):
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("Password").fill("wrong password!")
    page.keyboard.press("Enter")
    expect(page.locator("#sign-in-trouble")).to_have_text("The password is wrong.")
    assert page.locator(".card button").count() == 0
    is_sound(page, AXE, "the refusal")


def signs_in(page):
    # After one wrong password there is no waiting time.
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
    expect(page.locator(".card dl")).to_contain_text("`stay-awake`, for another", timeout=60_000)


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
    assert not asked, f"asked while the page was hidden: {asked}"
    with page.expect_request("**/api/v1/status"):
        page.evaluate(hide, False)


with sync_playwright() as playwright:
    browser = launched(playwright)
    page = opened(browser, "light", URL)
    walks = [
        sees_a_sleep, says_what_is_assumed, shows_the_states_of_days, sees_the_frontier, sees_the_mirror,
        tells_the_mirror_from_visitors, is_refused_with_a_wrong_password, signs_in, wakes_it_by_button,
        keeps_it_awake, puts_it_to_sleep_by_button,
    ]
    for walk in walks:
        walk(page)
        print("ok", walk.__name__, flush=True)
    for look in LOOKS:
        shown = opened(browser, look, URL)
        is_sound(shown, AXE, look)
        # Those of the other range of time are hidden.
        tables = [it for it in shown.locator("summary").all() if it.is_visible()]
        for details in tables:
            details.click()
        is_sound(shown, AXE, f"{look}, tables open")
        for details in tables:
            details.click()
        if PICTURES and look != "phone-dark":
            shown.evaluate("scrollTo(0, 0)")
            expect(shown.locator(".card .state")).to_contain_text("☾", timeout=60_000)
            shown.screenshot(path=PICTURES / f"dashboard-{look}.png", full_page=look == "light")
            if look == "light":
                first = {"x": 0, "y": 0, "width": 1280, "height": 1150}
                shown.screenshot(path=PICTURES / "dashboard.png", full_page=True, clip=first)
        print("ok", look, flush=True)
    is_sound(page, AXE, "signed in")
    if PICTURES:
        page.locator(".card").first.screenshot(path=PICTURES / "dashboard-buttons.png")
    signs_out(page)
    asks_nothing_while_hidden(page)
    is_sound(page, AXE, "the end")
    browser.close()
print("walked")
