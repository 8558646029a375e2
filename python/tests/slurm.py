"""A Slurm of one node on this host, below a folder of its own, for as long as a test needs it."""

import contextlib
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "sinfo", "scancel", "squeue"]

#: How long the node may take to be idle, in seconds.
READY_S = 120.0


class NoSlurmError(Exception):
    """Why there can be no Slurm here."""


def _free_ports() -> Iterator[int]:
    """Ports that are free now, and that the kernel gives to nobody who asks for any port or connects."""
    given = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    below = max(int(given[0]), 32_768)
    for port in range(below - 1 - os.getpid() % 10_000, 1024, -1):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            yield port


def _configuration(folder: pathlib.Path, user: str) -> str:
    host = socket.gethostname().split(".")[0]
    ports = _free_ports()
    return f"""
ClusterName=corun
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={next(ports)}
SlurmdPort={next(ports)}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MessageTimeout=100
KillWait=2
InactiveLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def slurm(folder: pathlib.Path) -> Iterator[dict[str, str]]:
    """Starts munge, the controller and the node; yields what the environment needs.

    Raises NoSlurmError where something is missing or does not start.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise NoSlurmError(f"not installed: {', '.join(missing)} (Debian: slurm-wlm munge)")
    if os.geteuid() != 0:
        raise NoSlurmError("slurmd starts jobs as their users, which takes root")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    configuration = folder / "slurm.conf"
    configuration.write_text(_configuration(folder, "root"))
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    started: list[subprocess.Popen] = []

    def start(*words: str) -> None:
        log = (folder / f"{words[0]}.out").open("wb")
        started.append(
            subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        )

    try:
        start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed",
        )
        start("slurmctld", "-D", "-f", str(configuration))
        start("slurmd", "-D", "-f", str(configuration))
        _wait_until_idle(folder, environment, started)
        yield environment
    finally:
        _end_jobs(environment)
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _end_jobs(environment: dict[str, str]) -> None:
    """Ends all jobs, so that no step outlives its node."""

    def asked(*words: str) -> str:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    asked("scancel", "--signal=KILL", "--full", "--state=RUNNING")
    asked("scancel", "--state=PENDING")
    until = time.monotonic() + READY_S
    while asked("squeue", "--noheader") and time.monotonic() < until:
        time.sleep(0.2)


def _wait_until_idle(
    folder: pathlib.Path, environment: dict[str, str], started: list[subprocess.Popen]
) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        if any(process.poll() is not None for process in started):
            break
        asked = ["sinfo", "--noheader", "--format=%T"]
        state = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
        if state.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    logs = sorted([*folder.glob("*.log"), *folder.glob("*.out")])
    said = [line for log in logs for line in log.read_text(errors="replace").splitlines()[-3:]]
    raise NoSlurmError("it does not come up: " + " | ".join(said[-12:]))
