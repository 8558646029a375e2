"""Brings a mono WAVE file to another rate: `resample.py FROM TO HERTZ`."""

import sys
import wave
from array import array


def main():
    source, target, rate = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with wave.open(source, "rb") as sound:
        given = sound.getframerate()
        samples = array("h", sound.readframes(sound.getnframes()))
    out = array("h")
    for at in range((len(samples) - 1) * rate // given):
        whole, part = divmod(at * given, rate)
        out.append(samples[whole] + (samples[whole + 1] - samples[whole]) * part // rate)
    with wave.open(target, "wb") as sound:
        sound.setparams((1, 2, rate, 0, "NONE", ""))
        sound.writeframes(out.tobytes())


if __name__ == "__main__":
    main()
