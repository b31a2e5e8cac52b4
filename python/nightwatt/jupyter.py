# SPDX-License-Identifier: Apache-2.0 OR MIT
"""``%load_ext nightwatt``: the cell magic ``%%energy``."""

import math

from ._program import Meter

__all__ = ["described", "energy", "load_ipython_extension"]


def energy(line, cell, shell):
    """Runs a cell, prints what it used, and raises what it raised. ``line`` names meters: ``%%energy rapl``."""
    with Meter(*line.split()) as meter:
        result = shell.run_cell(cell)
    for channel in meter.report["channels"]:
        print(described(channel))
    for warning in meter.report["warnings"]:
        print(f"warning: {warning}")
    # A notebook that runs by itself ends at a cell that failed.
    result.raise_error()


def described(channel):
    """A figure as the command line prints it: rounded to its uncertainty, with its source."""
    joules, uncertainty = channel["joules"]["mean"], channel["uncertainty_j"]
    digits = max(0, 1 - math.floor(math.log10(uncertainty))) if uncertainty > 0 else 3
    kind = channel["provenance"]["kind"]
    place = f"{channel['meter']}/{channel['channel']}"
    return f"{joules:.{digits}f} J ± {uncertainty:.{digits}f} J  {place}, {kind}"


def load_ipython_extension(shell):
    """Called by ``%load_ext nightwatt``."""
    shell.register_magic_function(lambda line, cell: energy(line, cell, shell), "cell", "energy")
