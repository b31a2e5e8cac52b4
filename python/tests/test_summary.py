# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Summaries add up, travel between processes, and have the figures of an analysis."""

import gzip
import itertools
import json
import pickle

import nightwatt
import pytest
from conftest import lines


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    paths = []
    for day in range(1, 6):
        path = folder / f"{day}.log.gz"
        path.write_bytes(gzip.compress("".join(lines(1, day, begins_on=day)).encode()))
        paths.append(path)
    return paths


def test_parts_add_up_to_the_whole_in_any_order(days):
    whole = nightwatt.summarize(days)
    parts = [nightwatt.summarize(day) for day in days]
    for order in itertools.islice(itertools.permutations(parts), 0, 120, 17):
        assert sum(order).figures == whole.figures
    left = ((parts[0] + parts[1]) + parts[2]) + (parts[3] + parts[4])
    assert left == sum(reversed(parts))
    assert parts[0] + nightwatt.Summary() == parts[0] == nightwatt.Summary() + parts[0]
    assert whole.requests == 5 * 300


def test_a_summary_has_the_figures_of_an_analysis(days):
    summary, analysis = nightwatt.summarize(days).figures, nightwatt.analyze(days).figures
    for key in ("lines", "malformed", "bad_requests", "requests", "methods", "statuses", "targets", "sizes"):
        assert summary[key] == analysis[key], key
    assert summary["gaps"] == analysis["gaps"]["all"]
    assert summary["hours_of_week"] == analysis["hours"]["of_week"]


def test_counts_are_those_of_another_reader(days):
    whole = nightwatt.summarize(days)
    text = [line for day in days for line in gzip.decompress(day.read_bytes()).decode().splitlines()]
    statuses, total = {}, 0
    for line in text:
        status, size = line.split('" ')[1].split(" ")[:2]
        statuses[status] = statuses.get(status, 0) + 1
        total += int(size)
    assert whole.figures["statuses"] == statuses
    assert whole.figures["sizes"]["total"] == total
    assert sum(whole.hours.to_pydict()["requests"]) == len(text)
    gaps = whole.gaps.to_pydict()
    assert sum(gaps["gaps"]) == len(text) - 1


def test_logs_that_overlap_have_no_gaps(days):
    one = nightwatt.summarize(days[0])
    assert (one + one).gaps is None and (one + one).figures["gaps"] is None
    assert one.gaps is not None


def test_a_summary_travels(days):
    one = nightwatt.summarize(days[0])
    assert pickle.loads(pickle.dumps(one)) == one
    function, (state,) = one.__reduce__()
    other = json.dumps({**json.loads(state), "version": "0.0.1"}).encode()
    with pytest.raises(nightwatt.Error, match="a summary of nightwatt 0.0.1 cannot be used") as raised:
        function(other)
    assert "every worker" in raised.value.hint
    for damaged in (b"", state[:-9], b"[]"):
        with pytest.raises(nightwatt.Error, match="arrived damaged"):
            function(damaged)


def test_only_summaries_are_added(days):
    one = nightwatt.summarize(days[0])
    for other in (1, "a", None):
        with pytest.raises(TypeError):
            one + other
    with pytest.raises(TypeError):
        1 + one


def test_bytes_are_a_log(days):
    packed = days[0].read_bytes()
    of_file = nightwatt.summarize(days[0])
    assert nightwatt.summarize(packed) == of_file
    assert nightwatt.summarize(gzip.decompress(packed)) == of_file
    with pytest.raises(nightwatt.Error, match="log <bytes> is in none of the formats"):
        nightwatt.summarize(b"no log\n" * 9)


def test_urls_are_logs(days):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for day in days:
        files.pipe(f"/bucket/{day.name}", day.read_bytes())
    urls = [f"memory://bucket/{day.name}" for day in days]
    assert nightwatt.summarize(urls) == nightwatt.summarize(days)
    assert nightwatt.analyze(urls).figures["logs"][0]["name"] == urls[0]
    with pytest.raises(FileNotFoundError, match="cannot open log memory://bucket/missing") as raised:
        nightwatt.summarize("memory://bucket/missing")
    assert raised.value.hint


def test_a_package_that_is_missing_for_a_url_is_named(monkeypatch):
    fsspec = pytest.importorskip("fsspec")

    def no_package(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "open", no_package)
    with pytest.raises(nightwatt.Error, match="Install s3fs") as raised:
        nightwatt.summarize("s3://bucket/log")
    assert "pip install s3fs" in raised.value.hint


def test_a_url_that_breaks_off_is_an_error(days, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe("/bucket/broken.log", gzip.decompress(days[0].read_bytes()))

    class Broken:
        def __init__(self, source):
            self.source, self.reads = source, 0

        def read(self, size):
            self.reads += 1
            if self.reads > 2:
                raise OSError("connection reset by peer")
            return self.source.read(1000)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.source.close()

    whole = fsspec.open
    monkeypatch.setattr(
        fsspec, "open", lambda *args, **kwargs: type("Opens", (), {"open": lambda _: Broken(whole(*args).open())})()
    )
    with pytest.raises(nightwatt.Error, match="connection reset by peer"):
        nightwatt.summarize("memory://bucket/broken.log")
