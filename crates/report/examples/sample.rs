//! A report with one of everything: `cargo run -p nightwatt-report --example sample > sample.html`.

#[path = "../tests/report/sample.rs"]
mod sample;

fn main() {
    let document = sample::document();
    println!("{}", document.to_html());
    eprintln!("{} charts, {} tables", sample::CHARTS, document.tables().len());
}
