//! The local socket of `nightwatt status|wake|sleep|stay-awake|purge|reload`, and of a process that takes over: one JSON object a line in, one out.
//!
//! A user that may open the socket file may give orders: its mode is 0600, so that is the user the
//! gateway runs as, and root.

mod purging;

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::purging::{purge, purge_all};
use crate::clients::{self, ClientStatus, Forgiven};
use crate::disk_cache::Heir;
use crate::error::StartError;
use crate::gateway::Gateway;
use crate::hand_over::Taker;
use crate::live::Live;
use crate::mirror::Mirror;
use crate::mirror::orders::{self, MirrorOrder, MirrorReply};
use crate::site::Site;
use crate::status::{Reloaded, Status};
use crate::supervisor::{Supervisor, end};

/// How an error begins that is about a name which no site has.
const UNKNOWN_SITE: &str = "there is no site `";
/// How an error begins that asks for the name of a site.
const WHICH_SITE: &str = "there are several sites: ";

/// Whether an error is about the name of a site, and not about what was ordered.
pub fn is_about_name(error: &str) -> bool {
    [UNKNOWN_SITE, WHICH_SITE].iter().any(|begin| error.starts_with(begin))
}

/// A line longer than this is no order.
pub const LONGEST: u64 = 64 << 10;

/// The longest time for which one order keeps a server awake.
pub const LONGEST_AWAKE: Duration = Duration::from_hours(7 * 24);

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
    /// Keep a server awake for a program, which renews this before the time is over.
    Hold {
        /// As for `wake`.
        site: Option<String>,
        /// Which program: a number that it has drawn at random.
        holder: u64,
        /// For so many seconds.
        seconds: u64,
    },
    /// The program no longer needs it.
    Release {
        /// As for `wake`.
        site: Option<String>,
        /// As for `hold`.
        holder: u64,
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
    /// What is a client, and why?
    Why {
        /// Its address.
        client: String,
        /// Its agent; default: all that were seen from there.
        agent: Option<String>,
        /// Name of the site; default: all.
        site: Option<String>,
    },
    /// Forget what a client did wrong.
    Forgive {
        /// Its address.
        client: String,
        /// Its agent; default: all that were seen from there.
        agent: Option<String>,
        /// Name of the site; default: all.
        site: Option<String>,
    },
    /// An order about mirrors.
    Mirror {
        /// Name of the site; default: all that have one.
        site: Option<String>,
        /// The order.
        ask: MirrorOrder,
    },
    /// Read the configuration again.
    Reload,
    /// Let this process take over: from here on the connection speaks of that (see `hand_over`).
    HandOver,
    /// Keep a server for a client that is served by the process before this one, until the connection ends.
    Borrow {
        /// Name of the site, of the server of a pool, or of the machine.
        server: String,
    },
}

/// What is asked of the process as a whole. The code that runs the gateway does it.
#[derive(Debug)]
pub enum Demand {
    /// Read the configuration again, and say how that went.
    Reload(oneshot::Sender<Result<Reloaded, String>>),
    /// Containers came or went: apply the sites that their labels describe.
    Containers,
    /// Let that process take over.
    HandOver(Taker),
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
    /// To `why`: what each site knows.
    Why(Vec<ClientStatus>),
    /// To `forgive`.
    Forgiven(Forgiven),
    /// To an order about mirrors.
    Mirror(Box<MirrorReply>),
    /// The configuration was read again.
    Reloaded(Reloaded),
    /// It was not.
    Error(String),
}

/// Why a gateway could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No process listens.
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

/// The process that has taken over, by its control socket: it has the disk cache from then on.
#[derive(Debug)]
pub(crate) struct Taken(PathBuf);

impl Taken {
    /// The one that answers at this socket.
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl Heir for Taken {
    fn forget(
        &self,
        site: String,
        places: Vec<String>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async move {
            let order = Order::Purge { site: Some(site), places, prefix: false, all: false };
            match ask(&self.0, &order).await {
                Ok(Reply::Error(why)) => Err(why),
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

/// The file of a socket. It goes with this, unless it belongs to another process by then.
#[derive(Debug)]
struct OwnFile(PathBuf);

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The socket, on which no process accepts yet. While it is there, no other gateway starts with it.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    file: Option<OwnFile>,
    listener: std::os::unix::net::UnixListener,
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
                    std::fs::remove_file(&path).map_err(StartError::file(&path))?;
                }
            }
            Err(error) => return Err(StartError::file(&path)(error)),
        }
        let listener =
            std::os::unix::net::UnixListener::bind(&path).map_err(StartError::file(&path))?;
        let socket = Self { file: Some(OwnFile(path.clone())), path, listener };
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&socket.path, private).map_err(StartError::file(&socket.path))?;
        Ok(socket)
    }

    /// The socket of another process, which has it until this one serves.
    pub(crate) fn adopt(path: PathBuf, listener: std::os::unix::net::UnixListener) -> Self {
        Self { path, file: None, listener }
    }

    /// Takes orders.
    pub(crate) fn serve(
        self,
        live: Live<Gateway>,
        demands: mpsc::Sender<Demand>,
    ) -> Result<Post, StartError> {
        let Self { path, file: own, listener } = self;
        let own = own.or_else(|| Some(OwnFile(path.clone())));
        let mut post = Post { file: own, path, listener, live, demands, task: None };
        post.go_on().map_err(StartError::file(&post.path))?;
        Ok(post)
    }
}

/// A control socket that is being served. Its file goes with it.
pub(crate) struct Post {
    file: Option<OwnFile>,
    path: PathBuf,
    listener: std::os::unix::net::UnixListener,
    live: Live<Gateway>,
    demands: mpsc::Sender<Demand>,
    task: Option<JoinHandle<()>>,
}

impl Post {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket, for another process.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Leaves orders in the kernel from now on.
    pub(crate) async fn pause(&mut self) {
        if let Some(task) = self.task.take() {
            end(task).await;
        }
    }

    /// Takes orders again.
    pub(crate) fn go_on(&mut self) -> std::io::Result<()> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        self.task = Some(tokio::spawn(accept(listener, self.live.clone(), self.demands.clone())));
        Ok(())
    }

    /// The file is another process's.
    pub(crate) fn disown(&mut self) {
        // What is forgotten is a path.
        std::mem::forget(self.file.take());
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) async fn end(mut self) {
        self.pause().await;
    }
}

async fn accept(listener: UnixListener, live: Live<Gateway>, demands: mpsc::Sender<Demand>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (live, demands) = (live.clone(), demands.clone());
                tokio::spawn(async move { converse(live, demands, stream).await });
            }
            Err(error) => {
                live.clone().now().serving.cannot_accept("control", error).await;
            }
        }
    }
}

async fn converse(mut live: Live<Gateway>, demands: mpsc::Sender<Demand>, stream: UnixStream) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut asked = String::new();
        let read = (&mut stream).take(LONGEST).read_line(&mut asked).await;
        if read.is_err() || !asked.ends_with('\n') {
            return;
        }
        let gateway = live.now();
        let reply = match serde_json::from_str(&asked) {
            Ok(Order::HandOver) => {
                let taker = Taker::new(stream.into_inner());
                let _ = demands.send(Demand::HandOver(taker)).await;
                return;
            }
            Ok(Order::Borrow { server }) => return lend(&gateway, &server, stream).await,
            Ok(Order::Reload) => reload(&demands).await,
            Ok(order) => obey(&gateway, &order).await,
            Err(error) => Reply::Error(format!("this is no order: {error}")),
        };
        drop(gateway);
        if send(&mut stream, &reply).await.is_err() {
            return;
        }
    }
}

async fn send(stream: &mut BufReader<UnixStream>, reply: &Reply) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(reply)?;
    text.push(b'\n');
    stream.get_mut().write_all(&text).await
}

async fn reload(demands: &mpsc::Sender<Demand>) -> Reply {
    let (answer, answered) = oneshot::channel();
    let _ = demands.send(Demand::Reload(answer)).await;
    match answered.await {
        Ok(Ok(done)) => Reply::Reloaded(done),
        Ok(Err(why)) => Reply::Error(why),
        Err(_) => Reply::Error("this gateway does not read its configuration again".to_owned()),
    }
}

/// An exchange that another process has with a server, for as long as the connection to it lasts.
struct Lent(Arc<Supervisor>);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn lend(gateway: &Gateway, name: &str, mut stream: BufReader<UnixStream>) {
    let Some(supervisor) = gateway.supervisors().find(|it| it.name() == name) else {
        let _ = send(&mut stream, &Reply::Error(format!("there is no `{name}` here"))).await;
        return;
    };
    supervisor.begin();
    let _lent = Lent(Arc::clone(supervisor));
    if send(&mut stream, &Reply::Done).await.is_ok() {
        // It says nothing more: this is its end.
        let _ = stream.read_u8().await;
    }
}

/// Does what is ordered.
pub(crate) async fn obey(gateway: &Gateway, order: &Order) -> Reply {
    let (site, order) = match order {
        Order::Reload | Order::HandOver | Order::Borrow { .. } => {
            return Reply::Error("this is asked for on the control socket only".to_owned());
        }
        Order::Status => return Reply::Status(Box::new(gateway.status())),
        Order::Why { client, agent, site } => {
            let known = look_up(gateway, client, site.as_deref());
            return known.map_or_else(Reply::Error, |(sites, client)| {
                Reply::Why(clients::status(sites.iter(), client, agent.as_deref()))
            });
        }
        Order::Forgive { client, agent, site } => {
            let known = look_up(gateway, client, site.as_deref());
            return known.map_or_else(Reply::Error, |(sites, client)| {
                Reply::Forgiven(clients::forgive(sites.iter(), client, agent.as_deref()))
            });
        }
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
        Order::Mirror { site, ask } => return of_mirrors(gateway, site.as_deref(), ask).await,
        Order::Wake { site } => (site, manager::Order::Wake),
        Order::Sleep { site } => (site, manager::Order::Sleep),
        Order::StayAwake { seconds, .. } if *seconds > LONGEST_AWAKE.as_secs() => {
            return Reply::Error("one order keeps a server awake for a week at most".to_owned());
        }
        Order::StayAwake { site, seconds } => {
            (site, manager::Order::StayAwake(Duration::from_secs(*seconds)))
        }
        Order::Hold { site, holder, seconds } => {
            let time = Duration::from_secs(*seconds);
            (site, manager::Order::Hold(manager::Holder(*holder), time))
        }
        Order::Release { site, holder } => {
            (site, manager::Order::Release(manager::Holder(*holder)))
        }
    };
    if gateway.serving.observe {
        return Reply::Error("in shadow mode (--observe) servers are left alone".to_owned());
    }
    let mut pools = gateway.serving.sites.iter().filter_map(|it| Some((it, it.pool.as_ref()?)));
    let member = pools.find_map(|(it, pool)| Some((it, pool, pool.called(site.as_deref()?)?)));
    if let Some((whole, pool, server)) = member {
        let wakes = !matches!(order, manager::Order::Sleep | manager::Order::Release(_));
        if wakes && whole.supervisor.phase_now() != Phase::Awake {
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
fn named<'a>(gateway: &'a Gateway, name: Option<&str>) -> Result<&'a Arc<Site>, String> {
    let names =
        || gateway.serving.sites.iter().map(|site| &*site.name).collect::<Vec<_>>().join(", ");
    match (name, gateway.serving.sites.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("{WHICH_SITE}name one of {}", names())),
        (Some(name), sites) => {
            let found = sites.iter().find(|site| *site.name == *name);
            found.ok_or_else(|| format!("{UNKNOWN_SITE}{name}`; there are: {}", names()))
        }
    }
}

async fn of_mirrors(gateway: &Gateway, site: Option<&str>, ask: &MirrorOrder) -> Reply {
    let sites = match site.map(|_| named(gateway, site)).transpose() {
        Ok(Some(site)) => std::slice::from_ref(site),
        Ok(None) => gateway.serving.sites.as_slice(),
        Err(why) => return Reply::Error(why),
    };
    let mirrors: Vec<&Arc<Mirror>> = sites.iter().filter_map(|it| it.mirror.as_ref()).collect();
    if mirrors.is_empty() {
        let text =
            "no site has a mirror: `kind = \"pages\"`, with `hosts` or `mirror.url`, turns it on";
        return Reply::Error(text.to_owned());
    }
    let done = orders::obey(&mirrors, ask).await;
    done.map_or_else(Reply::Error, |reply| Reply::Mirror(Box::new(reply)))
}

/// The sites that are meant, all without a name, and the address of a client.
fn look_up<'a>(
    gateway: &'a Gateway,
    client: &str,
    site: Option<&str>,
) -> Result<(&'a [Arc<Site>], IpAddr), String> {
    let client = client
        .parse()
        .map_err(|_| format!("`{client}` is not an IP address: write it as the access log does"))?;
    let sites = match site {
        Some(_) => std::slice::from_ref(named(gateway, site)?),
        None => &gateway.serving.sites,
    };
    Ok((sites, client))
}
