//! Runs one fuzz target under libFuzzer, which reads the command line. So the environment names the
//! target: `FUZZ_TARGET=duration`. `FUZZ_TARGET=list` prints the names of all targets.

#![no_main]

use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nightwatt_fuzz_targets::{TARGETS, Target, find};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    if name == "list" {
        for target in TARGETS {
            println!("{}", target.name);
        }
        exit(0);
    }
    find(&name).unwrap_or_else(|| {
        eprintln!("error: FUZZ_TARGET is `{name}`, and no fuzz target has that name");
        eprintln!("hint: FUZZ_TARGET=list prints the names of all targets");
        exit(2);
    })
});

fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
    },
    |input: &[u8]| {
        (TARGET.run)(input);
    }
);
