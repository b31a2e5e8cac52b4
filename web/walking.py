"""What walks through pages have in common."""

import pathlib
import shutil

CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])))


LOOKS = {
    "light": dict(viewport={"width": 1280, "height": 900}, color_scheme="light"),
    "dark": dict(viewport={"width": 1280, "height": 900}, color_scheme="dark"),
    "phone": dict(viewport={"width": 360, "height": 740}, color_scheme="light", has_touch=True),
    "phone-dark": dict(viewport={"width": 360, "height": 740}, color_scheme="dark", has_touch=True),
}


def launched(playwright):
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


def nobody_is_kept_out(page, axe, where):
    """axe-core, a file, finds nothing, and nothing sticks out."""
    page.evaluate(pathlib.Path(axe).read_text())
    found = page.evaluate("axe.run()")["violations"]
    told = [f"{it['impact']}: {it['id']}: {[node['target'] for node in it['nodes']][:3]}" for it in found]
    assert not found, f"{where}: axe finds {told}"
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1], f"{where}: {widths[0]} px of content in {widths[1]} px"


def opened(browser, look, url):
    """A dashboard that has drawn itself, and what its console complains about from now on."""
    context = browser.new_context(**LOOKS[look])
    page = context.new_page()
    complaints, elsewhere = [], []
    # An answer of 401, 409 or 429 is told there too, and is what some walks are for.
    tells = lambda it: it.type in ("error", "warning") and "the server responded with a status of 4" not in it.text
    page.on("console", lambda it: complaints.append(it.text) if tells(it) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda it: elsewhere.append(it.url) if not it.url.startswith((url, "data:")) else None)
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.complaints, page.elsewhere = complaints, elsewhere
    return page


def is_sound(page, axe, where):
    """The page is accessible, nothing sticks out, it asks no other hosts, and it reports no errors."""
    nobody_is_kept_out(page, axe, where)
    assert not page.complaints, f"{where}: {page.complaints}"
    assert not page.elsewhere, f"{where}: asked {page.elsewhere}"
