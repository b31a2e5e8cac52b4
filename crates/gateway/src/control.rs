//! The local socket of `nightwatt status|wake|sleep|stay-awake|purge`: one JSON object a line in, one out.
//!
//! Whoever may open the socket file may give orders: its mode is 0600, so that is the user the
//! gateway runs as, and root.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_httpcache::Purge;
use nightwatt_httpcache::purge::Place;
use nightwatt_model::policy::lifecycle::Phase;
use nightwatt_model::policy::manager;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::authority::Authority;
use crate::disk_cache::Forgotten;
use crate::error::StartError;
use crate::gateway::{Gateway, file};
use crate::site::Site;
use crate::status::Status;

/// A line longer than this is no order.
pub const LONGEST: u64 = 64 << 10;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "order", deny_unknown_fields)]
pub enum Order {
    /// How is everything?
    Status,
    /// Wake a server.
    Wake {
        /// Name of the site; may be left out if there is only one.
        site: Option<String>,
    },
    /// Put a server to sleep as soon as nothing is under way.
    Sleep {
        /// As for `wake`.
        site: Option<String>,
    },
    /// Keep a server awake.
    StayAwake {
        /// As for `wake`.
        site: Option<String>,
        /// For so many seconds.
        seconds: u64,
    },
    /// Forget stored answers.
    Purge {
        /// Whose; may be left out if the places say it, or if there is only one site.
        site: Option<String>,
        /// URLs, or paths that are meant on every host.
        places: Vec<String>,
        /// Everything whose URL begins like one of the places.
        prefix: bool,
        /// Everything, instead of places; without `site` everything of all sites.
        all: bool,
    },
}

/// What is answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To `status`.
    Status(Box<Status>),
    /// The order was taken; the server's state follows it by itself.
    Done,
    /// So many stored resources went.
    Purged(usize),
    /// It was not.
    Error(String),
}

/// Why a gateway could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error("cannot reach a running gateway at {path}: {source}")]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It broke off.
    #[error("the gateway did not answer: {0}")]
    Broken(#[from] std::io::Error),
    /// It said something else.
    #[error("the gateway answered something else than expected ({0}): is it of another version?")]
    Misunderstood(#[from] serde_json::Error),
}

/// Asks a running gateway.
pub async fn ask(path: &Path, order: &Order) -> Result<Reply, ControlError> {
    let unreachable = |source| ControlError::Unreachable { path: path.to_owned(), source };
    let mut stream = UnixStream::connect(path).await.map_err(unreachable)?;
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await?;
    Ok(serde_json::from_str(&answer)?)
}

/// The socket, which nobody listens to yet. While it is there, no other gateway starts with it. Its
/// file goes with it.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl Socket {
    /// Makes the socket, in the place of one that a killed gateway left behind.
    pub(crate) fn bind(path: PathBuf) -> Result<Self, StartError> {
        match std::os::unix::net::UnixStream::connect(&path) {
            Ok(_) => return Err(StartError::Taken { path }),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                // Anything else that is there is not ours to remove.
                if std::fs::symlink_metadata(&path).is_ok_and(|it| it.file_type().is_socket()) {
                    std::fs::remove_file(&path).map_err(file(&path))?;
                }
            }
            Err(error) => return Err(file(&path)(error)),
        }
        let listener = UnixListener::bind(&path).map_err(file(&path))?;
        let socket = Self { path, listener };
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&socket.path, private).map_err(file(&socket.path))?;
        Ok(socket)
    }

    /// Takes orders until the task is aborted.
    pub(crate) fn serve(self, gateway: Arc<Gateway>) -> JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let gateway = Arc::clone(&gateway);
                        tokio::spawn(async move { converse(&gateway, stream).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept an order");
                        gateway.clock.sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn converse(gateway: &Gateway, stream: UnixStream) {
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(reading.take(LONGEST)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let reply = match serde_json::from_str(&line) {
            Ok(order) => obey(gateway, &order).await,
            Err(error) => Reply::Error(format!("this is no order: {error}")),
        };
        let Ok(mut text) = serde_json::to_vec(&reply) else { return };
        text.push(b'\n');
        if writing.write_all(&text).await.is_err() {
            return;
        }
        lines.get_mut().get_mut().set_limit(LONGEST);
    }
}

/// Does what is ordered.
pub(crate) async fn obey(gateway: &Gateway, order: &Order) -> Reply {
    let (site, order) = match order {
        Order::Status => return Reply::Status(Box::new(gateway.status())),
        Order::Purge { site, places, prefix, all } => {
            let purged = if *all {
                purge_all(gateway, site.as_deref())
            } else {
                purge(gateway, site.as_deref(), places, *prefix)
            };
            return match purged {
                Ok(purged) => purged.reply().await,
                Err(why) => Reply::Error(why),
            };
        }
        Order::Wake { site } => (site, manager::Order::Wake),
        Order::Sleep { site } => (site, manager::Order::Sleep),
        Order::StayAwake { site, seconds } => {
            (site, manager::Order::StayAwake(Duration::from_secs(*seconds)))
        }
    };
    if gateway.observe {
        return Reply::Error("in shadow mode (--observe) servers are left alone".to_owned());
    }
    let mut pools = gateway.sites.iter().filter_map(|it| Some((it, it.pool.as_ref()?)));
    let member = pools.find_map(|(it, pool)| Some((it, pool, pool.called(site.as_deref()?)?)));
    if let Some((whole, pool, server)) = member {
        if order != manager::Order::Sleep && whole.supervisor.phase_now() != Phase::Awake {
            whole.supervisor.order(manager::Order::Wake);
        }
        pool.order(server, order);
        return Reply::Done;
    }
    let machine = gateway.machines.iter().find(|machine| Some(&*machine.name) == site.as_deref());
    let server = match machine {
        Some(machine) => Ok(&machine.supervisor),
        None => named(gateway, site.as_deref()).map(|site| &site.supervisor),
    };
    server.map_or_else(Reply::Error, |server| {
        server.order(order);
        Reply::Done
    })
}

/// The site of that name, or the only one.
fn named<'a>(gateway: &'a Gateway, name: Option<&str>) -> Result<&'a Site, String> {
    let names = || gateway.sites.iter().map(|site| &*site.name).collect::<Vec<_>>().join(", ");
    match (name, gateway.sites.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("say which site: {}", names())),
        (Some(name), sites) => {
            let found = sites.iter().find(|site| *site.name == *name);
            found.ok_or_else(|| format!("there is no such site; there are: {}", names()))
        }
    }
}

/// What was purged, from memory at once.
#[derive(Default)]
struct Purged {
    resources: usize,
    from_disk: Vec<Forgotten>,
}

impl Purged {
    fn add(&mut self, (resources, forgotten): (usize, Forgotten)) {
        self.resources += resources;
        self.from_disk.push(forgotten);
    }

    /// When the disk knows too: what is said to be purged never comes back.
    async fn reply(self) -> Reply {
        for forgotten in self.from_disk {
            if let Err(why) = forgotten.settled().await {
                return Reply::Error(format!(
                    "it is forgotten, but the disk cache does not know that yet ({why}): after a power \
                     cut it might come back; the log tells more"
                ));
            }
        }
        Reply::Purged(self.resources)
    }
}

fn purge_all(gateway: &Gateway, name: Option<&str>) -> Result<Purged, String> {
    let mut purged = Purged::default();
    if name.is_some() {
        purged.add(named(gateway, name)?.store.purge(&Purge::All));
        return Ok(purged);
    }
    for site in &gateway.sites {
        purged.add(site.store.purge(&Purge::All));
    }
    // The disk may know sites that the configuration does not.
    purged.from_disk.extend(gateway.disk.as_ref().map(|disk| disk.purge_all()));
    Ok(purged)
}

/// Nothing is purged if one of the places cannot be understood.
fn purge(
    gateway: &Gateway,
    name: Option<&str>,
    places: &[String],
    prefix: bool,
) -> Result<Purged, String> {
    if places.is_empty() {
        return Err("say what is to be forgotten: URLs, paths, or all".to_owned());
    }
    let mut purges = Vec::new();
    for text in places {
        let place = Place::parse(text).map_err(|error| error.to_string())?;
        let site = match place.host().and_then(Authority::parse).filter(|_| name.is_none()) {
            Some(authority) => {
                let index = gateway.site_of(authority.host);
                let index = index.ok_or_else(|| format!("no site serves the host of `{text}`"))?;
                &gateway.sites[index]
            }
            None => named(gateway, name)?,
        };
        let purge = if prefix { Purge::Prefix(place) } else { Purge::Exact(place) };
        purges.push((site, purge.under(&site.rules.key)));
    }
    let mut done = Purged::default();
    for (site, purge) in &purges {
        done.add(site.store.purge(purge));
    }
    Ok(done)
}
