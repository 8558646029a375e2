#!/usr/bin/env python3
"""Puts a ranking into the documents: `scripts/refresh-ranking.py RANKING.json`, the output of
`corun-study ranking --format json`.

Copies it to docs/studies/ranking.json, and writes from it the tables of docs/studies/ranking.md below
"## A run: all tables" and the table that docs/policies.md opens with. Tests hold both against docs/studies/ranking.json.
"""

import json
import re
import sys
from pathlib import Path

SHOWN = [
    "linux-default",
    "dio-power",
    "dio-2010",
    "dio",
    "dino",
    "maximum-local",
    "n-mass",
    "dio-lfoc",
    "dio+fair-clusters-online",
    "corun:profiles=0",
    "corun:ways=0",
    "corun",
]

def row(cells):
    return "| " + " | ".join(cells) + " |\n"

def figure_rows(figure):
    return {one[0]: one for one in figure["rows"]}

def page(run):
    parts = []
    for figure in run["figures"]:
        parts.append(f"### {figure['heading']}\n\n{figure['about']}\n\n")
        header = figure["header"]
        parts.append(row(header) + "|" + "---|" * len(header) + "\n")
        for one in figure["rows"]:
            cells = [f"`{cell}`" if isinstance(cell, str) else "-" if cell is None else json.dumps(cell) for cell in one]
            parts.append(row(cells))
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"

def opening(run):
    def percent(figure, policy, place):
        own = figure_rows(figure).get(policy)
        return f"{own[place]:.2f}" if own else "-"

    table = row(["machine"] + [f"`{name}`" for name in SHOWN]) + "|" + "---|" * (len(SHOWN) + 1) + "\n"
    for figure in run["figures"]:
        machine = figure["heading"].removeprefix("On ")
        table += row([machine] + [percent(figure, policy, 2) for policy in SHOWN])
    overall = run["figures"][0]
    return table + row(["worst mix against `linux-default`"] + [percent(overall, policy, 7) for policy in SHOWN])

def unproven(run):
    sentences = []
    for figure in run["figures"][1:]:
        mixes, proven = map(int, re.match(r"(\d+) mix(?:es)?; of (\d+) ", figure["about"]).groups())
        if proven < mixes:
            machine = figure["heading"].removeprefix("On ")
            sentences.append(f"The best placements of `{machine}` are not proven on {mixes - proven} of {mixes} mixes")
    return sentences

def main():
    given = Path(sys.argv[1])
    run = json.loads(given.read_text())
    docs = Path(__file__).parent.parent / "docs"
    (docs / "studies/ranking.json").write_text(given.read_text())

    ranking = docs / "studies/ranking.md"
    text = ranking.read_text()
    start = text.index("### On ")
    ranking.write_text(text[:start] + page(run))

    policies = docs / "policies.md"
    text = policies.read_text()
    start = text.index("| machine | `linux-default` |")
    end = text.index("\n\n", start) + 1
    policies.write_text(text[:start] + opening(run) + text[end:])
    for sentence in unproven(run):
        if sentence not in text:
            print(f"docs/policies.md should say: {sentence}")

main()
