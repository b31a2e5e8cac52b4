# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two workers in network namespaces of their own, and the scheduler between them: the same figures."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import nightwatt
import pytest
from conftest import lines

distributed = pytest.importorskip("distributed", reason="skipped: distributed is not installed")

HOST = "10.213.77.1"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def namespaces():
    """A bridge of this namespace, and two namespaces on it."""
    tag = f"nw{os.getpid() % 100_000}"
    bridge, names = f"{tag}br", [f"{tag}a", f"{tag}b"]
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", f"{HOST}/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, name in enumerate(names, 2):
            ip("netns", "add", name)
            ip("link", "add", f"{name}0", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"{name}0", "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.213.77.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], capture_output=True)


@contextlib.contextmanager
def started(command, **options):
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def test_workers_in_other_namespaces_have_the_same_figures(tmp_path):
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("skipped: namespaces need root and iproute2")
    logs = []
    for day in range(1, 9):
        path = tmp_path / f"{day}.log"
        path.write_text("".join(lines(1, day, begins_on=day)), encoding="ascii")
        logs.append(path)
    dask = [sys.executable, "-m", "dask"]
    with contextlib.ExitStack() as stack:
        try:
            names = stack.enter_context(namespaces())
        except subprocess.CalledProcessError as error:
            pytest.skip(f"skipped: no network namespaces here: {error.stderr.decode().strip()}")
        scheduler = stack.enter_context(
            started(
                [*dask, "scheduler", "--host", HOST, "--port", "0", "--no-dashboard"],
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
            )
        )
        address = next(
            found[0] for line in scheduler.stderr if (found := re.search(rf"tcp://{re.escape(HOST)}:\d+", line))
        )
        for name in names:
            worker = ["ip", "netns", "exec", name, *dask, "worker", address, "--nthreads", "1", "--no-dashboard"]
            stack.enter_context(started(worker, stderr=subprocess.DEVNULL, cwd=tmp_path))
        client = stack.enter_context(distributed.Client(address, set_as_default=False))
        client.wait_for_workers(2, timeout=120)
        hosts = {worker["host"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()}
        assert hosts == {"10.213.77.2", "10.213.77.3"}
        with client.as_current():
            figures = nightwatt.dask.summarize(logs).figures
        assert figures == nightwatt.summarize(logs).figures
