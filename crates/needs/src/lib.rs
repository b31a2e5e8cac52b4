//! What tests need of a machine: programs that they start, and addresses that nothing listens on.
//!
//! A test that lacks a program prints `skipped: <reason>` and passes.
//!
//! The table in `tools/need` says which Debian package has which program; a program that is not in it panics, so that
//! `make test` cannot forget to install it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

/// The script whose table this crate reads.
const TABLE: &str = include_str!("../../../tools/need");

/// A part of the name of what loads a program with its shared libraries, which is in the program itself.
const LOADER: &[u8] = b"/ld-linux";

/// The path of a program, in `PATH` or where servers are installed. Prints why the test is skipped if it is missing.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        println!("skipped: {}", why(name));
    }
    found
}

/// The same for one that runs where there is nothing else, not even the C library.
#[must_use]
pub fn static_program(name: &str) -> Option<PathBuf> {
    let path = program(name)?;
    let bytes = std::fs::read(&path).unwrap_or_default();
    if bytes.windows(LOADER.len()).any(|window| window == LOADER) {
        println!("skipped: {} needs shared libraries ({})", path.display(), source(name));
        return None;
    }
    Some(path)
}

/// Whether all of these programs are here. Prints why the test is skipped if one is missing.
#[must_use]
pub fn programs(names: &[&str]) -> bool {
    names.iter().all(|name| program(name).is_some())
}

/// Whether this program is here, for a test that works without it.
#[must_use]
pub fn has(name: &str) -> bool {
    find(name).is_some()
}

/// The program, ready to run by its whole path: an ordinary user's `PATH` does not have `/usr/sbin`. A program that is
/// missing is left to the error of starting it.
#[must_use]
pub fn command(name: &str) -> Command {
    Command::new(find(name).unwrap_or_else(|| name.into()))
}

/// `PATH` and the folders where servers are installed, for programs that start others.
#[must_use]
pub fn path() -> String {
    std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin"
}

/// An address of this machine that only this process uses: 127.64.0.0 and the process number, which has at most 22
/// bits. A port that is free there stays free until this process uses it, unless another one listens on all addresses.
#[must_use]
pub fn own_address() -> IpAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | (high & 0x3f), middle, low).into()
}

/// An address for TCP that nothing listens on, for a program that must be told where to listen, or does so later.
#[must_use]
pub fn free_address() -> SocketAddr {
    next_free(|at| TcpListener::bind(at).is_ok())
}

/// The same for UDP.
#[must_use]
pub fn free_udp_address() -> SocketAddr {
    next_free(|at| UdpSocket::bind(at).is_ok())
}

/// The next of this process's addresses that is free. Each is given once, and its port is below those that Linux gives
/// by itself (`net.ipv4.ip_local_port_range` begins at 32768), so that no socket of this process is given it either.
fn next_free(is_free: impl Fn(SocketAddr) -> bool) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(10_000);
    let next = || SocketAddr::new(own_address(), NEXT.fetch_add(1, Ordering::Relaxed));
    let free = std::iter::repeat_with(next).take(10_000).find(|at| is_free(*at));
    free.expect("each address of 127.0.0.0/8 is this machine's, and has free ports")
}

fn find(name: &str) -> Option<PathBuf> {
    let path = path();
    path.split(':').map(|folder| Path::new(folder).join(name)).find(|program| program.is_file())
}

/// Why a test that needs this program is skipped.
fn why(name: &str) -> String {
    format!("there is no `{name}` ({})", source(name))
}

/// Where a program comes from, which may be named by its whole path.
fn source(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    let package = package_of(TABLE, name);
    let package = package.unwrap_or_else(|| panic!("add `{name}` to the table in tools/need"));
    if package.starts_with("tools/") {
        format!("{package} fetches it")
    } else {
        format!("Debian: {package}")
    }
}

/// The package, or the script under `tools/`, that has what the first row with it names: `program` or
/// `program:package,package`.
fn package_of(table: &str, name: &str) -> Option<String> {
    let (_, rows) = table.split_once("<<'END'\n")?;
    let (rows, _) = rows.split_once("\nEND\n")?;
    let words =
        rows.lines().filter_map(|row| row.split('|').nth(1)).flat_map(str::split_whitespace);
    let pairs = words.map(|word| word.split_once(':').unwrap_or((word, word)));
    let (_, packages) = pairs.into_iter().find(|(program, _)| *program == name)?;
    Some(packages.replace(',', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_told_with_its_package() {
        assert_eq!(why("tshark"), "there is no `tshark` (Debian: tshark)");
        assert_eq!(why("nft"), "there is no `nft` (Debian: nftables)");
        assert_eq!(why("cc"), "there is no `cc` (Debian: gcc libc6-dev)");
        assert_eq!(why("traefik"), "there is no `traefik` (tools/traefik fetches it)");
        assert_eq!(package_of(TABLE, "no-such-program"), None);
    }

    #[test]
    #[should_panic(expected = "add `no-such-program` to the table in tools/need")]
    fn a_program_that_nobody_installs_is_an_error() {
        let _ = program("no-such-program");
    }

    #[test]
    fn a_free_address_can_be_listened_on_and_is_in_a_range_of_ours() {
        for address in [free_address(), free_udp_address()] {
            let IpAddr::V4(ip) = address.ip() else { panic!("{address}") };
            assert!(ip.octets()[0] == 127 && ip.octets()[1] >= 64, "{address}");
            assert!((10_000..32_768).contains(&address.port()), "{address}");
        }
        assert_ne!(free_address(), free_address(), "each is given once");
        assert!(TcpListener::bind(free_address()).is_ok());
        assert!(UdpSocket::bind(free_udp_address()).is_ok());
    }

    #[test]
    fn a_program_is_found_and_run() {
        assert!(program("sh").is_some_and(|path| path.is_absolute()));
        assert!(command("true").status().unwrap().success());
    }
}
