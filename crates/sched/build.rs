//! Builds the kernel's half, `bpf/sched.bpf.c`, as an object that is part of the program.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys names where its headers are");
    let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("no scheduler for {other:?}: build without this package"),
    };
    let status = Command::new(&clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror"])
        .arg(format!("-D__TARGET_ARCH_{architecture}"))
        .arg(format!("-I{headers}"))
        .args(["-c", "bpf/sched.bpf.c", "-o"])
        .arg(out.join("sched.bpf.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile bpf/sched.bpf.c ({status})"),
        Err(error) => panic!(
            "{clang} cannot be run ({error}): install it (Debian: apt install clang), or name one in CLANG"
        ),
    }
}
