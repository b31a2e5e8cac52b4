# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Marks sections in threads and children, for the test in crates/cli/tests/cli/caliper_markers.rs."""

import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import nightwatt


@nightwatt.caliper("decorated")
def decorated(n):
    return sum(range(n))


def work():
    for _ in range(100):
        with nightwatt.caliper("outer"):
            with nightwatt.caliper("inner"):
                sum(range(1000))
            assert decorated(100) == 4950


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for _ in range(3):
    if os.fork() == 0:
        with nightwatt.caliper("child"):
            pass
        os._exit(0)
    os.wait()
