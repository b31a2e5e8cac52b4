//! What the play needs: a server that can be started and stopped, a proxy in front of it, a place
//! for their records.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_gateway::config::AdminConfig;
use nightwatt_gateway::{Config, Gateway, Options, Running};
use nightwatt_power::{Context, Controller, process};
use nightwatt_traffic::Arrival;

use super::records::Records;
use super::server::{PacedProcess, Shared};
use super::shown::password_file;
use super::{DemoOptions, Script};
use crate::error::Error;

const SITE: &str = "demo";

/// Everything in its place, the server awake.
pub(super) struct Stage {
    pub(super) running: Running,
    server: Shared,
    place: RecordDir,
}

/// Where records go.
enum RecordDir {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl RecordDir {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(dir) => dir.path(),
        }
    }
}

impl Stage {
    pub(super) async fn set(
        options: &DemoOptions,
        script: &Script,
        clock: &Clock,
    ) -> Result<Self, Error> {
        let place = place(options.out.as_deref())?;
        let address = free_address()?;
        let dir = place.path();
        let command = origin(options, site_file(script, dir)?, dir, address);
        let context =
            Context { clock: clock.clone(), state_dir: dir.to_owned(), site: SITE.to_owned() };
        let paced = PacedProcess::new(&command, address, &options.scenario.server, &context)?;
        let server = Shared(Arc::new(paced));
        // The day begins with a server that is awake, as it would without nightwatt.
        server.0.start().await?;
        if !server.0.listens().await {
            return Err(Error::NoServer(dir.join(format!("{SITE}.process.log"))));
        }
        let config = config(options, script, dir, address)?;
        let boxed: Box<dyn Controller> = Box::new(server.clone());
        let controllers = HashMap::from([(SITE.to_owned(), boxed)]);
        let gateway_options = Options { durable: false, controllers, ..Options::default() };
        let running = Gateway::start(config, clock.clone(), gateway_options)?;
        Ok(Self { running, server, place })
    }

    /// Stops proxy and server, and reads what they wrote.
    pub(super) async fn close(self) -> Result<Records, Error> {
        self.running.stop().await;
        self.server.0.stop().await?;
        let dir = self.place.path();
        Records::read(dir, SITE).map_err(|source| Error::File { path: dir.to_owned(), source })
    }
}

fn place(out: Option<&Path>) -> Result<RecordDir, Error> {
    let Some(out) = out else {
        let dir = tempfile::tempdir()
            .map_err(|source| Error::System { what: "make a temporary folder", source })?;
        return Ok(RecordDir::Temporary(dir));
    };
    let path = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
    let failed = |source| Error::File { path: path.clone(), source };
    std::fs::create_dir_all(&path).map_err(failed)?;
    // Records of an earlier play would be counted as this one's.
    let files = Records::files(SITE).map(|name| std::fs::remove_file(path.join(name)));
    for removed in files.into_iter().chain([std::fs::remove_dir_all(path.join("mirror"))]) {
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
    }
    Ok(RecordDir::Kept(path))
}

/// For the server, at an address that only this process uses, as far as it can know: 127.64.0.0 and the process number,
/// which has at most 22 bits. While the server sleeps, another program that wants any port there, or a connection that
/// leaves from there, could be given its port.
fn free_address() -> Result<SocketAddr, Error> {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = std::net::Ipv4Addr::new(127, 64 | (high & 0x3f), middle, low);
    let taken = std::net::TcpListener::bind((own, 0)).and_then(|it| it.local_addr());
    taken.map_err(|source| Error::System { what: "find a free port", source })
}

/// Writes what the server has, if that is known, or else which statuses the log has: the option of the origin
/// that reads it, and its file.
fn site_file(script: &Script, dir: &Path) -> Result<[String; 2], Error> {
    let (option, name, text) = match &script.site {
        Some(site) => ("--files", Records::SITE, site.text()),
        None => ("--statuses", Records::STATUSES, statuses(&script.arrivals)),
    };
    let path = dir.join(name);
    std::fs::write(&path, text).map_err(|source| Error::File { path: path.clone(), source })?;
    Ok([option.to_owned(), path.display().to_string()])
}

/// The status of each address that the log never answers with 200: the one that it has most, so that the proxy gets it
/// too when it asks by itself. 206 and 304 answer what a client had asked for, and errors of the server pass.
fn statuses(arrivals: &[Arrival]) -> String {
    let mut counts: BTreeMap<&str, BTreeMap<u16, u32>> = BTreeMap::new();
    let tells = |it: &&Arrival| {
        it.method == "GET"
            && !matches!(it.status, 206 | 304 | 499)
            && (200..500).contains(&it.status)
    };
    for arrival in arrivals.iter().filter(tells) {
        *counts.entry(&arrival.target).or_default().entry(arrival.status).or_default() += 1;
    }
    counts.retain(|target, of| !of.contains_key(&200) && !target.contains(char::is_control));
    let lines = counts.into_iter().filter_map(|(target, of)| {
        let (status, _) = of.into_iter().max_by_key(|&(_, count)| count)?;
        Some(format!("{target}\t{status}\n"))
    });
    lines.collect()
}

/// The command of the server.
fn origin(
    options: &DemoOptions,
    site: [String; 2],
    dir: &Path,
    address: SocketAddr,
) -> process::Config {
    let text = |path: PathBuf| path.display().to_string();
    let command = [
        text(options.origin_program.clone()),
        "origin".to_owned(),
        "--listen".to_owned(),
        address.to_string(),
        "--record".to_owned(),
        text(dir.join(Records::ORIGIN)),
        "--ttl".to_owned(),
        duration_text::format(options.scenario.cache.ttl),
        "--die-with-parent".to_owned(),
        std::process::id().to_string(),
    ];
    process::Config::new(command.into_iter().chain(site))
}

/// The proxy's configuration: as an operator would write it, with the scenario put in.
fn config(
    options: &DemoOptions,
    script: &Script,
    dir: &Path,
    address: SocketAddr,
) -> Result<Config, Error> {
    // The server knows no other name, so that mirrored pages are those of the clients.
    let host = script.host().map_or_else(|| address.to_string(), str::to_owned);
    let text = format!(
        r#"
listen = ["127.0.0.1:0"]
state_dir = {state_dir}
access_log = {log}
trusted_proxies = ["127.0.0.1"]

[[site]]
name = "{SITE}"
kind = "pages"
mirror.enabled = {mirror}
mirror.url = "http://{host}"
# Tells the origin, which knows only the log, what to answer.
cache.harmless_headers = ["nightwatt-replay"]
origin = "http://{address}"
probe = "http http://{address}/"
power.simulated = {{}}
"#,
        mirror = options.mirror,
        state_dir = quoted(dir),
        log = quoted(&dir.join(Records::ACCESS)),
    );
    let mut config = Config::parse(&text, "demo")?;
    config.scenario = options.scenario.clone();
    if let Some(shown) = &options.shown {
        let failed = |source| Error::File { path: dir.to_owned(), source };
        let password_file = Some(password_file(dir).map_err(failed)?);
        config.admin = Some(AdminConfig { password_file, ..AdminConfig::from(shown.address) });
    }
    Ok(config)
}

/// A path as a TOML string.
fn quoted(path: &Path) -> toml::Value {
    toml::Value::String(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_status_that_the_log_gives_it_most() {
        let arrival = |target: &str, method: &str, status| Arrival {
            at: nightwatt_energy::time::Wall::default(),
            utc_offset: 0,
            client: "192.0.2.1".to_owned(),
            method: method.to_owned(),
            target: target.to_owned(),
            status,
            bytes: 0,
            referer: None,
            agent: None,
        };
        let get = |target: &str, status| arrival(target, "GET", status);
        let log = [
            get("/", 503),
            get("/", 200),
            get("/down", 503),
            get("/moved", 404),
            get("/moved", 302),
            get("/moved", 302),
            get("/new", 404),
            get("/new", 200),
            get("/part", 206),
            arrival("/form", "POST", 302),
        ];
        assert_eq!(statuses(&log), "/moved\t302\n");
    }
}
