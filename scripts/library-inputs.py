#!/usr/bin/env python3
"""Generates the inputs of the profile library into the current folder: the same bytes every time. With `--larger`
others of some of its programs in place of them, two to four times as large, which the library does not have."""

import random
import struct
import sys


def words(count, seed):
    """Pseudo-words with popularity falling as 1 / rank, as in real text."""
    draw = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    vocabulary = [
        "".join(letters[int(26 * draw.random() ** 2)] for _ in range(2 + int(9 * draw.random())))
        for _ in range(20000)
    ]
    for _ in range(count):
        yield vocabulary[int(20000 ** draw.random()) - 1]


def text(name, count, seed):
    with open(name, "w") as out:
        for at, word in enumerate(words(count, seed)):
            out.write(word + (".\n" if at % 13 == 12 else " "))


def c_source(name, functions):
    draw = random.Random(3)
    with open(name, "w") as out:
        out.write("struct node { struct node *next; int key; double weight; };\n")
        for at in range(functions):
            a, b = draw.randrange(2, 99), draw.randrange(3, 99)
            out.write(f"""
int work_{at}(int *data, int n, struct node *list) {{
  int sum = {a}, i;
  for (i = 0; i < n; i++) {{
    if (data[i] % {b} == {a % b}) sum += data[i] * {a}; else sum ^= data[i] >> {a % 7};
    switch (sum & 7) {{
      case 0: sum += i; break; case 1: sum -= {b}; break;
      case 3: data[i] = sum; break; case 5: sum *= 3; break; default: sum++;
    }}
  }}
  for (; list; list = list->next) list->weight = list->weight * {a}.5 + list->key / {b}.0;
  return sum{f" + work_{at - 1}(data, n / 2, list)" if at else ""};
}}
""")


def statements(name, rows):
    draw = random.Random(4)
    with open(name, "w") as out:
        out.write("PRAGMA cache_size=-131072; BEGIN;\n")
        out.write("CREATE TABLE item(id INTEGER PRIMARY KEY, kind INTEGER, price REAL, name TEXT);\n")
        out.write("CREATE TABLE sale(item INTEGER, day INTEGER, amount INTEGER);\n")
        out.write(f"""INSERT INTO item WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n
 WHERE i < {rows}) SELECT i, (i * 7919) % 97, ((i * 104729) % 10007) / 7.0,
 printf('item %d of kind %d', i, (i * 7919) % 97) FROM n;\n""")
        out.write(f"""INSERT INTO sale WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n
 WHERE i < {4 * rows}) SELECT (i * 2654435761) % {rows} + 1, (i * 31) % 365, i % 9 FROM n;\n""")
        out.write("CREATE INDEX by_kind ON item(kind); CREATE INDEX by_day ON sale(day);\nCOMMIT;\n")
        out.write("""SELECT kind, count(*), sum(price * amount) FROM sale JOIN item ON item.id = sale.item
 GROUP BY kind ORDER BY 3 DESC LIMIT 5;\n""")
        for _ in range(20):
            day = draw.randrange(365)
            out.write(f"""SELECT count(*), max(name) FROM sale JOIN item ON item.id = sale.item
 WHERE day = {day} AND price > {draw.randrange(900)};\n""")


def scene(name):
    draw = random.Random(5)
    with open(name, "w") as out:
        out.write("""#version 3.7;
global_settings { assumed_gamma 1.0 }
camera { location <0, 6, -14> look_at <0, 1, 0> }
light_source { <20, 30, -20> rgb 1 }
light_source { <-25, 20, -5> rgb 0.5 }
plane { y, 0 pigment { checker rgb 0.9, rgb 0.3 } finish { reflection 0.15 } }
""")
        for _ in range(400):
            x, z = draw.uniform(-9, 9), draw.uniform(-6, 14)
            r = draw.uniform(0.15, 0.6)
            colour = ", ".join(f"{draw.random():.3f}" for _ in range(3))
            out.write(f"""sphere {{ <{x:.3f}, {r:.3f}, {z:.3f}>, {r:.3f} pigment {{ rgb <{colour}> }}
 finish {{ phong 0.8 reflection {draw.uniform(0, 0.4):.3f} }} }}\n""")


def video(name, width, height, frames):
    draw = random.Random(6)
    noise = bytes(draw.randrange(24) for _ in range(1 << 16))
    with open(name, "wb") as out:
        out.write(f"YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420jpeg\n".encode())
        for frame in range(frames):
            out.write(b"FRAME\n")
            for row in range(height):
                shift = (row * 37 + frame * 5) & 0x7FFF
                base = [((x + 3 * frame) * 3 ^ (row - frame) * 2) & 0xBF for x in range(width)]
                out.write(bytes(b + n for b, n in zip(base, noise[shift:shift + width])))
            chroma = bytes((frame * 2 + x // 4) & 0xFF for x in range(width // 2))
            for _ in range(height):
                out.write(chroma)


def linear_program(name, supplies, demands):
    draw = random.Random(7)
    with open(name, "w") as out:
        out.write("Minimize\n cost: ")
        out.write("\n + ".join(f"{draw.randrange(5, 200)} x_{i}_{j}"
                               for i in range(supplies) for j in range(demands)))
        out.write("\nSubject To\n")
        for i in range(supplies):
            row = " + ".join(f"x_{i}_{j}" for j in range(demands))
            out.write(f" s_{i}: {row} <= {draw.randrange(80, 120) * demands // supplies}\n")
        for j in range(demands):
            row = " + ".join(f"x_{i}_{j}" for i in range(supplies))
            out.write(f" d_{j}: {row} >= {draw.randrange(50, 75)}\n")
        out.write("End\n")


def clauses(name, variables, count, seed):
    """Uniform random 3-SAT."""
    draw = random.Random(seed)
    with open(name, "w") as out:
        out.write(f"p cnf {variables} {count}\n")
        for _ in range(count):
            chosen = draw.sample(range(1, variables + 1), 3)
            out.write(" ".join(str(v if draw.random() < 0.5 else -v) for v in chosen) + " 0\n")


def proteins(alignment, database, sequences):
    draw = random.Random(9)
    residues = "ACDEFGHIKLMNPQRSTVWY"
    consensus = [draw.choice(residues) for _ in range(140)]
    with open(alignment, "w") as out:
        out.write("# STOCKHOLM 1.0\n\n")
        for at in range(30):
            row = "".join(c if draw.random() < 0.7 else draw.choice(residues) for c in consensus)
            out.write(f"seq{at:<8} {row}\n")
        out.write("//\n")
    with open(database, "w") as out:
        for at in range(sequences):
            row = "".join(draw.choice(residues) for _ in range(draw.randrange(150, 450)))
            if at % 50 == 0:
                cut = draw.randrange(len(row))
                row = row[:cut] + "".join(consensus) + row[cut:]
            out.write(f">protein{at}\n{row}\n")


def document(name, sheet, records):
    draw = random.Random(10)
    text_words = words(10 * records, 11)
    with open(name, "w") as out:
        out.write("<library>\n")
        for at in range(records):
            title = " ".join(next(text_words) for _ in range(5))
            out.write(f'<book id="b{at}"><title>{title}</title><year>{draw.randrange(1900, 2024)}'
                      f"</year><price>{draw.randrange(5, 90)}</price></book>\n")
        out.write("</library>\n")
    with open(sheet, "w") as out:
        out.write("""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:key name="y" match="book" use="year"/>
<xsl:template match="/library"><html><xsl:for-each select="book">
<xsl:sort select="price" data-type="number"/><xsl:sort select="title"/>
<p><b><xsl:value-of select="title"/></b> <xsl:value-of select="count(key('y', year))"/>
<xsl:if test="price &gt; 50"><i><xsl:value-of select="substring-before(title, ' ')"/></i></xsl:if></p>
</xsl:for-each></html></xsl:template></xsl:stylesheet>\n""")


def sound(name, samples):
    import math
    draw = random.Random(12)
    with open(name, "wb") as out:
        size = 2 * samples
        out.write(struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1,
                              44100, 88200, 2, 16, b"data", size))
        for at in range(samples):
            tone = math.sin(at * (0.02 + 0.01 * math.sin(at / 9e3))) * 9000
            out.write(struct.pack("<h", int(tone + draw.randrange(-600, 600))))


def graph(name, nodes):
    draw = random.Random(13)
    with open(name, "w") as out:
        out.write("graph g {\n")
        for at in range(1, nodes):
            for _ in range(2):
                out.write(f"n{at} -- n{int(at * draw.random() ** 2)};\n")
        out.write("}\n")


def records(name, count):
    draw = random.Random(14)
    with open(name, "w") as out:
        for _ in range(count):
            out.write(f"{draw.getrandbits(60):015x} {draw.getrandbits(40):010x}\n")


def picture(name, width, height):
    """A colour picture with edges, a gradient and noise, as portable pixmap."""
    draw = random.Random(15)
    noise = bytes(draw.randrange(32) for _ in range(1 << 16))
    with open(name, "wb") as out:
        out.write(b"P6 %d %d 255\n" % (width, height))
        for y in range(height):
            shift = y * 97 & 0x7FFF
            row = bytearray()
            for x in range(width):
                base = 160 if (x // 40 + y // 30) % 3 else 220 * x // width
                grain = noise[shift + x]
                row += bytes((base + grain & 0xFF, y * 200 // height + grain, (base ^ x) & 0xDF))
            out.write(row)


def genome(reference, reads, length, count):
    """A random genome with repeats, and reads of 100 bases with 2 % of errors."""
    draw = random.Random(16)
    pieces = ["".join(draw.choices("ACGT", k=5000)) for _ in range(length // 7000)]
    while sum(map(len, pieces)) < length:
        piece = draw.choice(pieces)
        pieces.append(piece[:draw.randrange(100, len(piece) + 1)])
    bases = "".join(pieces)[:length]
    with open(reference, "w") as out:
        out.write(">chromosome\n")
        out.writelines(bases[at:at + 70] + "\n" for at in range(0, length, 70))
    with open(reads, "w") as out:
        for at in range(count):
            start = draw.randrange(length - 100)
            read = "".join(draw.choice("ACGT") if draw.random() < 0.02 else base
                           for base in bases[start:start + 100])
            out.write(f"@read{at}\n{read}\n+\n{'I' * 100}\n")


def mesh(name, side):
    """A square grid with some long edges, in METIS' format."""
    draw = random.Random(17)
    near = [set() for _ in range(side * side)]

    def join(a, b):
        if a != b:
            near[a].add(b)
            near[b].add(a)

    for y in range(side):
        for x in range(side):
            at = y * side + x
            if x + 1 < side:
                join(at, at + 1)
            if y + 1 < side:
                join(at, at + side)
            if draw.random() < 0.2:
                join(at, draw.randrange(side * side))
    with open(name, "w") as out:
        out.write(f"{side * side} {sum(map(len, near)) // 2}\n")
        out.writelines(" ".join(str(n + 1) for n in sorted(one)) + "\n" for one in near)


def flow(name, nodes, arcs):
    """A minimum-cost flow problem in DIMACS' format; a ring of dear arcs makes it feasible."""
    draw = random.Random(18)
    sources = nodes // 20
    lines = [f"a {n + 1} {(n + 1) % nodes + 1} 0 1000000 10000" for n in range(nodes)]
    for _ in range(arcs - nodes):
        tail, head = draw.sample(range(1, nodes + 1), 2)
        lines.append(f"a {tail} {head} 0 {draw.randrange(1, 50)} {draw.randrange(1, 1000)}")
    with open(name, "w") as out:
        out.write(f"p min {nodes} {arcs}\n")
        for n in range(sources):
            amount = draw.randrange(5, 60)
            out.write(f"n {n + 1} {amount}\nn {nodes - n} {-amount}\n")
        out.writelines(line + "\n" for line in lines)


def packing(name, rows, columns, filled):
    """A sparse linear program: most profit within limits, in CPLEX's LP format."""
    draw = random.Random(19)
    limits = [[] for _ in range(rows)]
    for column in range(columns):
        for row in draw.sample(range(rows), filled):
            limits[row].append(f"{draw.randrange(1, 40)} x{column}")
    with open(name, "w") as out:
        profit = "\n + ".join(f"{draw.randrange(10, 90)} x{c}" for c in range(columns))
        out.write(f"Maximize\n profit: {profit}\nSubject To\n")
        for row, terms in enumerate(limits):
            out.write(f" r{row}: " + "\n + ".join(terms) + f" <= {draw.randrange(400, 900)}\n")
        out.write("Bounds\n")
        out.writelines(f" x{c} <= {draw.randrange(2, 9)}\n" for c in range(columns))
        out.write("End\n")


def beam(name, length, width):
    """A beam of 8-node bricks, held at one end and pressed at the other, for CalculiX."""
    across = width + 1

    def node(x, y, z):
        return (x * across + y) * across + z + 1

    sides = [(y, z) for y in range(across) for z in range(across)]
    with open(name, "w") as out:
        out.write("*NODE, NSET=ALL\n")
        for x in range(length + 1):
            for y, z in sides:
                out.write(f"{node(x, y, z)}, {x}.0, {y}.0, {z}.0\n")
        out.write("*ELEMENT, TYPE=C3D8, ELSET=BEAM\n")
        corners = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0),
                   (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
        number = 0
        for x in range(length):
            for y in range(width):
                for z in range(width):
                    number += 1
                    ends = [str(node(x + a, y + b, z + c)) for a, b, c in corners]
                    out.write(f"{number}, {', '.join(ends)}\n")
        out.write("*MATERIAL, NAME=STEEL\n*ELASTIC\n210000., .3\n*SOLID SECTION, ELSET=BEAM, "
                  "MATERIAL=STEEL\n*BOUNDARY\n")
        out.writelines(f"{node(0, y, z)}, 1, 3\n" for y, z in sides)
        out.write("*STEP\n*STATIC\n*CLOAD\n")
        out.writelines(f"{node(length, y, z)}, 2, -10.0\n" for y, z in sides)
        out.write("*NODE PRINT, NSET=ALL, TOTALS=ONLY\nRF\n*END STEP\n")


def formula(name, jobs, machines):
    """A job shop as an SMT problem over differences: is there a plan that short?"""
    draw = random.Random(20)
    work, bounds = {}, []
    for job in range(jobs):
        order = draw.sample(range(machines), machines)
        for step, machine in enumerate(order):
            work[job, machine] = draw.randrange(1, 20)
            start = f"s_{job}_{machine}"
            if step:
                before = order[step - 1]
                bounds.append(f"(>= (- {start} s_{job}_{before}) {work[job, before]})")
            else:
                bounds.append(f"(>= {start} 0)")
        bounds.append(f"(<= (+ {start} {work[job, machine]}) LIMIT)")
    for machine in range(machines):
        for a in range(jobs):
            for b in range(a):
                first, second = f"s_{a}_{machine}", f"s_{b}_{machine}"
                bounds.append(f"(or (>= (- {first} {second}) {work[b, machine]}) "
                              f"(>= (- {second} {first}) {work[a, machine]}))")
    longest = max(sum(work[j, m] for j in range(jobs)) for m in range(machines))
    with open(name, "w") as out:
        out.write("(set-logic QF_IDL)\n")
        out.writelines(f"(declare-fun s_{j}_{m} () Int)\n" for j, m in work)
        for bound in bounds:
            out.write(f"(assert {bound.replace('LIMIT', str(longest + 4))})\n")
        out.write("(check-sat)\n")


def history(name, commits, files):
    """A stream for `git fast-import`: text files that change a little with each commit."""
    draw = random.Random(21)
    source = words(10**9, 22)
    lines = [[" ".join(next(source) for _ in range(8)) for _ in range(200)] for _ in range(files)]
    with open(name, "w") as out:
        for commit in range(commits):
            out.write("commit refs/heads/main\n"
                      f"committer A <a@example.org> {1_700_000_000 + 600 * commit} +0000\n"
                      f"data 7\nc {commit:05}\n")
            for file in range(files) if commit == 0 else draw.sample(range(files), 3):
                for _ in range(4):
                    lines[file][draw.randrange(200)] = " ".join(next(source) for _ in range(8))
                data = "\n".join(lines[file]) + "\n"
                out.write(f"M 644 inline f{file}.txt\ndata {len(data)}\n{data}\n")


def queries(name, rows):
    """Statements for a PostgreSQL server that serves one user: one a line."""
    draw = random.Random(23)
    with open(name, "w") as out:
        out.write("SET max_parallel_workers_per_gather = 0;\nSET jit = off;\n")
        out.write("CREATE TABLE item(id int PRIMARY KEY, kind int, price float8, name text);\n")
        out.write("CREATE TABLE sale(item int, day int, amount int);\n")
        out.write("INSERT INTO item SELECT i, (i * 7919) % 97, ((i * 104729::bigint) % 10007) / 7.0,"
                  f" 'item ' || i || ' of kind ' || (i * 7919) % 97 FROM generate_series(1, {rows}) i;\n")
        out.write(f"INSERT INTO sale SELECT (i * 2654435761) % {rows} + 1, (i * 31) % 365, i % 9"
                  f" FROM generate_series(1, {3 * rows}) i;\n")
        out.write("CREATE INDEX by_day ON sale(day);\nANALYZE;\n")
        out.write("SELECT kind, count(*), sum(price * amount) FROM sale JOIN item ON item.id = "
                  "sale.item GROUP BY kind ORDER BY 3 DESC LIMIT 5;\n")
        for _ in range(20):
            out.write("SELECT count(*), max(name) FROM sale JOIN item ON item.id = sale.item WHERE "
                      f"day = {draw.randrange(365)} AND price > {draw.randrange(900)};\n")
        for _ in range(150):
            key = draw.randrange(rows)
            out.write(f"UPDATE item SET price = price + 1 WHERE id = {key};\n")
            out.write(f"SELECT name, price FROM item WHERE id = {draw.randrange(rows)};\n")


def main():
    text("text.txt", 150_000, 1)
    c_source("source.c", 8)
    c_source("large.c", 1200)
    statements("statements.sql", 15_000)
    queries("queries.sql", 8_000)
    scene("scene.pov")
    video("video.y4m", 352, 288, 4)
    picture("picture.ppm", 320, 240)
    linear_program("transport.lp", 40, 140)
    packing("packing.lp", 400, 1200, 6)
    flow("network.min", 4000, 40_000)
    clauses("small.cnf", 170, 724, 8)
    clauses("large.cnf", 160, 682, 18)
    formula("shop.smt2", 6, 6)
    proteins("family.sto", "proteins.fa", 2000)
    genome("genome.fa", "reads.fq", 3_000_000, 1200)
    document("books.xml", "books.xsl", 12_000)
    sound("sound.wav", 1_500_000)
    graph("network.gv", 200)
    mesh("mesh.graph", 200)
    beam("beam.inp", 24, 5)
    records("records.txt", 300_000)
    history("history", 150, 40)


def larger():
    text("text-large.txt", 600_000, 21)
    records("records-large.txt", 700_000)
    statements("statements-large.sql", 45_000)
    genome("genome-large.fa", "reads-large.fq", 8_000_000, 3000)
    document("books-large.xml", "books-large.xsl", 30_000)
    mesh("mesh-large.graph", 300)


if __name__ == "__main__":
    larger() if sys.argv[1:] == ["--larger"] else main()
