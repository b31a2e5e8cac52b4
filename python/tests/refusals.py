# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the module refuses and what it bears, for the test in crates/cli/tests/cli/caliper_markers.rs. Its
markers are read meanwhile; it fails where the program would be hurt."""

import os
import pathlib
import resource
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import nightwatt


def refused(action):
    try:
        action()
    except TypeError:
        return
    raise AssertionError("it was not refused")


async def coroutine():
    pass


def generator():
    yield


async def both():
    yield


for function in (coroutine, generator, both):
    refused(lambda: nightwatt.caliper("refused")(function))
for name in (123, b"x", None, []):
    refused(lambda: nightwatt.caliper(name))
    refused(lambda: nightwatt.begin(name))
    refused(lambda: nightwatt.end(name))
for _ in range(2):
    with nightwatt.caliper("\udc80 odd"):
        pass

# A thread that comes when no more files can be opened has no ring, and leaves none behind that no
# other thread can take.
failed = []


def work(times):
    try:
        for _ in range(times):
            with nightwatt.caliper("thread"):
                pass
    except BaseException as error:
        failed.append(error)


def run(times):
    thread = threading.Thread(target=work, args=(times,))
    thread.start()
    thread.join()


resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = []
try:
    while True:
        files.append(os.dup(0))
except OSError:
    pass
for _ in range(200):
    run(1)
for file in files:
    os.close(file)
run(10)
assert not failed, failed
