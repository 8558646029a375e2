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
from corun._corun import (
    Counted,
    Counters,
    Event,
    Library,
    Llc,
    Machine,
    Mix,
    ModelOptions,
    Node,
    Profile,
    SoloFigures,
    Thread,
    View,
    WaysPoint,
    __version__,
    presets,
)
from corun.errors import Error, FailedError, InputError, PolicyError
from corun.formats import read_csv, read_workloads, write_csv, write_workloads
from corun.live import dry_run
from corun.model import Model
from corun.policies import (
    Allow,
    CapBandwidth,
    IdleCpu,
    MovePages,
    Needs,
    OrderSlots,
    PartitionLlc,
    Plan,
    Policy,
    SetWeight,
    Swap,
)
from corun.questions import compare, partition, place, predict, simulate
from corun.results import Comparison, Partition, Placement, Run
from corun.sweeps import SweepResult, sweep

__all__ = [
    "Allow",
    "CapBandwidth",
    "Comparison",
    "Counted",
    "Counters",
    "Error",
    "Event",
    "FailedError",
    "IdleCpu",
    "InputError",
    "Library",
    "Llc",
    "Machine",
    "Mix",
    "Model",
    "ModelOptions",
    "MovePages",
    "Needs",
    "Node",
    "OrderSlots",
    "Partition",
    "PartitionLlc",
    "Placement",
    "Plan",
    "Policy",
    "PolicyError",
    "Profile",
    "Run",
    "SetWeight",
    "SoloFigures",
    "Swap",
    "SweepResult",
    "Thread",
    "View",
    "WaysPoint",
    "__version__",
    "compare",
    "dry_run",
    "errors",
    "partition",
    "place",
    "predict",
    "presets",
    "read_csv",
    "read_workloads",
    "simulate",
    "sweep",
    "write_csv",
    "write_workloads",
]
