"""Who should run beside whom.

Programs that share a last-level cache (LLC), a memory controller or a link between sockets slow
each other down. corun predicts by how much, compares policies that decide who runs where, and
says how far each is from the best there is.

>>> import corun
>>> comparison = corun.compare(["xz", "sqlite3", "sort", "flac"], policies=["dio"], seeds=2)
>>> list(comparison.policies.columns)[:3]
['kind', 'mean_slowdown', 'stp']

Units: cache sizes in bytes, bandwidths in MB/s (1e6 bytes a second), times in seconds, misses per
1000 instructions (MPKI). A slowdown is completion time beside others / completion time alone.
"""

from corun import errors
from corun._corun import Library, Machine, Mix, ModelOptions, Profile, __version__, presets
from corun.errors import Error, FailedError, InputError
from corun.questions import compare, partition, place, predict, simulate
from corun.results import Comparison, Partition, Placement, Run
from corun.sweeps import SweepResult, sweep

__all__ = [
    "Comparison",
    "Error",
    "FailedError",
    "InputError",
    "Library",
    "Machine",
    "Mix",
    "ModelOptions",
    "Partition",
    "Placement",
    "Profile",
    "Run",
    "SweepResult",
    "__version__",
    "compare",
    "errors",
    "partition",
    "place",
    "predict",
    "presets",
    "simulate",
    "sweep",
]
