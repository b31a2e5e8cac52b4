"""What the scripts of tools/vm share: reasons to skip, commands that must succeed, locks, the cache."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Servers and file system tools are there, and not in everybody's PATH.
os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"


class Skip(Exception):
    """This machine lacks something: no failure of what is under test (exit status 77)."""


class Failure(Exception):
    """Something went wrong; the text says what, and what to try (exit status 1)."""


def run(*command, **options):
    """Runs a command that must succeed, and gives its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Failure(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def test_programs(package, *which):
    """The test programs of a package, by name; cargo builds what is missing.

    Those of all packages, as `make test` has them: with -p alone cargo would build their dependencies again.
    """
    every = ("cargo", "test", "--locked", "--no-run", "--message-format=json", "--workspace")
    built = run(*every, *which, cwd=HERE)
    found = {}
    for line in built.splitlines():
        message = json.loads(line)
        if message.get("executable") and f"{package}@" in message["package_id"].replace("#", "@"):
            found[message["target"]["name"]] = message["executable"]
    return found


@contextlib.contextmanager
def locked(path):
    """Holds a file lock; it ends with the process, however that ends."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def need(*programs):
    """Says what is missing, and what installs it."""
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Skip(f"{', '.join(missing)} not found; `tools/need vm` installs what the guest needs")


def cache():
    """Where products are kept: $NIGHTWATT_VM_CACHE or ~/.cache/nightwatt/vm."""
    path = os.environ.get("NIGHTWATT_VM_CACHE") or os.path.expanduser("~/.cache/nightwatt/vm")
    os.makedirs(path, exist_ok=True)
    return path


def once(name, make):
    """The product `name` of the cache; `make(path)` makes it where it is missing."""
    final = os.path.join(cache(), name)
    if not os.path.exists(final):
        with locked(os.path.join(cache(), f".{name.split('-')[0]}.lock")):
            if not os.path.exists(final):
                with tempfile.TemporaryDirectory(dir=cache()) as work:
                    # apt and mmdebstrap drop privileges on the way.
                    os.chmod(work, 0o755)
                    product = os.path.join(work, "product")
                    make(product)
                    os.rename(product, final)
    return final


def main(program, work):
    """Runs `work()`; turns what it raises into a line on stderr and an exit status."""
    try:
        sys.exit(work() or 0)
    except Skip as reason:
        # `make test-vm` sets this: where the test is asked for by name, a skip would hide a loss.
        required = os.environ.get("NIGHTWATT_VM_REQUIRED")
        print(f"{'error' if required else 'skipped'}: {reason}", file=sys.stderr)
        sys.exit(1 if required else 77)
    except Failure as reason:
        print(f"{program}: error: {reason}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
