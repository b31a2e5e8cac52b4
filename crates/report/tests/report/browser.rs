//! What chromium makes of a page, where there is one; see `canvas` for machines without.
#![allow(clippy::disallowed_methods, reason = "a test may write the page that a browser reads")]

use std::path::Path;
use std::process::{Command, Output};

use nightwatt_report::Document;

use crate::sample;

/// What the page has become after its scripts ran, and what the console said. `None`: no browser.
fn opened(document: &Document) -> Option<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, document.to_html()).unwrap();
    let output = chromium(folder.path(), &file)?;
    let console = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{console}");
    Some((String::from_utf8(output.stdout).unwrap(), console))
}

fn chromium(folder: &Path, file: &Path) -> Option<Output> {
    let command = |name| {
        Command::new(name)
            // As root there is no sandbox; the page is our own.
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
            ])
            .args(["--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg(format!("file://{}", file.display()))
            .output()
    };
    let found = ["chromium", "chromium-browser", "google-chrome"];
    let output = found.iter().find_map(|name| command(*name).ok());
    if output.is_none() {
        let _ = nightwatt_needs::program("chromium");
    }
    output
}

#[test]
fn a_browser_draws_all_charts_and_has_nothing_to_complain_about() {
    let Some((dom, console)) = opened(&sample::document()) else { return };
    assert!(dom.contains(&format!("data-ready=\"{}\"", sample::CHARTS)), "{console}");
    // Chart.js sets the size of what it draws on; the tables below are closed then.
    assert_eq!(dom.matches("class=\"chart drawn\"").count(), sample::CHARTS);
    assert!(!dom.contains("<details class=\"data\" open"));
    assert!(dom.contains("<button type=\"button\" title=\"Sort\">policy</button>"));
    // Errors of scripts, and whatever the Content-Security-Policy kept from happening.
    assert!(!console.contains("CONSOLE"), "{console}");
}

#[test]
fn hostile_text_runs_nothing_in_a_browser() {
    let attack = "</script><script>document.body.dataset.pwned=1</script>\
                  <img src=x onerror=\"document.body.dataset.pwned=1\">";
    let mut document = sample::document();
    attack.clone_into(&mut document.title);
    document.sections[0].title = attack.to_owned();
    let Some((dom, console)) = opened(&document) else { return };
    assert!(dom.contains(&format!("data-ready=\"{}\"", sample::CHARTS)), "{console}");
    assert!(!dom.contains("data-pwned") && !console.contains("CONSOLE"), "{console}");
}
