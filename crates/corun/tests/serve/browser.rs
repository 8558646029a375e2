//! A real browser, told what to do over the Chrome DevTools Protocol.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser without a window, with one page.
pub(crate) struct Browser {
    process: Child,
    _profile: TempDir,
    socket: RefCell<WebSocket<TcpStream>>,
    next: Cell<u64>,
    /// What the page complained of.
    complaints: RefCell<Vec<String>>,
}

impl Browser {
    /// None where there is no Chromium, which is said.
    pub(crate) fn or_skip() -> Option<Self> {
        let browser = Self::start();
        if browser.is_none() {
            println!("skipped: chromium is not installed: scripts/setup.sh test installs it");
        }
        browser
    }

    fn start() -> Option<Self> {
        let profile = tempfile::tempdir().unwrap();
        let process = Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
            ])
            .args(["--disable-sync", "--disable-extensions", "--hide-scrollbars"])
            .args(["--remote-debugging-port=0", "--window-size=1280,900"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            // It leaves files there when it is killed.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let port = port(profile.path());
        let socket = connect(port);
        let browser = Self {
            process,
            _profile: profile,
            socket: RefCell::new(socket),
            next: Cell::new(1),
            complaints: RefCell::default(),
        };
        for domain in ["Page", "Runtime", "Log", "DOM"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Asks the browser for something.
    pub(crate) fn call(&self, method: &str, parameters: Value) -> Value {
        let id = self.next.get();
        self.next.set(id + 1);
        let text = json!({ "id": id, "method": method, "params": parameters }).to_string();
        self.socket.borrow_mut().send(Message::text(text)).unwrap();
        loop {
            let event = self.read();
            if event["id"] == id {
                assert!(event["error"].is_null(), "{method}: {}", event["error"]);
                return event["result"].clone();
            }
        }
    }

    fn read(&self) -> Value {
        let message = loop {
            match self.socket.borrow_mut().read() {
                // Who stops this process for a while and lets it go on interrupts it.
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.expect("the browser says nothing"),
            }
        };
        let event: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        let said = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(said["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled")
                if said["type"] == "error" || said["type"] == "warning" =>
            {
                Some(said["args"].to_string())
            }
            Some("Log.entryAdded") if said["entry"]["level"] == "error" => {
                Some(said["entry"].to_string())
            }
            _ => None,
        };
        self.complaints.borrow_mut().extend(complaint);
        event
    }

    /// What the page complained of since it was asked last.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.evaluate("0");
        std::mem::take(&mut self.complaints.borrow_mut())
    }

    /// Goes to an address and waits until `ready` holds there.
    pub(crate) fn open(&self, address: &str, ready: &str) {
        self.call("Page.navigate", json!({ "url": address }));
        self.wait(ready);
    }

    /// The value of a script in the page.
    pub(crate) fn evaluate(&self, script: &str) -> Value {
        let asked = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let found = self.call("Runtime.evaluate", asked);
        let thrown = &found["exceptionDetails"];
        assert!(thrown.is_null(), "{script}: {thrown}");
        found["result"]["value"].clone()
    }

    /// Waits until a condition holds in the page.
    pub(crate) fn wait(&self, condition: &str) {
        let start = Instant::now();
        loop {
            let asked = json!({ "expression": format!("!!({condition})"), "returnByValue": true });
            // While the page loads, a script may have nowhere to run.
            let found = self.call("Runtime.evaluate", asked);
            if found["result"]["value"] == true {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "never: {condition}; {:?}; {}",
                self.complaints(),
                self.text("body")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Chooses a file in a field as a person does.
    pub(crate) fn choose(&self, selector: &str, path: &str) {
        let root = self.call("DOM.getDocument", json!({}));
        let asked = json!({ "nodeId": root["root"]["nodeId"], "selector": selector });
        let node = self.call("DOM.querySelector", asked);
        let files = json!({ "nodeId": node["nodeId"], "files": [path] });
        self.call("DOM.setFileInputFiles", files);
    }

    /// The text that an element shows.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = format!("document.querySelector({})?.innerText ?? ''", json!(selector));
        self.evaluate(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Clicks an element as soon as its middle can be seen. Where it is and the click are one step: an answer that
    /// arrives in between may move it.
    pub(crate) fn click(&self, selector: &str) {
        self.wait(&format!(
            "(() => {{ const one = document.querySelector({}); \
             if (!one) return false; \
             one.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const box = one.getBoundingClientRect(); \
             const seen = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2); \
             if (!one.contains(seen)) return false; \
             one.focus(); one.click(); return true }})()",
            json!(selector)
        ));
    }

    /// Drags from the middle of one element to that of another in steps; `over` is called before the mouse is let
    /// go.
    pub(crate) fn drag(&self, from: &str, to: &str, over: impl FnOnce()) {
        let (x, y) = self.middle(from);
        self.mouse("mouseMoved", x, y, 0);
        self.mouse("mousePressed", x, y, 1);
        let (right, down) = self.place(to);
        for step in 1..=4 {
            let part = f64::from(step) / 4.0;
            self.mouse("mouseMoved", x + part * (right - x), y + part * (down - y), 1);
        }
        over();
        self.mouse("mouseReleased", right, down, 1);
    }

    /// A key's press, on whatever has the focus.
    pub(crate) fn key(&self, key: &str) {
        let code = match key {
            "Enter" => {
                json!({ "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r" })
            }
            _ => json!({ "key": key, "code": key }),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = code.clone();
            event["type"] = json!(kind);
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    fn mouse(&self, kind: &str, x: f64, y: f64, buttons: u32) {
        let button = if kind == "mouseMoved" && buttons == 0 { "none" } else { "left" };
        let clicks = u32::from(kind != "mouseMoved");
        self.call(
            "Input.dispatchMouseEvent",
            json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": clicks }),
        );
    }

    /// The middle of an element, which is scrolled into view first.
    fn middle(&self, selector: &str) -> (f64, f64) {
        let script = format!(
            "document.querySelector({}).scrollIntoView({{block: 'center', behavior: 'instant'}})",
            json!(selector)
        );
        self.evaluate(&script);
        self.place(selector)
    }

    fn place(&self, selector: &str) -> (f64, f64) {
        let script = format!(
            "(() => {{ const box = document.querySelector({}).getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2] }})()",
            json!(selector)
        );
        let found = self.evaluate(&script);
        (found[0].as_f64().unwrap(), found[1].as_f64().unwrap())
    }

    /// The size of the window and the theme that the user prefers; nothing slides, so that pictures are at rest.
    pub(crate) fn look(&self, width: u32, height: u32, theme: &str) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!([
            { "name": "prefers-color-scheme", "value": theme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// What keeps people from using the page, by the rules of axe.
    pub(crate) fn violations(&self) -> Value {
        let axe = include_str!("axe/axe.min.js");
        self.evaluate(&format!(
            "(async () => {{ if (!window.axe) {{ {axe} }} const found = await axe.run(document); \
             return found.violations.map((one) => `${{one.id}}: ${{one.nodes.map((node) => \
             `${{node.html}} ${{node.failureSummary}}`).slice(0, 3).join(' | ')}}`) }})()"
        ))
    }

    /// Texts that are drawn with letters of less than 11 pixels, each with that height. In a drawing that is wider than the
    /// page, letters shrink with it.
    pub(crate) fn small_letters(&self) -> Value {
        self.evaluate(
            "(() => { \
             const own = (one) => [...one.childNodes].some((each) => each.nodeType === 3 && each.data.trim()); \
             const high = (one) => { \
               const style = parseFloat(getComputedStyle(one).fontSize); \
               const by = one instanceof SVGTextContentElement ? one.getScreenCTM() : null; \
               return by ? style * Math.hypot(by.c, by.d) : style }; \
             return [...document.querySelectorAll('body *')] \
               .filter((one) => own(one) && one.getClientRects().length > 0 && high(one) < 10.95) \
               .map((one) => `${one.textContent}: ${high(one).toFixed(1)}`) })()",
        )
    }

    /// Is the page as wide as the window, readable by all, and are its letters large enough? A picture of each size and
    /// theme stays in the folder.
    pub(crate) fn assert_readable(&self, name: &str, pictures: &Path) {
        for (width, height) in [(1280, 900), (360, 780)] {
            for theme in ["light", "dark"] {
                let name = format!("{name}-{width}-{theme}");
                self.look(width, height, theme);
                self.picture(&pictures.join(format!("{name}.png")), 5000.0);
                let wide = self.evaluate("document.documentElement.scrollWidth");
                assert!(wide.as_u64().unwrap() <= u64::from(width), "{name} is {wide} wide");
                // What is folded away counts too.
                let fold = |open: bool| {
                    let all = "document.querySelectorAll('details')";
                    self.evaluate(&format!("{all}.forEach((one) => {{ one.open = {open} }})"));
                };
                fold(true);
                assert_eq!(self.small_letters(), json!([]), "{name}");
                assert_eq!(self.violations(), json!([]), "{name}");
                fold(false);
            }
        }
    }

    /// A picture of the whole page, up to so many pixels high.
    pub(crate) fn picture(&self, path: &Path, most_high: f64) {
        let found = self.call("Page.getLayoutMetrics", json!({}));
        let size = &found["cssContentSize"];
        let high = size["height"].as_f64().unwrap().min(most_high);
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": high, "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let found = self.call("Page.captureScreenshot", asked);
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(found["data"].as_str().unwrap())
            .unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closed, it ends its processes and writes no more to the profile. A browser that a test failed with may not hear.
        let close = json!({ "id": self.next.get(), "method": "Browser.close" }).to_string();
        let asked = self.socket.get_mut().send(Message::text(close));
        let since = Instant::now();
        while asked.is_ok() && since.elapsed() < Duration::from_secs(10) {
            if self.process.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where the browser listens.
fn port(profile: &Path) -> u16 {
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(profile.join("DevToolsActivePort")).unwrap_or_default();
        if let Some(port) = text.lines().next().and_then(|line| line.parse().ok()) {
            return port;
        }
        assert!(start.elapsed() < PATIENCE, "the browser does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The socket of its page.
fn connect(port: u16) -> WebSocket<TcpStream> {
    let start = Instant::now();
    loop {
        let found = pages(port).as_array().and_then(|all| {
            let page = all.iter().find(|one| one["type"] == "page")?;
            Some(page["webSocketDebuggerUrl"].as_str()?.to_owned())
        });
        if let Some(address) = found {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (socket, _) = tungstenite::client(address.as_str(), stream).unwrap();
            return socket;
        }
        assert!(start.elapsed() < PATIENCE, "the browser has no page");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pages(port: u16) -> Value {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let answer = crate::http::get(address, "/json", &[]);
    serde_json::from_str(&answer.body).unwrap_or_default()
}
