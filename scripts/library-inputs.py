#!/usr/bin/env python3
"""Generates the inputs of the profile library into the current folder: the same bytes every time."""

import random
import struct


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


SCRIPTS = {
    "work.py": """
import heapq
graph = {n: [((n * k + 7) % 20011, (n * k) % 17 + 1) for k in (3, 5, 11)] for n in range(20011)}
best, heap = {}, [(0, 1)]
while heap:
    cost, node = heapq.heappop(heap)
    if node not in best:
        best[node] = cost
        for other, weight in graph[node]:
            if other not in best:
                heapq.heappush(heap, (cost + weight, other))
counts = {}
for word in open("text.txt").read().split():
    counts[word] = counts.get(word, 0) + 1
print(sum(best.values()), max(counts, key=counts.get))
""",
    "work.pl": """
my (%count, %pair, $last); open(my $in, '<', 'text.txt') or die;
while (<$in>) { last if $. > 4000; for my $w (/([a-z]+)/g) { $count{$w}++; $pair{"$last $w"}++ if $last; $last = $w } }
my @top = (sort { $pair{$b} <=> $pair{$a} || $a cmp $b } keys %pair)[0 .. 9];
print "$_ $pair{$_}\\n" for @top;
""",
    "work.lua": """
local function tree(d) if d == 0 then return {} end return {tree(d - 1), tree(d - 1)} end
local function count(t) if t[1] then return 1 + count(t[1]) + count(t[2]) end return 1 end
local keep, total = tree(16), 0
for _ = 1, 20 do total = total + count(tree(12)) end
print(total, count(keep))
""",
    "work_numpy.py": """
import numpy as np
draw = np.random.RandomState(1)
a, b = draw.rand(300, 300), draw.rand(300, 300)
c = a @ b
s = np.fft.fft(draw.rand(1 << 19))
v = np.sort(draw.rand(400000))
q = np.linalg.solve(a + 300 * np.eye(300), b)
print(c.sum(), abs(s).max(), v[::1000].sum(), q.sum())
""",
    "gnugo.gtp": "boardsize 9\nlevel 4\n" + "genmove black\ngenmove white\n" * 3 + "quit\n",
    "gnuchess.uci": "uci\nsetoption name Hash value 16\nposition startpos\ngo depth 9\n",
}


def main():
    text("text.txt", 150_000, 1)
    c_source("source.c", 8)
    statements("statements.sql", 15_000)
    scene("scene.pov")
    video("video.y4m", 352, 288, 4)
    linear_program("transport.lp", 40, 140)
    clauses("small.cnf", 170, 724, 8)
    clauses("large.cnf", 160, 682, 18)
    proteins("family.sto", "proteins.fa", 2000)
    document("books.xml", "books.xsl", 12_000)
    sound("sound.wav", 1_500_000)
    graph("network.gv", 200)
    records("records.txt", 300_000)
    for name, script in SCRIPTS.items():
        with open(name, "w") as out:
            out.write(script.lstrip("\n"))


if __name__ == "__main__":
    main()
