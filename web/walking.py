"""What walks through pages have in common."""

import pathlib
import shutil

CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])))


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
