#!/usr/bin/env python3
"""Draws what a program shows in a terminal as SVG: `scripts/terminal-picture.py COLUMNS ROWS SECONDS OUT -- COMMAND ..`.

The command runs in a tmux of its own for so many seconds; then the screen is taken and the command is ended. KEYS in the
environment are pressed half way, as tmux names them (`KEYS='g Down'`). Needs tmux.
"""

import html
import os
import re
import shlex
import subprocess
import sys
import time

# The sixteen colours, dim ones first, as they look on a dark ground.
COLOURS = (
    "#2e3440 #e06c75 #98c379 #e5c07b #61afef #c678dd #56b6c2 #c8ccd4 "
    "#5c6370 #e06c75 #98c379 #e5c07b #61afef #c678dd #56b6c2 #ffffff"
).split()
GROUND, INK = "#1e222a", "#c8ccd4"
WIDTH, HEIGHT, MARGIN = 8.4, 17, 12
SGR = re.compile(r"\x1b\[([0-9;]*)m")


def capture(columns: int, rows: int, seconds: float, command: list[str]) -> str:
    name = f"corun-picture-{os.getpid()}"
    tmux = ["tmux", "-L", name]
    line = shlex.join(command)
    subprocess.run([*tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), line], check=True)
    try:
        time.sleep(seconds / 2)
        if keys := os.environ.get("KEYS"):
            subprocess.run([*tmux, "send-keys", *keys.split()], check=True)
        time.sleep(seconds / 2)
        screen = subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True)
        return screen.stdout.decode()
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


class Style:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.ink, self.ground, self.bold, self.dim, self.reverse = None, None, False, False, False

    def take(self, codes: str) -> None:
        numbers = [int(code or 0) for code in codes.split(";")]
        while numbers:
            code = numbers.pop(0)
            if code == 0:
                self.reset()
            elif code in (1, 2, 7):
                setattr(self, {1: "bold", 2: "dim", 7: "reverse"}[code], True)
            elif code == 22:
                self.bold = self.dim = False
            elif code == 27:
                self.reverse = False
            elif code in (38, 48) and numbers[:1] == [5]:
                place = "ink" if code == 38 else "ground"
                setattr(self, place, COLOURS[numbers[1] % 16])
                del numbers[:2]
            elif code in (39, 49):
                setattr(self, "ink" if code == 39 else "ground", None)
            for first, place, bright in ((30, "ink", 0), (40, "ground", 0), (90, "ink", 8), (100, "ground", 8)):
                if first <= code < first + 8:
                    setattr(self, place, COLOURS[code - first + bright])

    def colours(self) -> tuple[str, str]:
        ink, ground = self.ink or INK, self.ground or GROUND
        return (ground, ink) if self.reverse else (ink, ground)


def svg(screen: str, columns: int, rows: int) -> str:
    width, height = columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14">',
        f'<rect width="100%" height="100%" rx="6" fill="{GROUND}"/>',
    ]
    style = Style()
    for row, line in enumerate(screen.split("\n")[:rows]):
        column, top = 0, MARGIN + row * HEIGHT
        pieces = SGR.split(line)
        for place, piece in enumerate(pieces):
            if place % 2:
                style.take(piece)
                continue
            if not piece:
                continue
            ink, ground = style.colours()
            left, wide = MARGIN + column * WIDTH, len(piece) * WIDTH
            column += len(piece)
            if ground != GROUND:
                parts.append(f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{HEIGHT}" fill="{ground}"/>')
            if piece.strip():
                weight = ' font-weight="bold"' if style.bold else ""
                faint = ' opacity="0.6"' if style.dim else ""
                text = html.escape(piece)
                parts.append(
                    f'<text x="{left:.1f}" y="{top + 13}" fill="{ink}"{weight}{faint} textLength="{wide:.1f}" '
                    f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{text}</text>'
                )
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    columns, rows, seconds, out, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        sys.exit(__doc__)
    screen = capture(int(columns), int(rows), float(seconds), command)
    with open(out, "w", encoding="utf-8") as file:
        file.write(svg(screen, int(columns), int(rows)))


if __name__ == "__main__":
    main()
