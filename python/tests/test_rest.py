# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Policies by hand, pools, intervals, sections, stubs."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys

import nightwatt
import nightwatt.policy
import nightwatt.stats
import pytest


def test_a_timeout_sleeps_after_its_time():
    policy = nightwatt.policy.sleep_policy("timeout 5m")
    assert policy.name == "timeout 5m"
    policy.observe(0.0, visitor="a")
    assert policy.verdict(10.0, idle_since=0.0) == 300.0
    policy.observe(200.0, visitor="b", kind="api")
    assert policy.verdict(300.0, idle_since=200.0) == 500.0
    assert policy.verdict(500.0, idle_since=200.0) == "sleep"
    assert policy.wake_at is None and policy.lessons is None
    assert nightwatt.policy.sleep_policy("always-on").verdict(1e6, idle_since=0.0) == "stay"


def test_a_ski_rental_sleeps_at_the_break_even_time():
    # 170.7 J / (43.3 W - 1.6 W), of the default scenario.
    policy = nightwatt.policy.sleep_policy("ski-rental")
    assert policy.verdict(1.0, idle_since=0.0) == pytest.approx(170.7 / (43.3 - 1.6))


def test_the_learned_policy_learns():
    policy = nightwatt.policy.sleep_policy("learned", start=1.79e9)
    for n in range(200):
        policy.observe(60.0 * n, visitor=str(n % 7))
    assert policy.lessons


def test_time_does_not_go_back():
    policy = nightwatt.policy.sleep_policy()
    policy.observe(10.0)
    for at in (9.0, -1.0, float("nan"), 1e300):
        with pytest.raises(nightwatt.UsageError):
            policy.observe(at)
    with pytest.raises(ValueError, match="choose `human`"):
        policy.observe(11.0, kind="cat")
    for start in (float("nan"), float("inf"), "now"):
        with pytest.raises(nightwatt.UsageError, match="`start`"):
            nightwatt.policy.sleep_policy(start=start)
    with pytest.raises(nightwatt.UsageError, match="`utc_offset`"):
        nightwatt.policy.sleep_policy(utc_offset=1 << 40)


PLAN = """
policies = ["always-on 2", "delayed-off 10s"]
replications = 2
sla = "20ms"
requests = 20000

[[server]]
name = "tower server"
servers = 3
idle_w = 60
busy_w = 100
off_w = 2
service_rate = 300
switch_on = "30s"
switch_j = 2000

[[arrivals]]
kind = "poisson"
rates = [100]
"""


def test_a_plan_of_pools_is_that_of_the_command_line(tmp_path, program):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    seen = []
    fleet = nightwatt.fleet(file, progress=lambda *at: seen.append(at))
    printed = subprocess.run([program, "fleet", "--json", file], check=True, capture_output=True).stdout
    assert fleet.figures == json.loads(printed)
    assert fleet.tables and all(len(table) for table in fleet.tables.values())
    assert nightwatt.fleet(PLAN).figures["rows"] == fleet.figures["rows"]


def test_wrong_plans_name_the_line(tmp_path):
    with pytest.raises(ValueError, match="srver"):
        nightwatt.fleet(PLAN.replace("[[server]]", "[[srver]]"))
    with pytest.raises(FileNotFoundError, match="cannot read"):
        nightwatt.fleet(tmp_path / "missing.toml")


def test_intervals_are_scipys():
    # scipy.stats.t.interval(0.95, 4, mean, sem) of these five.
    low, high = nightwatt.stats.mean_interval([12.1, 11.8, 12.6, 12.0, 12.2])
    assert (low, high) == (pytest.approx(11.77166, abs=1e-5), pytest.approx(12.50834, abs=1e-5))
    assert nightwatt.stats.mean_interval([1.0]) is None
    assert nightwatt.stats.bootstrap_interval([1.0]) is None
    for values in ([1.0, float("nan")], [float("inf"), 1.0]):
        with pytest.raises(nightwatt.UsageError, match="`values` cannot contain"):
            nightwatt.stats.bootstrap_interval(values)
    for resamples in (0, 1, 1 << 40):
        with pytest.raises(nightwatt.UsageError, match="`resamples` cannot be"):
            nightwatt.stats.bootstrap_interval([1.0, 2.0], resamples=resamples)
    low, high = nightwatt.stats.bootstrap_interval([1.0, 2.0, 3.0, 4.0])
    assert 1.0 <= low < 2.5 < high <= 4.0
    # Fieller's interval is exact where the values below do not vary: that of the mean above.
    estimate, (low, high) = nightwatt.stats.ratio([12.1, 11.8, 12.6, 12.0, 12.2], [1.0, 1.0, 1.0, 1.0, 1.0])
    assert estimate == pytest.approx(12.14)
    assert low == pytest.approx(11.77166, abs=1e-5)
    assert nightwatt.stats.paired_ratio([2.0, 4.0], [1.0, 2.0])[0] == 2.0
    with pytest.raises(ValueError, match="2 values cannot be paired with 1"):
        nightwatt.stats.paired_ratio([2.0, 4.0], [1.0])


def test_a_section_is_measured(program, monkeypatch):
    monkeypatch.setenv("NIGHTWATT_PROGRAM", program)
    with nightwatt.Meter() as meter:
        assert meter.report is None
        sum(range(100_000))
    (channel, *_) = meter.report["channels"]
    assert channel["joules"]["mean"] > 0 and channel["provenance"]["kind"] in ("measured", "modelled")
    report = nightwatt.run([sys.executable, "-c", ""], repeat=2)
    assert len(report["runs"]) == 2


def test_times_are_numbers_of_seconds_or_text(program, monkeypatch):
    monkeypatch.setenv("NIGHTWATT_PROGRAM", program)
    report = nightwatt.run(["true"], idle=0.3, interval=0.05)
    assert report["runs"] and report["idle_s"] == 0.3
    with nightwatt.Meter(interval="50ms") as meter:
        pass
    assert meter.report["channels"]
    for idle in (0, -1, 0.0001, float("nan"), float("inf")):
        with pytest.raises(nightwatt.UsageError, match="`idle` cannot be"):
            nightwatt.run(["true"], idle=idle)
    with pytest.raises(nightwatt.UsageError, match="`interval` is not a time"):
        nightwatt.run(["true"], interval=[1])


def test_a_command_is_a_list_with_something_in_it():
    for command in ("ls -l", b"ls", pathlib.Path("ls"), 7, ["ls", 7], [None]):
        with pytest.raises(nightwatt.UsageError, match="is not a list"):
            nightwatt.run(command)
    with pytest.raises(nightwatt.UsageError, match="there is no command"):
        nightwatt.run([])
    for meters in (7, None, ["rapl", 7]):
        with pytest.raises(nightwatt.UsageError, match="a meter is not named by text"):
            nightwatt.run(["true"], meters=meters)


def test_a_program_that_is_not_nightwatt_is_an_error(tmp_path, monkeypatch):
    text = tmp_path / "text"
    text.write_text("not a program")
    for program, cause in ((tmp_path / "missing", "cannot start"), (text, "cannot start"), ("true", "wrote no report")):
        monkeypatch.setenv("NIGHTWATT_PROGRAM", str(program))
        with pytest.raises(nightwatt.Error, match=cause) as raised:
            nightwatt.run(["true"])
        assert "NIGHTWATT_PROGRAM" in raised.value.hint
        with pytest.raises(nightwatt.Error, match=cause):
            with nightwatt.Meter():
                pytest.fail("there is no such program")


def test_what_a_command_prints_need_not_be_text(program, monkeypatch, capsys):
    monkeypatch.setenv("NIGHTWATT_PROGRAM", program)
    code = "import os; os.write(2, bytes([255, 254]))"
    assert nightwatt.run([sys.executable, "-c", code])["runs"]
    assert "\ufffd" in capsys.readouterr().err


def test_an_interrupted_meter_leaves_no_program_behind(tmp_path, monkeypatch):
    started = []

    class Output:
        def readline(self):
            raise KeyboardInterrupt

        def close(self):
            pass

    class Interrupted(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.stdout.close()
            self.stdout = Output()
            started.append(self)

    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("NIGHTWATT_PROGRAM", str(program))
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        with nightwatt.Meter():
            pytest.fail("it began")
    assert [process.returncode for process in started] == [-signal.SIGTERM]


def test_errors_of_meters_are_exceptions(program, monkeypatch):
    monkeypatch.setenv("NIGHTWATT_PROGRAM", program)
    with pytest.raises(nightwatt.Error, match="nonsense"):
        with nightwatt.Meter("nonsense"):
            pytest.fail("there is no such meter")
    with pytest.raises(nightwatt.Error, match="/nonexistent"):
        nightwatt.run(["/nonexistent"])
    monkeypatch.setenv("NIGHTWATT_PROGRAM", "")
    monkeypatch.setenv("PATH", "")
    if not os.path.exists(os.path.join(os.path.dirname(sys.executable), "nightwatt")):
        with pytest.raises(nightwatt.Error, match="there is no program"):
            nightwatt.run(["true"])


def test_the_magic_measures_a_cell(program, monkeypatch, capsys):
    testing = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setenv("NIGHTWATT_PROGRAM", program)
    shell = testing.InteractiveShell.instance()
    shell.run_line_magic("load_ext", "nightwatt")
    shell.run_cell_magic("energy", "", "answer = 6 * 7")
    assert shell.user_ns["answer"] == 42
    printed = capsys.readouterr().out
    assert " J ± " in printed and ("modelled" in printed or "measured" in printed)
    with pytest.raises(ZeroDivisionError):
        shell.run_cell_magic("energy", "", "1 / 0")
    assert " J ± " in capsys.readouterr().out


def test_figures_are_rounded_to_what_is_known():
    from nightwatt.jupyter import described

    channel = {
        "meter": "rapl",
        "channel": "package-0",
        "joules": {"mean": 123.456},
        "uncertainty_j": 2.345,
        "provenance": {"kind": "measured"},
    }
    assert described(channel) == "123.5 J ± 2.3 J  rapl/package-0, measured"
    channel["uncertainty_j"] = 12.5
    assert described(channel) == "123 J ± 12 J  rapl/package-0, measured"


def test_markers_load_nothing_native_and_keep_their_names():
    code = """
import sys, nightwatt
from nightwatt import begin, caliper, end
import nightwatt._markers
loaded = [name for name in sys.modules if name in ("nightwatt._native", "dask", "fsspec", "tqdm", "numpy")]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_is_there():
    for name in nightwatt.__all__:
        assert getattr(nightwatt, name) is not None
    assert nightwatt.__version__.count(".") == 2
    assert {"analyze", "dask", "policy", "stats", "jupyter"} <= set(dir(nightwatt))
    with pytest.raises(AttributeError, match="nonsense"):
        nightwatt.nonsense


def test_stubs_describe_the_package(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("skipped: mypy is not installed")
    # Private modules have no stubs.
    ignored = tmp_path / "ignored"
    ignored.write_text("nightwatt\\._(markers|errors|inputs|progress|program|analyze)(\\..*)?\n")
    config = tmp_path / "mypy.ini"
    config.write_text(
        "[mypy]\nignore_missing_imports = true\n"
        "[mypy-nightwatt._markers,nightwatt._inputs,nightwatt._progress]\nignore_errors = true\n"
    )
    command = [sys.executable, "-m", "mypy.stubtest", "nightwatt", "--ignore-missing-stub"]
    command += ["--allowlist", ignored, "--ignore-unused-allowlist", "--mypy-config-file", config]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
