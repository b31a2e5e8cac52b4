# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The wheel alone in a fresh venv: an analysis, a summary, markers. Prints what it found."""

import os
import subprocess
import sys
import tempfile

import nightwatt

LINE = '192.0.2.{client} - - [10/Oct/2026:{hour:02}:{minute:02}:00 +0000] "GET /{page} HTTP/1.1" 200 {size}\n'

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "access.log")
    with open(path, "w", encoding="ascii") as log:
        for n in range(24 * 4):
            log.write(LINE.format(client=n % 5, hour=n // 4, minute=15 * (n % 4), page=n, size=100 + n))
    analysis = nightwatt.analyze(path)
    assert analysis.requests == 96, analysis
    policies = analysis.policies.to_pydict()
    assert analysis.policy in policies["policy"] and len(analysis.policies) >= 8, policies
    assert 0 < analysis.saving < 1, analysis.saving
    summary = nightwatt.summarize(path)
    assert (summary + nightwatt.Summary()) == summary
    assert summary.requests == 96
with nightwatt.caliper("section"):
    pass
# Markers need none of the native half.
code = "import sys, nightwatt; nightwatt.begin('a'); print([m for m in sys.modules if 'nightwatt' in m])"
loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
assert "_native" not in loaded, loaded
print(f"Python {sys.version.split()[0]}: {analysis!r}")
