#!/usr/bin/env python3
"""Takes a picture of a page in a browser: `scripts/page-picture.py WIDTH HEIGHT SECONDS OUT.png URL [SCRIPT]`.

The page is shown for so many seconds before the picture is taken; then the script runs in it, which may click something,
and a second passes. PAGE_PICTURE_THEME=dark takes the dark theme. A width below 500 is that of a phone. Fails where the
page is wider than the window, since README's pictures are also to show that it is not. Needs chromium.
"""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path


class Browser:
    """Chromium, spoken to over two pipes: messages of its DevTools protocol, each ended by a byte 0."""

    def __init__(self) -> None:
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to descriptor 4.
        pipes = "exec chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe 2>/dev/null"
        line = f"exec 3<&{to_browser} 4>&{from_browser}; {pipes}"
        self.process = subprocess.Popen(["bash", "-c", line], pass_fds=(to_browser, from_browser))
        os.close(to_browser)
        os.close(from_browser)
        self.last = 0
        self.rest = b""

    def ask(self, method: str, session: str | None = None, **parameters) -> dict:
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                more = os.read(self.read, 1 << 16)
                if not more:
                    raise EOFError("the browser ended")
                self.rest += more
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]


def main() -> int:
    width, height, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    out, url = Path(sys.argv[4]), sys.argv[5]
    script = sys.argv[6] if len(sys.argv) > 6 else None
    theme = os.environ.get("PAGE_PICTURE_THEME", "light")
    browser = Browser()
    try:
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        page = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.ask("Emulation.setDeviceMetricsOverride", page, **size)
        # What slides would be caught half way.
        still = [{"name": "prefers-reduced-motion", "value": "reduce"}, {"name": "prefers-color-scheme", "value": theme}]
        browser.ask("Emulation.setEmulatedMedia", page, features=still)
        browser.ask("Page.navigate", page, url=url)
        time.sleep(seconds)
        if script is not None:
            done = browser.ask("Runtime.evaluate", page, expression=script, awaitPromise=True)
            if "exceptionDetails" in done:
                raise RuntimeError(done["exceptionDetails"]["exception"]["description"])
            time.sleep(1)
        asked = browser.ask("Runtime.evaluate", page, expression="document.documentElement.scrollWidth")
        picture = browser.ask("Page.captureScreenshot", page, format="png")["data"]
        out.write_bytes(base64.b64decode(picture))
        browser.ask("Browser.close")
    except BaseException:
        browser.process.terminate()
        raise
    finally:
        browser.process.wait(timeout=20)
    if (found := asked["result"]["value"]) > width:
        print(f"{url}: the page is {found} pixels wide, the window {width}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
