# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the notebooks and writes them as pages of the book, or checks that the pages are what they give.

    python render.py [--check]
"""

import difflib
import pathlib
import sys

import nbformat
from nbclient import NotebookClient

HERE = pathlib.Path(__file__).resolve().parent
PAGES = HERE.parent.parent / "docs" / "notebooks"


def shown(output):
    """An output as text. Bars and warnings of libraries go to standard error."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    return output.data["text/plain"] + "\n"


def page(path):
    """A notebook with its outputs as Markdown."""
    notebook = nbformat.read(path, as_version=4)
    # Where the notebook is must not matter.
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": "/tmp"}}).execute()
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        text = "".join(shown(output) for output in cell.outputs)
        if text and "volatile" not in cell.metadata.get("tags", ()):
            parts.append(f"```text\n{text.rstrip()}\n```")
    source = f"https://github.com/nightwatt/nightwatt/blob/main/python/notebooks/{path.name}"
    parts.append(f"*This page is the notebook [{path.name}]({source}), run by `make python`.*")
    return "\n\n".join(parts) + "\n"


def main():
    check = "--check" in sys.argv
    differs = False
    for path in sorted(HERE.glob("*.ipynb")):
        target = PAGES / f"{path.stem}.md"
        text = page(path)
        if not check:
            target.write_text(text, encoding="utf-8")
            continue
        before = target.read_text(encoding="utf-8") if target.exists() else ""
        lines = list(
            difflib.unified_diff(before.splitlines(), text.splitlines(), str(target), str(path), lineterm="")
        )
        differs |= bool(lines)
        print(*lines, sep="\n", end="\n" if lines else "")
    if differs:
        sys.exit("error: the pages are not what the notebooks give\nhint: `make notebooks` writes them")


if __name__ == "__main__":
    main()
