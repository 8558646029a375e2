"""A sweep whose Dask workers are jobs of a real Slurm, by dask-jobqueue."""

import signal
import sys

import pytest

import corun

# It takes Ctrl-C for itself when it is imported, which other tests are about.
on_ctrl_c = signal.getsignal(signal.SIGINT)
jobqueue = pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
signal.signal(signal.SIGINT, on_ctrl_c)
distributed = pytest.importorskip("distributed", reason="Dask is not installed")

from slurm import NoSlurmError, slurm  # noqa: E402


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Workers as jobs of a Slurm on this host."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    starting = slurm(folder)
    try:
        environment = starting.__enter__()
    except NoSlurmError as why:
        pytest.skip(f"no Slurm here: {why}")
    try:
        monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
        with jobqueue.SLURMCluster(
            cores=1,
            processes=1,
            memory="1GB",
            job_mem="0",
            queue="all",
            walltime="00:10:00",
            interface="lo",
            python=sys.executable,
            log_directory=str(folder),
            local_directory=str(folder),
            scheduler_options={"dashboard_address": None},
        ) as cluster:
            yield cluster
    finally:
        starting.__exit__(None, None, None)


def test_a_sweep_on_slurm_has_the_bytes_of_one_here(cluster, tmp_path):
    description = {
        "machines": ["xeon-x5365"],
        "policies": ["di"],
        "seeds": 2,
        "instructions": 1_000_000_000,
        "random": [{"size": 3, "count": 3}],
    }
    own = corun.sweep(description, tmp_path / "own")
    cluster.scale(jobs=1)
    with distributed.Client(cluster) as client:
        client.wait_for_workers(1, timeout=300)
        found = corun.sweep(description, tmp_path / "found", dask=client)
    assert found.failed == 0
    assert found.path.read_bytes() == own.path.read_bytes()
