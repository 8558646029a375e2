"""The cookbook runs, and its last recipe is short."""

import ast
import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")
nbclient = pytest.importorskip("nbclient", reason="needs the extra `test`")

COOKBOOK = Path(__file__).parents[2] / "docs/cookbook.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook with its outputs; its files go into a folder of their own."""
    notebook = nbformat.read(COOKBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("cookbook")
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    assert os.listdir(folder) == ["trace.json"]
    return notebook


def test_every_recipe_runs(executed):
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert len(code) >= 8
    for cell in code:
        assert cell.outputs, cell.source
    pictures = [
        output
        for cell in code
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 4


def test_the_new_policy_takes_less_than_60_lines():
    notebook = nbformat.read(COOKBOOK, as_version=4)
    cell = next(cell for cell in notebook.cells if "class Quiet" in cell.source)
    assert len(cell.source.splitlines()) < 60
    policies = [node.name for node in ast.parse(cell.source).body if isinstance(node, ast.ClassDef)]
    assert policies == ["Quiet"]
