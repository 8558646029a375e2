//! The page of `corun serve` in a browser.

use corun_policy::PolicyKind;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::{Server, pictures};

const APPS: [&str; 8] =
    ["sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3", "hmmsearch", "flac"];

/// The figures of the page's own programs are there.
const READY: &str = "document.querySelector('[data-slowdown]')";

/// The slowdowns that the table shows, as it shows them.
fn slowdowns(browser: &Browser) -> Vec<String> {
    let script = "[...document.querySelectorAll('[data-slowdown]')].map((one) => one.innerText)";
    let shown = browser.evaluate(script);
    shown.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// A placement's slowdowns as the table shows them.
fn as_shown(placement: &Value) -> Vec<String> {
    let extrapolated = |place: usize| placement["programs"][place]["extrapolated"] == true;
    let values = placement["slowdown"].as_array().unwrap().iter().enumerate();
    values
        .map(|(place, value)| {
            let star = if extrapolated(place) { "*" } else { "" };
            format!("{:.3}{star}", value.as_f64().unwrap())
        })
        .collect()
}

/// The CPUs that the address says.
fn cpus(browser: &Browser) -> Vec<u64> {
    let text = browser.evaluate("(/cpu=([0-9,]+)/.exec(location.hash) ?? ['', ''])[1]");
    text.as_str().unwrap().split(',').filter_map(|cpu| cpu.parse().ok()).collect()
}

fn predicted(server: &Server, cpus: &[u64]) -> Vec<String> {
    let place: Vec<String> = cpus.iter().map(u64::to_string).collect();
    let words = ["predict", "--machine", "xeon-x5365", "--apps", &APPS.join(","), "--place"];
    as_shown(&server.command(&[&words[..], &[&place.join(",")]].concat()))
}

/// Waits until the table shows these slowdowns.
fn wait_for(browser: &Browser, wanted: &[String]) {
    let all =
        "[...document.querySelectorAll('[data-slowdown]')].map((one) => one.innerText).join()";
    browser.wait(&format!("{all} === {}", json!(wanted.join(","))));
}

#[test]
fn what_is_moved_shows_what_the_commands_say() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    browser.open(&server.link(), READY);
    browser.wait("document.querySelector('.distance').innerText.includes('proven')");
    let first = cpus(&browser);
    assert_eq!(slowdowns(&browser), predicted(&server, &first));
    assert_eq!(browser.evaluate("location.search"), "", "the token stays in the address");

    // By mouse: already while it is dragged, then when it is let go.
    let mut swapped = first.clone();
    swapped.swap(3, 6);
    let wanted = predicted(&server, &swapped);
    browser.drag("[data-program='3']", &format!("[data-cpu='{}']", first[6]), || {
        wait_for(&browser, &wanted);
        assert_eq!(cpus(&browser), first);
    });
    browser.wait(&format!("location.hash.includes('cpu={}&')", joined(&swapped)));
    wait_for(&browser, &wanted);

    // By keyboard: choose a program, move it to the next CPU.
    browser.evaluate("document.querySelector(\"[data-program='0']\").focus()");
    browser.key("Enter");
    browser.wait("document.querySelector('#panel-title').innerText.startsWith('sort')");
    browser.key("ArrowRight");
    let mut next = swapped.clone();
    next.swap(0, 1);
    wait_for(&browser, &predicted(&server, &next));
    assert_eq!(browser.evaluate("document.activeElement.dataset.program"), "0");

    // A policy, and the optimum. What each goes by stands beside its button, and a screen reader says it with the button.
    let is_shown = "document.querySelector('[data-policy=dio]').checkVisibility()";
    assert_eq!(browser.evaluate(is_shown), false);
    browser.evaluate("document.querySelector('.place-all summary').focus()");
    browser.key("Enter");
    browser.wait(is_shown);
    let lines = browser.evaluate(
        "[...document.querySelectorAll('[data-policy]')].map((one) => \
         document.getElementById(one.getAttribute('aria-describedby'))).map((one) => one.innerText)",
    );
    let lines = lines.as_array().unwrap();
    let placing = corun_policy::registry().iter().filter(|one| one.kind() == PolicyKind::Placement);
    assert_eq!(lines.len(), 3 + placing.clone().count());
    for policy in placing {
        assert!(lines.iter().any(|line| line == policy.summary), "{}: {lines:?}", policy.name);
    }
    for policy in ["dio", "optimal"] {
        let words =
            ["place", "--machine", "xeon-x5365", "--apps", &APPS.join(","), "--policy", policy];
        let placed = server.command(&words);
        browser.click(&format!("[data-policy='{policy}']"));
        wait_for(&browser, &as_shown(&placed));
        browser.wait(&format!(
            "location.hash.includes('cpu={}&') || location.hash.endsWith('cpu={0}')",
            joined(&numbers(&placed["cpu"]))
        ));
    }
    browser.wait("document.querySelector('.summary').innerText.includes('as good as the best')");

    // The address shows it again: on reload, to others, and Back goes back.
    let (shown, address) = (slowdowns(&browser), browser.evaluate("location.hash"));
    browser.call("Page.reload", json!({}));
    wait_for(&browser, &shown);
    browser.open("about:blank", "true");
    browser.open(&server.page(address.as_str().unwrap()), READY);
    wait_for(&browser, &shown);
    let other = [4, 5, 6, 7, 0, 1, 2, 3];
    browser.evaluate(&format!(
        "location.hash = location.hash.replace(/cpu=[0-9,]+/, 'cpu={}')",
        joined(&other)
    ));
    wait_for(&browser, &predicted(&server, &other));
    browser.evaluate("history.back()");
    wait_for(&browser, &shown);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What `corun predict` says of programs on these CPUs.
fn predict(server: &Server, apps: &[&str], cpus: &[u32]) -> Value {
    let place: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let words = ["predict", "--machine", "xeon-x5365", "--apps", &apps.join(","), "--place"];
    server.command(&[&words[..], &[&place.join(",")]].concat())
}

#[test]
fn a_slow_program_is_explained_in_words_whose_figures_are_predicts() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    let (apps, cpus) = (["sort", "flac", "numpy"], [0, 4, 1]);
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let llc_of = |cpu: u32| machine.cpus().iter().find(|one| one.id.0 == cpu).unwrap().llc;
    assert_eq!(llc_of(cpus[0]), llc_of(cpus[2]));
    let here = predict(&server, &apps, &cpus);
    let slowdown = |found: &Value| found["slowdown"][0].as_f64().unwrap();
    let alone = slowdown(&predict(&server, &apps[..2], &cpus[..2]));
    let free = (0..8).filter(|cpu| !cpus.contains(cpu));
    let moved: Vec<(u32, f64)> = free
        .map(|cpu| (cpu, slowdown(&predict(&server, &apps, &[cpu, cpus[1], cpus[2]]))))
        .collect();
    let least = moved.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
    assert!(slowdown(&here) > alone + 0.05 && least < slowdown(&here) - 0.05, "nothing to explain");

    browser.open(&server.link(), READY);
    browser.evaluate(
        "location.hash = '#view=what-if&machine=xeon-x5365&apps=sort,flac,numpy&cpu=0,4,1&program=0'; 0",
    );
    browser.wait("document.querySelector('.in-words')?.innerText.includes('Best free place')");
    // No line's end divides a share.
    let words = browser.text(".in-words").replace('\u{a0}', " ");
    let figures = |place: usize, name: &str| here["programs"][place][name].as_f64().unwrap();
    let llc_bytes = machine.llcs()[llc_of(0)].cache.unwrap().size_bytes as f64;
    let held = 100.0 * figures(2, "llc_occupancy_bytes") / llc_bytes;
    let waits = 100.0 * figures(0, "memory_stall_share");
    let less = 100.0 * (1.0 - alone / slowdown(&here));
    for part in [
        format!("sort takes {:.2} times as long as alone", slowdown(&here)),
        format!(
            "Its misses and others' traffic keep it waiting for memory {waits:.0} % of its time."
        ),
        format!(
            "numpy holds {held:.0} % of the same LLC: without it, sort would take {less:.0} % less time."
        ),
    ] {
        assert!(words.contains(&part), "{part}: {words}");
    }
    // The place that the words name is one of the best.
    let said = words.split("Best free place: CPU ").nth(1).unwrap();
    let cpu: u32 = said.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(said, format!("{cpu} under LLC {}, {least:.2} times.", llc_of(cpu)));
    assert!(moved.contains(&(cpu, least)), "{moved:?}");
    // Once it is there, no free place is better.
    browser.evaluate(&format!("location.hash = location.hash.replace('cpu=0,', 'cpu={cpu},'); 0"));
    browser.wait(
        "document.querySelector('.in-words')?.innerText.includes('as fast as alone') \
         || document.querySelector('.in-words')?.innerText.includes('No free CPU is better')",
    );
    who_to_change_places_with(&browser, &server);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_program_waits_behind_the_traffic_of_its_own_way_to_memory() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    browser.open(&server.link(), READY);
    // All that draws much is on the first package, whose bus is fsb0.
    let reasons = |program: u32| {
        browser.evaluate(&format!(
            "location.hash = '#view=what-if&machine=xeon-x5365\
             &apps=kernel-triad,kernel-stencil,xz&cpu=0,2,4&program={program}'; 0"
        ));
        let name = ["kernel-triad", "kernel-stencil", "xz"][program as usize];
        browser.wait(&format!(
            "document.querySelector('#panel-title')?.innerText.includes({name:?}) \
             && document.querySelector('.reasons')?.innerText.includes('memory behind')"
        ));
        browser.text(".reasons").replace('\u{a0}', " ")
    };
    let (near, far) = (reasons(0), reasons(2));
    assert!(near.contains("fsb0 is "), "{near}");
    assert!(!far.contains("fsb0 is "), "{far}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// On a full machine the words name an exchange in the place of a free CPU: of those that help the program, the one
/// after which the mean slowdown is least.
fn who_to_change_places_with(browser: &Browser, server: &Server) {
    let full: Vec<u32> = (0..8).collect();
    let program = 3;
    let exchanged = |cpu: u32| {
        let mut cpus = full.clone();
        cpus.swap(program, cpu as usize);
        let found = predict(server, &APPS, &cpus);
        (found["slowdown"][program].as_f64().unwrap(), found["antt"].as_f64().unwrap())
    };
    let (here, mean) = exchanged(program as u32);
    let others = full.iter().filter(|cpu| **cpu != program as u32);
    let mut helping: Vec<(u32, f64, f64)> = others
        .map(|&cpu| (cpu, exchanged(cpu)))
        .filter(|(_, (slowdown, _))| *slowdown < here - 0.005)
        .map(|(cpu, (slowdown, antt))| (cpu, slowdown, antt))
        .collect();
    helping.sort_by(|one, other| one.2.total_cmp(&other.2));
    let (_, _, least) = helping[0];
    browser.evaluate(&format!(
        "location.hash = '#view=what-if&machine=xeon-x5365&apps={}&cpu=0,1,2,3,4,5,6,7&program={program}'; 0",
        APPS.join(",")
    ));
    browser.wait("document.querySelector('.in-words')?.innerText.includes('Best exchange')");
    let words = browser.text(".in-words").replace('\u{a0}', " ");
    let (_, said) = words.split_once("No CPU is free. Best exchange: with ").unwrap();
    let cpu: u32 =
        said.split(" on CPU ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let (slowdown, antt) = exchanged(cpu);
    assert!((antt - least).abs() < 1e-9, "{said}: {helping:?}");
    assert!(said.starts_with(APPS[cpu as usize]), "{said}");
    assert!(
        said.contains(&format!(", {slowdown:.2} times; the mean of all changes by ")),
        "{said}"
    );
    let percent = format!("{:.1} %", (100.0 * (antt / mean - 1.0)).abs());
    assert!(said.ends_with(&format!("{percent}.")), "{percent}: {said}");
}

#[test]
fn an_answer_for_what_is_no_longer_asked_changes_nothing() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&["--apps", "sort,numpy"]);
    browser.open(&server.link(), READY);
    browser.wait("document.querySelector('.distance').innerText.includes('proven')");
    // A policy's answer that arrives when the test lets it, whatever the page thinks of it by then.
    browser.evaluate(
        "(() => { const real = window.fetch; window.fetch = async (path, asked) => { \
         if (!path.endsWith('/place') || !asked.body.includes('\"dio\"')) return real(path, asked); \
         const answer = await real(path, { ...asked, signal: undefined }); \
         await new Promise((arrive) => { window.arrive = arrive }); \
         setTimeout(() => { window.arrived = true }, 200); return answer } })()",
    );
    browser.click(".place-all summary");
    browser.click("[data-policy='dio']");
    browser.wait("window.arrive");
    assert_eq!(browser.evaluate("document.querySelector('[data-policy=dio]').disabled"), true);
    browser.evaluate("document.querySelector('#add-program').focus()");
    browser.call("Input.insertText", json!({ "text": "xz" }));
    browser.key("Enter");
    browser.wait("document.querySelectorAll('[data-slowdown]').length === 3");
    let (shown, address) = (slowdowns(&browser), browser.evaluate("location.hash"));
    assert_eq!(browser.evaluate("document.querySelector('[data-policy=dio]').disabled"), false);
    browser.evaluate("window.arrive()");
    browser.wait("window.arrived");
    assert_eq!(browser.evaluate("location.hash"), address);
    assert_eq!(slowdowns(&browser), shown);
    assert_eq!(browser.evaluate("document.querySelectorAll('.notice').length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

fn joined(cpus: &[u64]) -> String {
    cpus.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().filter_map(Value::as_u64).collect()
}

#[test]
fn ways_are_divided_and_their_boundary_moves() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&["--machine", "xeon-gold-6138", "--apps", "sort,numpy"]);
    browser.open(&server.link(), READY);
    browser.click(".cache button");
    browser.wait("location.hash.includes('ways=0x3f,0x7c0')");
    browser.wait("document.querySelector('.boundary')");
    browser.evaluate("document.querySelector('.boundary').focus()");
    browser.key("ArrowRight");
    browser.wait("location.hash.includes('ways=0x7f,0x780')");
    let with = |masks: [&str; 2]| {
        let question =
            json!({ "machine": { "name": "xeon-gold-6138" }, "apps": ["sort", "numpy"] });
        let asked = json!({ "question": question, "cpu": cpus(&browser), "mask": masks });
        as_shown(&server.asked("predict", &asked)["placement"])
    };
    let wanted = with(["0x7f", "0x780"]);
    assert_ne!(wanted, with(["0x3f", "0x7c0"]));
    wait_for(&browser, &wanted);
    // One more program keeps the division, and takes the ways of the widest part.
    browser.evaluate("document.querySelector('#add-program').focus()");
    browser.call("Input.insertText", json!({ "text": "xz" }));
    browser.key("Enter");
    browser.wait("location.hash.includes('ways=0x7f,0x780,0x7f')");
    browser.wait("document.querySelectorAll('[data-slowdown]').length === 3");
    browser.click("[aria-label='Remove xz']");
    browser.wait(
        "location.hash.includes('ways=0x7f,0x780') && !location.hash.includes('ways=0x7f,0x780,')",
    );
    wait_for(&browser, &wanted);
    // By mouse, to the strip's end: one way is left.
    browser.drag(".boundary", ".llc-head .note", || {});
    browser.wait("!location.hash.includes('ways=0x7f,0x780')");
    browser.click(".cache button");
    browser.wait("!location.hash.includes('ways=')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_is_said_where_it_was_asked() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&["--apps", "sort,xz"]);
    browser.open(&server.link(), READY);
    let says = |selector: &str, words: &str| {
        let (selector, words) = (json!(selector), json!(words));
        let all = format!("[...document.querySelectorAll({selector})]");
        browser.wait(&format!("{all}.some((one) => one.innerText.includes({words}))"));
    };
    let hash =
        |fragment: &str| browser.evaluate(&format!("location.hash = {}; 0", json!(fragment)));
    hash("#view=what-if&machine=none-such&apps=sort");
    says(".controls > div:first-child .notice", "none-such");
    hash("#view=what-if&machine=xeon-x5365&apps=srot");
    says(".programs-control .notice", "near it: sort");
    // Nobody waits for an answer that does not come.
    browser.wait("!document.querySelector('.empty[aria-busy]')");
    hash("#view=what-if&machine=xeon-x5365&apps=sort,xz&cpu=0,77");
    says(".notice", "no CPU 77");
    for damaged in ["files=%%%", "cpu=0&ways=3f", "cpu=0&ways=0x", "cpu=0&ways=0x3g"] {
        hash(&format!("#view=what-if&machine=xeon-x5365&apps=sort&{damaged}"));
        says(".notice", "address is damaged");
        hash("#view=what-if&machine=xeon-x5365&apps=sort,xz");
        browser.wait(&format!("!document.querySelector('.notice') && {READY}"));
    }
    // A broken mix, then one that is none: what was there stays.
    let paste = |kind: &str, text: &str| {
        browser.evaluate(&format!(
            "(() => {{ const set = (selector, value, type) => {{ const one = document.querySelector(selector); \
             one.value = value; one.dispatchEvent(new Event(type, {{ bubbles: true }})) }}; \
             set('dialog select', {}, 'change'); set('dialog textarea', {}, 'input') }})()",
            json!(kind),
            json!(text)
        ));
        browser.wait("!document.querySelector('dialog .main').disabled");
        browser.click("dialog .main");
    };
    browser.evaluate("[...document.querySelectorAll('.controls > button')].at(-1).click()");
    paste("mix", "version = 1\n[[app]]\nprofil = \"sort\"\n");
    says("dialog .notice", "profil");
    paste("profile", "version = 99\nname = \"a\"\n");
    says("dialog .notice", "version");
    assert!(browser.evaluate("location.hash").as_str().unwrap().contains("apps=sort,xz"));
    paste("mix", "version = 1\nmachine = \"i7-2600\"\n[[app]]\nprofile = \"flac\"\ncount = 2\n");
    browser.wait("location.hash.includes('machine=i7-2600&apps=flac,flac')");
    browser.wait("!document.querySelector('dialog').open");
    // Refused requests are the browser's to complain of, scripts' errors ours.
    let ours =
        browser.complaints().into_iter().filter(|one| !one.contains("Failed to load resource"));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<String>::new());
    browser.wait("document.querySelector('[data-policy=worst]')");
    drop(server);
    browser.evaluate("document.querySelector('[data-policy=worst]').click()");
    says(".notice", "does not answer");
}

/// What stands in names that others chose.
const HOSTILE: &str = "<img src=x onerror=document.title=1>";

#[test]
fn every_view_is_readable_by_all_at_every_size() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&[]);
    browser.open(&server.link(), READY);
    for (view, ready) in [
        (
            "what-if",
            "document.querySelector('.distance').innerText.includes('proven') && document.querySelector('.plotted')",
        ),
        ("compare", "document.querySelectorAll('.scatter .frontier-point').length > 1"),
        ("live", "document.querySelector('.live-programs tbody tr')"),
    ] {
        let address = format!("#view={view}&machine=xeon-x5365&apps={}", APPS[..6].join(","));
        browser.evaluate(&format!("location.hash = {}; 0", json!(address)));
        browser.wait(ready);
        browser.assert_readable(view, &pictures());
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn hostile_names_are_text() {
    let Some(browser) = Browser::or_skip() else { return };
    let server = Server::start(&["--apps", "sort,xz"]);
    browser.open(&server.link(), READY);
    let preset = corun_machine::preset("xeon-x5365").unwrap();
    let title = format!("title = {}", json!(format!("{HOSTILE}\u{202e}")));
    let machine: String = preset
        .to_toml()
        .lines()
        .map(|line| if line.starts_with("title = ") { title.as_str() } else { line })
        .collect::<Vec<_>>()
        .join("\n");
    let files = json!({ "machine": machine, "profiles": [] }).to_string();
    // As the page packs it.
    let packed = browser.evaluate(&format!(
        "(async () => {{ const stream = new Blob([{}]).stream().pipeThrough(new CompressionStream('deflate-raw')); \
         const bytes = new Uint8Array(await new Response(stream).arrayBuffer()); \
         return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '') }})()",
        json!(files)
    ));
    let address = format!("#view=what-if&apps=sort,xz&files={}", packed.as_str().unwrap());
    browser.evaluate(&format!("location.hash = {}; 0", json!(address)));
    browser.wait(&format!(
        "document.querySelector('#machine-title')?.innerText.includes({})",
        json!(HOSTILE)
    ));
    assert!(browser.text("#machine-title").contains('\u{fffd}'));
    browser
        .evaluate(&format!("location.hash = '#apps=' + encodeURIComponent({}); 0", json!(HOSTILE)));
    browser
        .wait("document.querySelector('.programs-control .notice')?.innerText.includes('onerror')");
    assert_eq!(browser.evaluate("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.evaluate("document.title"), "corun");
}
