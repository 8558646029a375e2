#!/usr/bin/env python3
"""What asking the model from Python costs beside Rust: `scripts/python-model-cost.py [MIXES]`.

In one run, by turns: `Model.solve` from Python, the same mixes by the same code in Rust, and one
after the other on one core. The medians of nine turns are printed.
"""

import statistics
import sys
import time

import numpy as np

import corun

TURNS = 9


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    names = corun.Library().names()
    for machine in ["xeon-x5365", "2x-gold-6138-4c"]:
        model = corun.Model(names, machine=machine)
        cpus = corun.Machine(machine).cpus
        mixes = np.random.default_rng(1).integers(0, len(names), size=(count, len(cpus)))
        took = {"python": [], "rust": [], "one core": []}
        for _ in range(TURNS):
            began = time.perf_counter()
            model.solve(mixes, cpus)
            took["python"].append(time.perf_counter() - began)
            together, alone = model._native.rust_seconds(*model._arrays(mixes, cpus))
            took["rust"].append(together)
            took["one core"].append(alone)
        median = {name: statistics.median(seconds) for name, seconds in took.items()}
        print(
            f"{machine}: {count} mixes of {len(cpus)}: Python {median['python'] * 1e3:.1f} ms, "
            f"Rust {median['rust'] * 1e3:.1f} ms (ratio {median['python'] / median['rust']:.3f}), "
            f"Rust on one core {median['one core'] * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
