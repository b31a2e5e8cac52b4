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
        nightwatt.dask.summarize(missing)
    assert str(raised.value) == str(alone.value)
    with pytest.raises(nightwatt.UsageError, match="no log matches"):
        nightwatt.dask.summarize(f"{tmp_path}/*.nothing")


def test_workers_of_another_version_are_refused(logs, cluster, monkeypatch):
    import nightwatt._native

    monkeypatch.setattr(nightwatt._native, "VERSION", "9.9.9")
    with cluster.as_current(), pytest.raises(nightwatt.Error, match="has nightwatt 0") as raised:
        nightwatt.dask.summarize(f"{logs}/*.gz")
    assert "nightwatt==9.9.9" in raised.value.hint


def test_a_missing_log_in_a_list_is_a_warning_as_on_one_machine(logs, cluster, tmp_path):
    plain = tmp_path / "02.log"
    plain.write_bytes(gzip.decompress((logs / "02.log.gz").read_bytes()))
    some = [logs / "01.log.gz", tmp_path / "missing.log", plain]
    alone = nightwatt.summarize(some)
    assert "missing.log" in alone.warnings[0]
    for blocksize in (None, 5000):
        found = nightwatt.dask.summarize(some, blocksize=blocksize)
        assert (found.figures, found.warnings) == (alone.figures, alone.warnings)
    with cluster.as_current():
        assert nightwatt.dask.summarize(some).warnings == alone.warnings
    with pytest.raises(nightwatt.NotFoundError, match="missing.log"):
        nightwatt.dask.summarize([tmp_path / "missing.log", tmp_path / "missing.2"])
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/many/1.log", (logs / "all.log").read_bytes())
    urls = ["memory://many/1.log", "memory://many/missing"]
    (warning,) = nightwatt.dask.summarize(urls).warnings
    assert "cannot open log memory://many/missing" in warning


def test_blocks_are_named_by_their_file(tmp_path):
    path = tmp_path / "odd.log"
    path.write_text("".join(lines(1, 1)) + "no log\n" * 2000)
    with pytest.raises(nightwatt.Error, match=r"odd\.log from byte \d+"):
        nightwatt.dask.summarize(path, blocksize=4096)


def test_sizes_of_blocks_are_numbers_or_text(logs):
    path = logs / "all.log"
    assert nightwatt.dask.summarize(path, blocksize="4kB").figures == nightwatt.summarize(path).figures
    for size in (0, -1, "0", "many", [1], float("nan")):
        with pytest.raises(nightwatt.UsageError, match="`blocksize`"):
            nightwatt.dask.summarize(path, blocksize=size)


def test_names_with_brackets_are_no_patterns_if_they_exist(logs, tmp_path):
    path = tmp_path / "access[1]?.log"
    path.write_bytes((logs / "all.log").read_bytes())
    assert nightwatt.dask.summarize(path).figures == nightwatt.summarize(path).figures
    (tmp_path / "access1x.log").write_bytes(path.read_bytes())
    path.unlink()
    assert nightwatt.dask.summarize(path).requests == 12 * 300
    assert not nightwatt.dask._is_pattern("https://example.org/log?day=1&x[]=2")
    assert nightwatt.dask._is_pattern("s3://bucket/log?.gz")


def test_a_worker_that_is_gone_has_no_version(logs, monkeypatch):
    from importlib.metadata import PackageNotFoundError

    class Client:
        def __init__(self, *versions):
            self.versions = dict(enumerate(versions))

        def run(self, *_, **__):
            return self.versions

    gone, version = distributed.comm.core.CommClosedError("in <TCP>"), nightwatt.__version__
    monkeypatch.setattr(distributed, "get_client", lambda: Client(gone, version))
    nightwatt.dask._check_workers()
    monkeypatch.setattr(distributed, "get_client", lambda: Client(version, PackageNotFoundError("nightwatt")))
    with pytest.raises(nightwatt.Error, match="worker 1 has no nightwatt"):
        nightwatt.dask._check_workers()


def test_only_files_are_summed_up_and_only_named_sites_analysed(logs):
    with pytest.raises(nightwatt.UsageError, match="and not bytes"):
        nightwatt.dask.summarize(b"x")
    with pytest.raises(nightwatt.UsageError, match="is not a log"):
        nightwatt.dask.summarize(7)
    with pytest.raises(nightwatt.UsageError, match="there is no log"):
        nightwatt.dask.summarize([])
    with pytest.raises(nightwatt.UsageError, match="`sites` is not a dict"):
        nightwatt.dask.analyze([logs / "all.log"])


@pytest.mark.parametrize(
    ("grid", "options", "words"),
    [
        ({"policy": ["always-on"]}, {"policy": "learned"}, "`policy` would override `policy`"),
        ({"sla.enabled": [True]}, {"sla": False}, "`sla` would override `sla.enabled`"),
        ({"sla": [{"enabled": True}]}, {"sla": False}, "`sla` would override `sla`"),
        ({"server.on_w": [float("nan")]}, {}, "`server.on_w` cannot be nan"),
        ({"server.on_w": "60"}, {}, "`server.on_w` has no list of values"),
        ({"server.on_w": 60}, {}, "`server.on_w` has no list of values"),
        ({"server.on_w": []}, {}, "the grid has no point"),
        ({"server.on_W": [60]}, {}, "unknown field `on_W`"),
        ({"policy": ["never"]}, {}, "`never` is not a policy"),
        ({"policy.x": [1]}, {"scenario": {"policy": "learned"}}, "`policy.x` is in no table"),
        ({"server": [{}], "server.on_w": [1]}, {}, "keys within it"),
        ({7: [60]}, {}, "a key of the grid is not text"),
        (["server.on_w"], {}, "the grid is not a dict"),
        ({"server.on_w": [60]}, {"scenario": "scenario.toml"}, "`scenario` is not a dict"),
    ],
)
def test_wrong_grids_are_refused_before_the_work(tmp_path, grid, options, words):
    # The log is missing: that would be the error of the work.
    with pytest.raises(nightwatt.UsageError) as raised:
        nightwatt.dask.sweep(tmp_path / "missing.log", grid, **options)
    assert words in str(raised.value)


def test_a_sweep_has_columns_for_any_value(logs):
    numpy = pytest.importorskip("numpy")
    path = logs / "01.log.gz"
    of_numpy = nightwatt.dask.sweep(path, {"server.on_w": numpy.array([30, 90])}).to_pydict()
    assert of_numpy == nightwatt.dask.sweep(path, {"server.on_w": [30, 90]}).to_pydict()
    structured = nightwatt.dask.sweep(path, {"server": [{"on_w": 50.0}]}).to_pydict()
    assert structured["server"] == ['{"on_w": 50.0}']
    flags = nightwatt.dask.sweep(path, {"sla.enabled": [True, False]})
    assert flags.to_pydict()["sla.enabled"] == [True, False]
    assert all(type(value) is bool for value in flags.to_pydict()["sla.enabled"])
    assert flags.units == nightwatt.analyze(path).policies.units
    assert structured["energy_j"] == nightwatt.dask.sweep(path, {"server.on_w": [50.0]}).to_pydict()["energy_j"]
