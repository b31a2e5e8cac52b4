# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The same figures on one machine, on Dask's threads and on a cluster; lost workers; errors."""

import gzip
import os
import signal
import threading

import nightwatt
import pytest
from conftest import lines

pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    for day in range(1, 13):
        text = "".join(lines(1, day, begins_on=day)).encode()
        (folder / f"{day:02}.log.gz").write_bytes(gzip.compress(text))
    (folder / "all.log").write_bytes(
        b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("*.gz")))
    )
    return folder


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def test_figures_are_the_same_on_threads_and_on_two_workers(logs, cluster):
    alone = nightwatt.summarize(sorted(logs.glob("*.gz")))
    assert nightwatt.dask.summarize(f"{logs}/*.gz").figures == alone.figures
    with cluster.as_current():
        assert nightwatt.dask.summarize(f"{logs}/*.gz").figures == alone.figures


@pytest.mark.parametrize("size", [1000, 4096, 100_000, 1 << 30])
def test_blocks_have_the_figures_of_the_file(logs, size):
    path = logs / "all.log"
    whole = nightwatt.summarize(path)
    parts = nightwatt.dask.summarize(path, blocksize=size)
    assert parts.figures == whole.figures


def test_every_line_is_in_one_block(tmp_path):
    from nightwatt import dask

    path = tmp_path / "log"
    text = b"a\nbb\n\nccc\n" + b"d" * 50 + b"\nlast without an end"
    path.write_bytes(text)
    for size in range(1, len(text) + 1):
        blocks = dask._blocks(str(path), size, {})
        parts = [dask._block(url, *part, {}) for url, part in blocks]
        assert b"".join(parts) == text, size
        assert all(part.endswith(b"\n") for part in list(filter(None, parts))[:-1]), size


def test_a_killed_worker_costs_its_tasks_only(logs):
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster) as client:
        alone = nightwatt.summarize(sorted(logs.glob("*.gz")))
        pids = client.run(os.getpid)
        found = []

        def summarize():
            with client.as_current():
                found.append(nightwatt.dask.summarize(sorted(logs.glob("*.gz"))))

        work = threading.Thread(target=summarize)
        work.start()
        busy = []
        while work.is_alive() and not busy:
            busy = [worker for worker, tasks in client.processing().items() if tasks]
        # A worker in the midst of its tasks; if all were done by then, one that has results.
        os.kill(pids[(busy or list(pids))[0]], signal.SIGKILL)
        work.join()
        assert found[0].figures == alone.figures


def test_sites_are_analysed_as_alone(logs):
    sites = {"one": f"{logs}/0*.gz", "two": [logs / "10.log.gz", logs / "11.log.gz"]}
    figures = nightwatt.dask.analyze(sites, show_addresses=True)
    assert set(figures) == {"one", "two"}
    alone = nightwatt.analyze(sorted(logs.glob("0*.gz")), show_addresses=True).figures
    assert figures["one"] == alone


def test_a_sweep_has_a_row_for_each_point(logs):
    grid = {"policy": ["timeout 1m", "timeout 10m"], "server.on_w": [30.0, 90.0]}
    table = nightwatt.dask.sweep(logs / "01.log.gz", grid).to_pydict()
    assert table["policy"] == ["timeout 1m", "timeout 1m", "timeout 10m", "timeout 10m"]
    assert table["server.on_w"] == [30.0, 90.0, 30.0, 90.0]
    one = nightwatt.analyze(logs / "01.log.gz", policy="timeout 10m", scenario={"server": {"on_w": 90.0}})
    assert table["energy_j"][3] == one.figures["policies"]["timeout 10m"]["energy_j"]


def test_errors_of_workers_have_the_words_of_the_command_line(logs, cluster, tmp_path):
    missing = tmp_path / "missing.log"
    with pytest.raises(nightwatt.NotFoundError) as alone:
        nightwatt.summarize(missing)
    with cluster.as_current(), pytest.raises(nightwatt.NotFoundError) as raised:
        nightwatt.dask.summarize([logs / "01.log.gz", missing])
    assert str(raised.value) == str(alone.value)
    with pytest.raises(nightwatt.UsageError, match="no log matches"):
        nightwatt.dask.summarize(f"{tmp_path}/*.nothing")


def test_workers_of_another_version_are_refused(logs, cluster, monkeypatch):
    import nightwatt._native

    monkeypatch.setattr(nightwatt._native, "VERSION", "9.9.9")
    with cluster.as_current(), pytest.raises(nightwatt.Error, match="has nightwatt 0") as raised:
        nightwatt.dask.summarize(f"{logs}/*.gz")
    assert "nightwatt==9.9.9" in raised.value.hint
