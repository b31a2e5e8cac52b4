"""Looks at the pages of reports in Chromium, at the widths of a desk and of a phone, light and dark.

walk.py FOLDER AXE_JS [PICTURES]: the pages are in FOLDER. Anything that is not as it should be is an
AssertionError; prints `walked` at the end.
"""

import pathlib
import re
import sys

from playwright.sync_api import sync_playwright

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from walking import launched

FOLDER, AXE = pathlib.Path(sys.argv[1]), sys.argv[2]
PICTURES = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None

PAGES = {
    "analyze": "analyze.html", "fleet": "fleet.html", "compare": "compare/report.html", "corun": "corun/report.html",
    "reproduce": "reproduce.html",
}
LOOKS = {f"{width} {scheme}": (width, scheme) for width in (1280, 390) for scheme in ("light", "dark")}

# Markdown that was not rendered.
RAW = re.compile(r"\*\*\w|`\w[^`\n]*`|\]\(\w|^#+ ", re.MULTILINE)

# What is printed in a terminal, as a picture.
TERMINAL = """<!doctype html><meta charset="utf-8"><style>body {{ margin: 0; background: #12161c }} pre {{ margin: 0;
  padding: 18px 22px; color: #e6ebf1; font: 15px/1.35 "DejaVu Sans Mono", monospace }} b {{ color: #2bc79b }}</style>
<pre><b>$ nightwatt analyze access.log.gz</b>
{}</pre>"""


def opened(browser, path, width, scheme):
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    page.complaints = []
    page.on("console", lambda it: page.complaints.append(it.text) if it.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_load_state()
    return page


def is_readable(page, where):
    """axe finds nothing serious, nothing sticks out, no Markdown is left, and the verdict stands before warnings."""
    page.evaluate(pathlib.Path(AXE).read_text())
    found = [it["id"] for it in page.evaluate("axe.run()")["violations"] if it["impact"] in ("serious", "critical")]
    assert not found, f"{where}: axe finds {found}"
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1], f"{where}: {widths[0]} px of content in {widths[1]} px"
    assert not page.complaints, f"{where}: {page.complaints}"
    raw = RAW.findall(page.evaluate("document.body.innerText"))
    assert not raw, f"{where}: {raw}"
    tops = page.evaluate("""() => ['.verdict, .figures, main p:not(.note)', '.note.careful'].map(it =>
        document.querySelector(it)?.getBoundingClientRect().top)""")
    assert tops[0] is not None and (tops[1] is None or tops[0] < tops[1]), f"{where}: {tops}"


def terminal(browser, path):
    lines = path.read_text().split("\n")
    end = next(at for at, line in enumerate(lines) if line.startswith("A mirror"))
    text = "\n".join(lines[:end]).rstrip().replace("&", "&amp;").replace("<", "&lt;")
    page = browser.new_context(viewport={"width": 820, "height": 300}).new_page()
    page.set_content(TERMINAL.format(text))
    page.locator("pre").screenshot(path=PICTURES / "terminal.png")


with sync_playwright() as playwright:
    browser = launched(playwright)
    for name, file in PAGES.items():
        path = FOLDER / file
        if not path.exists():
            continue
        for look, (width, scheme) in LOOKS.items():
            page = opened(browser, path, width, scheme)
            is_readable(page, f"{name}, {look}")
            if PICTURES and name == "analyze" and width == 1280:
                page.screenshot(path=PICTURES / f"report-{scheme}.png")
            if PICTURES and name == "analyze" and look == "390 light":
                page.screenshot(path=PICTURES / "report-phone.png")
            page.close()
        print("ok", name, flush=True)
    if PICTURES and (FOLDER / "analyze.txt").exists():
        terminal(browser, FOLDER / "analyze.txt")
    browser.close()
print("walked")
