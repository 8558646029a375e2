//! A study's page in a real browser, by the rules that hold for all pages.

use std::path::Path;

use crate::browser::Browser;
use crate::fixture::Fixture;
use crate::stand_ins::POWER;

#[test]
fn a_page_is_readable_by_all_at_every_size() {
    let Some(browser) = Browser::or_skip() else { return };
    let fixture = Fixture::new();
    fixture.write("page.html", &POWER.page);
    let address = format!("file://{}", fixture.path("page.html").display());
    browser.open(&address, "document.querySelector('footer')");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../serve-pictures");
    browser.assert_readable("study", &pictures);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
