"""Walks through the dashboard of a house with more than one server (house.toml): a machine with a site on
it, a pool, and what is passed through; then that of the same house in shadow mode.

walk_house.py URL SHADOW_URL PASSWORD AXE_JS. Anything that is not as it should be is an AssertionError; says
`walked` at the end.
"""

import pathlib
import re
import sys

from playwright.sync_api import expect, sync_playwright

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from walking import LOOKS, is_sound, launched, opened

URL, SHADOW_URL, PASSWORD, AXE = sys.argv[1:5]


def card(page, name):
    return page.locator(".card").filter(has=page.get_by_role("heading", name=re.compile(rf"^{name}\b")))


def everything_has_a_card(page):
    for name in ["blog", "shop-1", "shop-2", "metal"]:
        expect(card(page, name)).to_have_count(1)
    expect(page.locator(".card")).to_have_count(4)
    expect(card(page, "shop-1").locator(".state")).to_contain_text("awake", timeout=60_000)
    expect(card(page, "metal").locator(".state")).to_contain_text("asleep")
    expect(page.locator("#filter-note")).to_contain_text("are always of all")
    page.locator("#site").select_option("shop")
    expect(page.locator("body")).to_contain_text("Pool of 2: policy always-on 1")
    expect(page.locator("#services-table tbody tr")).to_contain_text("ssh")


def claims_no_saving_before_a_sleep(page):
    """Nothing has slept and woken yet: no joules, no money."""
    expect(page.locator("#savings .tile")).to_have_count(3)
    for tile in page.locator("#savings .tile").all():
        expect(tile.locator(".big")).to_have_text("–")
        expect(tile).not_to_contain_text("of always on")


def signs_in(page):
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def wakes_a_site_with_its_machine(page):
    page.get_by_role("button", name="Wake blog", exact=True).click()
    for name in ["metal", "blog"]:
        expect(card(page, name).locator(".state")).to_contain_text("awake", timeout=60_000)


def switches_a_server_of_the_pool_on(page):
    expect(card(page, "shop-2").locator(".state")).to_contain_text("asleep")
    page.get_by_role("button", name="Wake shop-2", exact=True).click()
    expect(card(page, "shop-2").locator(".state")).to_contain_text("awake", timeout=60_000)


def puts_a_machine_to_sleep_with_the_last_on_it(page):
    page.get_by_role("button", name="Sleep blog", exact=True).click()
    for name in ["blog", "metal"]:
        expect(card(page, name).locator(".state")).to_contain_text("asleep", timeout=60_000)


with sync_playwright() as playwright:
    browser = launched(playwright)
    # All of it on a phone, where there is least room.
    page = opened(browser, "phone", URL)
    walks = [
        everything_has_a_card, claims_no_saving_before_a_sleep, signs_in, wakes_a_site_with_its_machine,
        switches_a_server_of_the_pool_on, puts_a_machine_to_sleep_with_the_last_on_it,
    ]
    for walk in walks:
        walk(page)
        print("ok", walk.__name__, flush=True)
    is_sound(page, AXE, "signed in on a phone")
    for look in LOOKS:
        shown = opened(browser, look, URL)
        expect(shown.locator(".card")).to_have_count(4)
        for details in shown.locator("summary:visible").all():
            details.click()
        is_sound(shown, AXE, f"{look}, tables open")
        print("ok", look, flush=True)
    shadow = opened(browser, "phone", SHADOW_URL)
    expect(shadow.locator("#summary")).to_contain_text("shadow mode")
    is_sound(shadow, AXE, "shadow mode")
    print("ok shadow mode", flush=True)
    browser.close()
print("walked")
