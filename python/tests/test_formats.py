"""Formats that others read and write."""

import json
import shutil
import subprocess

import pytest

import corun


def test_a_table_survives_being_written_and_read(tmp_path):
    path = tmp_path / "solo.csv"
    corun.write_csv(path, ["xz", "sort"])
    assert path.read_text().startswith("BENCH,NR_WAYS,")
    library = corun.read_csv(path)
    assert library.names() == ["sort", "xz"]
    again = tmp_path / "again.csv"
    corun.write_csv(again, library=library)
    assert sorted(again.read_text().splitlines()) == sorted(path.read_text().splitlines())
    placed = corun.partition(["xz", "sort"], "ucp", profiles=library)
    assert placed.programs.slowdown.min() >= 0.99
    with pytest.raises(TypeError, match="programs is the text 'xz': expected a list"):
        corun.write_csv(path, "xz")
    with pytest.raises(corun.InputError, match="solo.csv:1: ipc: missing column"):
        path.write_text("BENCH,NR_WAYS\nxz,one\n")
        corun.read_csv(path)


def test_workloads_are_lines(tmp_path):
    path = tmp_path / "workloads.csv"
    workloads = [["xz", "sort"], ["flac", "flac", "numpy"]]
    corun.write_workloads(path, workloads)
    assert path.read_text() == "xz,sort\nflac,flac,numpy\n"
    path.write_text("# two\n\n xz , sort # the first\nflac,flac,numpy\n")
    assert corun.read_workloads(path) == workloads
    path.write_text("xz,sort\nxz,,sort\n")
    with pytest.raises(corun.InputError, match="workloads.csv:2: found `xz,,sort`"):
        corun.read_workloads(path)
    for bad in [[["a,b"]], [[]], ["xz"]]:
        with pytest.raises(corun.InputError, match="is no list of names"):
            corun.write_workloads(path, bad)


def test_a_long_table_has_every_figure(comparison):
    long = comparison.long()
    assert list(long.columns) == ["workload", "policy", "app", "property", "value"]
    assert set(long.workload) == {"+".join(comparison.apps)}
    wide = long[long.app == ""].pivot(index="policy", columns="property", values="value")
    assert wide.stp["dio-2010"] == comparison.policies.stp["dio-2010"]
    slowdowns = long[long.property == "slowdown"].pivot(
        index="policy", columns="app", values="value"
    )
    expected = comparison.slowdowns.loc[slowdowns.index, slowdowns.columns]
    assert (slowdowns == expected).all(axis=None)
    assert set(comparison.long("mine").workload) == {"mine"}


def test_a_trace_is_one_that_viewers_read(comparison, tmp_path):
    path = tmp_path / "trace.json"
    comparison.write_trace(path)
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    named = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert named == {"linux-default on xeon-x5365", "dio-2010 on xeon-x5365"}
    for event in events:
        assert {"ph", "pid", "tid", "name"} <= set(event)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0
    run = comparison.run("dio-2010")
    run.write_trace(path)
    own = json.loads(path.read_text())["traceEvents"]
    slices = [event for event in own if event["ph"] == "X"]
    assert len(slices) == len(run.placements)
    assert sum(e["dur"] for e in slices) == pytest.approx(4e6 * run.simulated_s, rel=1e-3)
    with pytest.raises(KeyError, match="no policy 'di' ran here"):
        comparison.write_trace(path, ["di"])


TWO_PACKAGES = "package:2 [numa(memory=8GB)] l3:1(size=16777216) l2:2(size=1048576) core:1 pu:2"


def test_machines_of_hwloc_are_read(tmp_path):
    lstopo = shutil.which("lstopo-no-graphics")
    if lstopo is None:
        pytest.skip("no lstopo here (Debian: hwloc-nox)")
    path = tmp_path / "two.xml"
    subprocess.run([lstopo, "-i", TWO_PACKAGES, "--of", "xml", path], check=True)
    machine = corun.Machine(str(path))
    assert machine.cpus == list(range(8)) and len(machine.llcs) == 2
    assert machine.llcs[1].size_bytes == 16 << 20 and machine.llcs[1].cpus == [4, 5, 6, 7]
    assert any("memory bandwidth is unknown" in one for one in machine.warnings)
    placed = corun.place(["sort", "numpy"], machine=machine)
    assert sorted(placed.programs.llc) == [0, 1]
    path.write_text("<html></html>")
    with pytest.raises(corun.InputError, match="two.xml: found <html>, expected hwloc's"):
        corun.Machine(str(path))
