# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the reference of the Python package from its stubs and docstrings, or checks that the page is up to date.

    python reference.py [--check]

Signatures come from the stubs (`*.pyi`), texts from the package that is installed, so each name must be in both.
"""

import ast
import difflib
import importlib
import inspect
import pathlib
import re
import sys

STUBS = pathlib.Path(__file__).resolve().parent.parent / "nightwatt"
PAGE = STUBS.parent.parent / "docs" / "python-reference.md"
MODULES = ("nightwatt", "nightwatt.policy", "nightwatt.dask", "nightwatt.stats", "nightwatt.jupyter")
# Classes whose objects functions make.
MADE = ("SleepPolicy",)
ALIAS = re.compile(r"\b_[A-Z]\w*")
HEAD = """# Python reference

Every public name of the package, with its signature. [Python](python.md) is the introduction.

*`tools/python reference` generates this page from the package's stubs and docstrings.*
"""


def stub(module):
    """Text and syntax tree of a module's stub."""
    name = "__init__" if module == "nightwatt" else module.removeprefix("nightwatt.")
    text = (STUBS / f"{name}.pyi").read_text()
    return text, ast.parse(text)


def signature(text, node, name=None):
    """A function as the stub has it, without `def`, `self` and body; as `name`, if it is to be called that."""
    lines = ast.get_source_segment(text, node).splitlines()
    indent = " " * node.col_offset
    source = "\n".join(line.removeprefix(indent) for line in lines).removeprefix("def ").removesuffix(": ...")
    return re.sub(r"\((\s*)(?:self|cls)(?:, )?", r"(\1", source.replace(node.name, name or node.name, 1))


def prose(thing):
    """A docstring as Markdown."""
    text = thing.__doc__ if inspect.ismodule(thing) else inspect.getdoc(thing)
    return (text or "").replace("``", "`").replace("::\n", ":\n").strip()


def members(text, node, owner):
    """The public members of a class, one line each."""
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            yield f"- `{member.target.id}: {ast.unparse(member.annotation)}`"
        elif isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            is_property = any(ast.unparse(it) == "property" for it in member.decorator_list)
            shown = f"{member.name}: {ast.unparse(member.returns)}" if is_property else signature(text, member)
            shown = re.sub(r"(?<=\() | (?=\))", "", " ".join(shown.split()))
            yield f"- `{shown}`: {' '.join(prose(getattr(owner, member.name)).split())}"


def entry(text, node, owner):
    """One class or function of a module."""
    thing = getattr(owner, node.name)
    parts = [f"### `{node.name}`"]
    if isinstance(node, ast.FunctionDef):
        parts.append(f"```python\n{signature(text, node)}\n```")
    else:
        made = [it for it in node.body if getattr(it, "name", "") in ("__init__", "__new__")]
        made = [] if node.name in MADE else made
        shown = [signature(text, it, node.name).rsplit(" -> ", 1)[0] for it in made]
        parts += [f"```python\n{it}\n```" for it in shown]
    parts.append(prose(thing))
    if isinstance(node, ast.ClassDef):
        parts.append("\n".join(members(text, node, thing)))
    return "\n\n".join(part for part in parts if part)


def section(module):
    """The public names of a module, in the order of its stub."""
    owner = importlib.import_module(module)
    text, tree = stub(module)
    native, natives = stub("nightwatt._native")
    parts = [f"## `{module}`"]
    if module != "nightwatt":
        parts.append(prose(owner))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "_native":
            # `X as X` is how a stub exports what it imports.
            exported = {alias.asname for alias in node.names}
            parts += [entry(native, it, owner) for it in natives.body if getattr(it, "name", "") in exported]
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            parts.append(entry(text, node, owner))
    assigned = [it for it in (*natives.body, *tree.body) if isinstance(it, ast.Assign)]
    aliases = {it.targets[0].id: ast.unparse(it) for it in assigned}
    shapes = [it for it in natives.body if isinstance(it, ast.ClassDef) and it.name.startswith("_")]
    aliases |= {it.name: ast.get_source_segment(native, it) for it in shapes}
    used = set(ALIAS.findall("\n".join(parts)))
    used |= {name for it in used & aliases.keys() for name in ALIAS.findall(aliases[it])}
    shown = [alias for name, alias in aliases.items() if name in used]
    if shown:
        parts.append("Types in these signatures:\n\n```python\n" + "\n".join(shown) + "\n```")
    return "\n\n".join(part for part in parts if part)


def main():
    page = HEAD + "\n" + "\n\n".join(map(section, MODULES)) + "\n"
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(page)
        return
    written = PAGE.read_text()
    if page != written:
        lines = written.splitlines(True), page.splitlines(True)
        sys.stdout.writelines(difflib.unified_diff(*lines, str(PAGE), "the package"))
        sys.exit("error: the reference is not what the package has\nhint: `tools/python reference` writes it")


if __name__ == "__main__":
    main()
