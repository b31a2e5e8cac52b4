# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Analyses: frames of other libraries, options, errors, Ctrl-C."""

import _thread
import json
import os
import pickle
import re
import subprocess
import sys
import threading

import nightwatt
import pytest


def test_policies_are_a_polars_frame(log):
    polars = pytest.importorskip("polars")
    analysis = nightwatt.analyze(log)
    frame = polars.DataFrame(analysis.policies)
    assert frame.columns == analysis.policies.columns
    figures = analysis.figures["policies"]
    assert set(frame["policy"]) == set(figures)
    for row in frame.iter_rows(named=True):
        name = row.pop("policy")
        assert row == {key: figures[name][key] for key in row}
    assert frame.schema["visits"] == polars.UInt64 and frame.schema["saving"] == polars.Float64
    assert frame["policy"][0] == analysis.policy


def test_pandas_and_pyarrow_read_the_same(log):
    pyarrow = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    table = nightwatt.analyze(log).policies
    arrow = pyarrow.table(table)
    assert arrow.to_pydict() == table.to_pydict()
    assert arrow.schema == pyarrow.schema(table)
    assert arrow.field("energy_j").metadata == {b"unit": b"J"} and table.units["energy_j"] == "J"
    arrow.validate(full=True)
    frame = pandas.DataFrame.from_arrow(table) if hasattr(pandas.DataFrame, "from_arrow") else arrow.to_pandas()
    assert list(frame["policy"]) == table.to_pydict()["policy"]


def test_duckdb_queries_a_table(log):
    duckdb = pytest.importorskip("duckdb")
    policies = nightwatt.analyze(log).policies
    best = duckdb.sql("select policy, saving from policies order by saving desc limit 1").fetchall()[0]
    columns = policies.to_pydict()
    assert best[1] == max(columns["saving"])


def test_a_table_is_made_of_lists():
    lists = {"flag": [True, False], "count": [1, 2], "watts": [1.5, None], "name": ["a", None]}
    table = nightwatt.Table(lists, {"watts": "W", "count": "1"})
    assert table.to_pydict() == lists and table.to_pydict()["flag"][0] is True
    assert table.units == {"watts": "W", "count": "1"}
    assert nightwatt.Table({"nothing": []}).to_pydict() == {"nothing": []}
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(table).schema.field("flag").type == pyarrow.bool_()


def test_an_unread_stream_is_released(log):
    table = nightwatt.analyze(log).policies
    for _ in range(1000):
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
    assert len(table) == len(table.to_pydict()["policy"])


def test_figures_are_those_of_the_command_line(log, program):
    printed = subprocess.run([program, "analyze", "--json", log], check=True, capture_output=True).stdout
    figures = nightwatt.analyze(log).figures
    expected = json.loads(printed)
    # Labels of clients hold for one analysis only.
    for one in (figures, expected):
        one["wakers"]["clients"] = len(one["wakers"]["clients"])
    assert figures == expected


def test_errors_have_the_words_of_the_command_line(tmp_path, program):
    rubbish = tmp_path / "rubbish.log"
    rubbish.write_text("this is not a log\n" * 3)
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (tmp_path / "missing.log", rubbish, folder):
        done = subprocess.run([program, "analyze", "--json", path], capture_output=True, text=True)
        assert done.returncode != 0
        with pytest.raises(nightwatt.Error) as raised:
            nightwatt.analyze(path)
        assert done.stderr.strip().removeprefix("error: ") == str(raised.value)


def test_missing_files_and_wrong_arguments_are_pythons_own_errors_too(tmp_path, log):
    with pytest.raises(FileNotFoundError, match="cannot open log") as raised:
        nightwatt.analyze(tmp_path / "missing.log")
    assert isinstance(raised.value, nightwatt.NotFoundError) and raised.value.hint
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (type(raised.value), str(raised.value))
    with pytest.raises(ValueError, match="there is no log format `nonsense`"):
        nightwatt.analyze(log, format="nonsense")
    with pytest.raises(ValueError, match="`never` is not a policy: choose"):
        nightwatt.analyze(log, policy="never")
    with pytest.raises(nightwatt.UsageError, match="unknown field `servre`"):
        nightwatt.analyze(log, scenario={"servre": {}})
    with pytest.raises(FileNotFoundError, match="cannot read"):
        nightwatt.analyze(log, scenario=tmp_path / "missing.toml")


def test_a_scenario_is_a_dict_or_a_file(tmp_path, log):
    file = tmp_path / "scenario.toml"
    file.write_text("policy = 'timeout 5m'\n[server]\non_w = 100.0\noff_w = 2.0\n")
    of_file = nightwatt.analyze(log, scenario=file)
    of_dict = nightwatt.analyze(
        log, scenario={"policy": "timeout 5m", "server": {"on_w": 100.0, "off_w": 2.0}}
    )
    assert of_file.policy == "timeout 5m"
    assert of_file.policies.to_pydict() == of_dict.policies.to_pydict()
    default = nightwatt.analyze(log)
    assert default.policies.to_pydict() != of_dict.policies.to_pydict()
    without = nightwatt.analyze(log, policy="timeout 5m", sla=False)
    assert without.figures["scenario"]["sla"]["enabled"] is False


def test_wrong_arguments_are_named(log):
    for name, value, words in (
        ("format", 3, "`format` is not text: 3"),
        ("log_format", b"x", "`log_format` is not text"),
        ("client_from", 3, "`client_from` is not text"),
        ("policy", 3, "`policy` is not text"),
        ("sla", "no", "`sla` is not True or False"),
        ("show_addresses", 1, "`show_addresses` is not True or False"),
        ("days", 0, "`days` cannot be 0"),
        ("days", -1, "`days` cannot be -1"),
        ("days", 1 << 32, "`days` cannot be 4294967296"),
        ("days", 1.5, "`days` is not a whole number"),
        ("scenario", [1], "`scenario` is neither a file nor a dict"),
        ("scenario", {"server": {"on_w": float("nan")}}, "`scenario.server.on_w` cannot be nan"),
        ("scenario", {"server": {"on_w": float("inf")}}, "`scenario.server.on_w` cannot be inf"),
        ("scenario", {"server": {"on_w": object()}}, "`scenario.server.on_w` cannot be of the type object"),
        ("scenario", {"server": {3: 4}}, "a key of `scenario.server` is not text: 3"),
    ):
        with pytest.raises(nightwatt.UsageError, match=re.escape(words)):
            nightwatt.analyze(log, **{name: value})
    with pytest.raises(nightwatt.UsageError, match="`plan` is neither a file nor text"):
        nightwatt.fleet(3)


def test_numbers_of_numpy_are_numbers(log):
    numpy = pytest.importorskip("numpy")
    server = {"on_w": numpy.int64(100), "off_w": numpy.float32(2.0)}
    sla = {"enabled": numpy.bool_(False)}
    of_numpy = nightwatt.analyze(log, scenario={"server": server, "sla": sla}, days=numpy.int64(2))
    plain = nightwatt.analyze(
        log, scenario={"server": {"on_w": 100, "off_w": 2.0}, "sla": {"enabled": False}}, days=2
    )
    assert of_numpy.figures["scenario"] == plain.figures["scenario"]
    assert of_numpy.policies.to_pydict() == plain.policies.to_pydict()


def test_what_is_no_log_is_refused(log):
    with open(log, "rb") as file:
        for logs in (file, [file]):
            with pytest.raises(nightwatt.UsageError, match="is not a log") as raised:
                nightwatt.analyze(logs)
            assert "content as bytes" in raised.value.hint
    for logs in ({log: 1}, None, 7, [None], [[log]], [log, 7]):
        for function in (nightwatt.analyze, nightwatt.summarize):
            with pytest.raises(nightwatt.UsageError, match="is not a log"):
                function(logs)
    for function in (nightwatt.analyze, nightwatt.summarize):
        with pytest.raises(nightwatt.UsageError, match="there is no log"):
            function([])


def test_too_many_open_files_are_an_error_with_a_hint(log):
    code = """
import resource, sys, nightwatt
text = open(sys.argv[1], "rb").read()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    nightwatt.summarize([text] * 100)
except nightwatt.Error as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, log], check=True, capture_output=True, text=True)
    assert "cannot open log <bytes>" in done.stdout and "ulimit -n" in done.stdout, done.stdout


def test_tables_are_those_of_csv(log, tmp_path, program):
    subprocess.run([program, "analyze", "--csv", tmp_path / "csv", log], check=True, capture_output=True)
    tables = nightwatt.analyze(log).tables
    files = {path.stem: path.read_text() for path in (tmp_path / "csv").iterdir()}
    assert set(tables) == set(files)
    for name, table in tables.items():
        lines = files[name].splitlines()
        assert len(table) == len(lines) - 1
        assert table.columns[0] in lines[0]


def test_the_report_is_a_page_that_loads_nothing(log):
    page = nightwatt.analyze(log).html()
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in page


def test_ctrl_c_ends_a_long_call(long_log):
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.3, _thread.interrupt_main).start()
        while True:
            nightwatt.analyze(long_log)


def test_progress_is_reported_and_may_end_the_call(long_log):
    seen = []
    nightwatt.analyze(long_log, progress=lambda *at: seen.append(at))
    size = os.path.getsize(long_log)
    assert all(0 < done <= total == size for done, total, _ in seen)
    assert seen == sorted(seen)

    def enough(done, total, requests):
        raise RuntimeError(f"enough after {requests}")

    if seen:
        with pytest.raises(RuntimeError, match="enough after"):
            # One that is quicker than the first report of progress is not ended by it.
            for _ in range(100):
                nightwatt.analyze(long_log, progress=enough)


def test_other_threads_run_during_a_call(long_log):
    turns = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            turns.append(None)

    counting = threading.Thread(target=count)
    counting.start()
    try:
        before = len(turns)
        nightwatt.analyze(long_log)
        during = len(turns) - before
    finally:
        stop.set()
        counting.join()
    # With the lock held, the other thread would have had a turn at the begin and at the end only.
    assert during > 1000
