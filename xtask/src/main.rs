//! Chores of the project: `cargo xtask <chore>`.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

mod code;
mod crawlers;
mod imports;
mod power_model;
mod purity;
mod ratchets;
mod sentences;
mod sources;
mod tidy;
mod tokens;

const HELP: &str = "\
usage: cargo xtask <chore>

chores:
  crawlers [--from FILE] [--check]   write the table of robots' agents again from the npm package
                                     `crawler-user-agents`; --check only compares
  graph CRATE                        print which file of a crate imports which, for `dot -Tsvg`: layers
                                     are ranks, imports from a higher layer are red, those on a cycle
                                     are thick; a summary goes to standard error
  power-model [--check]              fit the coefficients of the `model` meter again to the data in
                                     NIGHTWATT_DATA, and say how well they hold on what was left
                                     out; --check only compares
  ratchets                           print the counts that `tidy` compares with xtask/ratchets.toml
  sentences [FOLDER]                 print how long the sentences of the documentation are, here or in
                                     another checkout
  tidy                               check the house rules that a machine can check
";

/// This folder. Cargo says so when it runs us; what it said when we were built may be another checkout, whose
/// `CARGO_TARGET_DIR` is the same.
fn manifest_dir() -> PathBuf {
    env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["crawlers", ref rest @ ..] => crawlers::run(rest),
        ["power-model", ref rest @ ..] => power_model::run(rest),
        ["graph", name] => tidy::graph(name),
        ["ratchets"] => tidy::ratchets(),
        ["sentences"] => sentences::run(&manifest_dir().join("..")),
        ["sentences", folder] => sentences::run(std::path::Path::new(folder)),
        ["tidy"] => tidy::run(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [chore, ..] => Err(format!("no chore `{chore}`; `cargo xtask help` lists them").into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
