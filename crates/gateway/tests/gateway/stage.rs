//! The stage: a gateway, the scripted origin behind it, and the power of that origin's server.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_gateway::control::{Order, Reply, ask as order};
use nightwatt_gateway::ledger_file::{self, Record};
use nightwatt_gateway::metering::Feed;
use nightwatt_gateway::status::{
    DiskStatus, MachineStatus, PoolStatus, SiteStatus, Status, TcpStatus, TlsStatus,
};
use nightwatt_gateway::{
    Config, Extras, Gateway, Options, ReloadError, Reloaded, Running, StartError,
};
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_power::simulated::{self, Simulated};
use nightwatt_power::{Context, Controller, Observed, Work};

use crate::client::{Ask, Client, Got};
use crate::origin::Origin;

/// Monday, 23 November 2026, noon, UTC.
pub(crate) const NOON: Wall = Wall::from_secs(1_795_435_200);

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Waits for `work`; panics when that has clearly come to a standstill. No test rests on this time: a
/// busy machine may need a while.
pub(crate) async fn watched<T>(what: &str, work: impl Future<Output = T>) -> T {
    let waited = Clock::real().timeout(secs(120), work).await;
    waited.unwrap_or_else(|_| panic!("standstill: waited for {what}"))
}

/// Lets everything that was sent arrive, while time stands still.
pub(crate) async fn settle(clock: &Clock) {
    let _still = clock.owe();
    for _ in 0..300 {
        tokio::task::yield_now().await;
    }
}

/// The power of the server: simulated delays and failures, and an origin that answers only while
/// it is awake.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) power: Simulated,
    pub(crate) origin: Origin,
}

impl Machine {
    /// It goes down as if its power had failed, and closes what is open.
    pub(crate) async fn dies(&self) {
        self.power.go_down();
        self.origin.down().await;
    }

    fn follow(&self) {
        if self.power.is_up() {
            self.origin.up();
        }
    }
}

impl Controller for Machine {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.power.wake().await?;
            self.follow();
            Ok(())
        })
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(async {
            let calls = self.power.calls().sleeps;
            let slept = self.power.sleep();
            tokio::pin!(slept);
            // It stops answering as soon as it begins to fall asleep.
            let first = std::future::poll_fn(|cx| std::task::Poll::Ready(slept.as_mut().poll(cx)));
            let begun = first.await;
            if self.power.calls().sleeps > calls && !self.power.is_up() {
                self.origin.down().await;
            }
            match begun {
                std::task::Poll::Ready(done) => done,
                std::task::Poll::Pending => slept.await,
            }
        })
    }

    fn state(&self) -> Work<'_, Observed> {
        self.follow();
        self.power.state()
    }
}

/// Something to change in the configuration.
type Change = Box<dyn FnOnce(&mut Config)>;

/// How a story begins.
pub(crate) struct Setup {
    real: bool,
    observe: bool,
    power: simulated::Config,
    changes: Vec<Change>,
    probe: Option<&'static str>,
    meters: HashMap<String, Feed>,
    pool: Option<Members>,
}

/// Several servers instead of one.
#[derive(Clone, Copy)]
struct Members {
    names: &'static [&'static str],
    /// `[site.pool]`.
    pool: &'static str,
    /// More of each server.
    each: &'static str,
}

/// The server sleeps, time is virtual.
pub(crate) fn asleep() -> Setup {
    Setup {
        real: false,
        observe: false,
        power: simulated::Config::default(),
        changes: Vec::new(),
        probe: Some("controller"),
        meters: HashMap::new(),
        pool: None,
    }
}

/// The server is awake, time is virtual.
pub(crate) fn awake() -> Setup {
    asleep().power(|power| power.starts_up = true)
}

impl Setup {
    /// Time is the operating system's.
    pub(crate) fn real(mut self) -> Self {
        self.real = true;
        // Nothing that is told here is about how long a machine takes.
        self.power(|power| (power.wake_time, power.sleep_time) = (Duration::ZERO, Duration::ZERO))
    }

    pub(crate) fn observing(mut self) -> Self {
        self.observe = true;
        self
    }

    pub(crate) fn power(mut self, change: impl FnOnce(&mut simulated::Config)) -> Self {
        change(&mut self.power);
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Config) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// The site has servers of these names instead of one, each with an origin and simulated power as
    /// the one would have.
    pub(crate) fn pool(
        mut self,
        names: &'static [&'static str],
        pool: &'static str,
        each: &'static str,
    ) -> Self {
        self.pool = Some(Members { names, pool, each });
        self
    }

    /// Changes the only site.
    pub(crate) fn site(
        self,
        change: impl FnOnce(&mut nightwatt_gateway::config::SiteConfig) + 'static,
    ) -> Self {
        self.with(|config| change(&mut config.site[0]))
    }

    /// A meter of the server, or of the proxy, which has the empty name.
    pub(crate) fn metered(mut self, name: &str, feed: &Feed) -> Self {
        self.meters.insert(name.to_owned(), feed.clone());
        self
    }

    /// Asks `GET /` whether the server is awake, as the default is.
    pub(crate) fn probed_by_http(mut self) -> Self {
        self.probe = None;
        self
    }

    /// Asks the port whether the server is awake.
    pub(crate) fn probed_by_tcp(mut self) -> Self {
        self.probe = Some("tcp");
        self
    }

    /// Plays the story.
    pub(crate) fn play(self, story: impl AsyncFnOnce(&mut Stage)) {
        let clock = if self.real { Clock::real() } else { Clock::virtual_at(NOON, 0) };
        clock.runtime().unwrap().block_on(async {
            let mut stage = Stage::set(self, clock.clone());
            stage.looked().await;
            story(&mut stage).await;
        });
    }

    /// As [`Setup::play`], but begins before the proxy has looked at its server.
    pub(crate) fn play_from_the_start(self, story: impl AsyncFnOnce(&mut Stage)) {
        let clock = if self.real { Clock::real() } else { Clock::virtual_at(NOON, 0) };
        clock.runtime().unwrap().block_on(async {
            let mut stage = Stage::set(self, clock.clone());
            story(&mut stage).await;
        });
    }

    fn config(&mut self, dir: &std::path::Path, origins: &[SocketAddr]) -> Config {
        let origin = origins[0];
        let probe = match self.probe {
            None => String::new(),
            Some("tcp") => format!("probe = \"tcp {origin}\""),
            Some(probe) => format!("probe = \"{probe}\""),
        };
        let dir = dir.display();
        let server = match self.pool {
            None => {
                format!(
                    "origin = \"http://{origin}\"\npower.simulated = {{}}\nwatch = \"0\"\n{probe}"
                )
            }
            Some(Members { names, pool, each }) => {
                let server = |(name, origin): (&&str, &SocketAddr)| {
                    format!(
                        "[[site.server]]\nname = \"{name}\"\norigin = \"http://{origin}\"\n\
                         power.simulated = {{}}\nprobe = \"controller\"\n{each}\n"
                    )
                };
                let servers: String = names.iter().zip(origins).map(server).collect();
                format!("[site.pool]\n{pool}\n{servers}")
            }
        };
        let text = format!(
            r#"
            listen = ["127.0.0.1:0"]
            admin = "127.0.0.1:0"
            state_dir = "{dir}"
            access_log = "{dir}/access.log"

            [scenario]
            policy = "timeout 5s"
            sla.enabled = false

            [[site]]
            name = "blog"
            kind = "pages"
            cache.fill = "clients"
            cache.crawler_files = false
            mirror.enabled = false
            {server}
            "#
        );
        let mut config = Config::parse(&text, "test").unwrap();
        for change in self.changes.drain(..) {
            change(&mut config);
        }
        config
    }
}

/// Everything in its place.
pub(crate) struct Stage {
    pub(crate) clock: Clock,
    pub(crate) origin: Origin,
    pub(crate) power: Simulated,
    machine: Machine,
    /// The servers of a pool; the first is `machine`.
    pub(crate) members: Vec<Machine>,
    names: &'static [&'static str],
    pub(crate) config: Config,
    observe: bool,
    meters: HashMap<String, Feed>,
    running: Option<Running>,
    dir: tempfile::TempDir,
}

impl Stage {
    fn set(mut setup: Setup, clock: Clock) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let names = setup.pool.map_or(&["blog"][..], |pool| pool.names);
        let origins: Vec<Origin> = names.iter().map(|_| Origin::new(&clock)).collect();
        let addresses: Vec<SocketAddr> = origins.iter().map(Origin::address).collect();
        let config = setup.config(dir.path(), &addresses);
        let context = Context {
            clock: clock.clone(),
            state_dir: dir.path().to_owned(),
            site: "blog".to_owned(),
        };
        let members: Vec<Machine> = origins
            .into_iter()
            .map(|origin| Machine { power: setup.power.build(&context).unwrap(), origin })
            .collect();
        members.iter().for_each(Machine::follow);
        let machine = members[0].clone();
        let (power, origin) = (machine.power.clone(), machine.origin.clone());
        let observe = setup.observe;
        let meters = setup.meters;
        let running = None;
        let mut stage = Self {
            clock,
            origin,
            power,
            machine,
            members,
            names,
            config,
            observe,
            meters,
            running,
            dir,
        };
        stage.start();
        stage
    }

    /// Starts a gateway on the same state as the last one.
    pub(crate) fn start(&mut self) {
        self.running = Some(self.start_another().unwrap_or_else(|error| panic!("{error}")));
    }

    /// Starts a gateway beside the one that runs.
    pub(crate) fn start_another(&self) -> Result<Running, StartError> {
        self.start_beside(self.config.clone())
    }

    /// The same with another configuration.
    pub(crate) fn start_beside(&self, config: Config) -> Result<Running, StartError> {
        let boxed: Box<dyn Controller> = Box::new(self.machine.clone());
        let site = self.config.site.first();
        let has_power = site.is_some_and(|site| site.power.is_some());
        let mut controllers: HashMap<String, Box<dyn Controller>> =
            has_power.then(|| ("blog".to_owned(), boxed)).into_iter().collect();
        for (name, member) in self.names.iter().zip(&self.members) {
            if site.is_some_and(|site| site.server.iter().any(|it| it.name == **name)) {
                controllers.insert((*name).to_owned(), Box::new(member.clone()));
            }
        }
        let mut options = Options { durable: false, controllers, ..Options::default() };
        (options.observe, options.meters) = (self.observe, self.meters.clone());
        Gateway::start(config, self.clock.clone(), options)
    }

    /// The proxy has looked at its server.
    pub(crate) async fn looked(&self) {
        watched("the first look at the server", async {
            while self.state() == "unknown" {
                // The look is a timer that is due at once.
                self.clock.turn().await;
                tokio::task::yield_now().await;
            }
        })
        .await;
        settle(&self.clock).await;
    }

    /// Stops the gateway in good order.
    pub(crate) async fn stop(&mut self) {
        let running = self.running.take().expect("a gateway that runs");
        watched("the gateway to stop", running.stop()).await;
    }

    /// Has the gateway go on with another configuration.
    pub(crate) fn reload(
        &mut self,
        change: impl FnOnce(&mut Config),
    ) -> impl Future<Output = Result<Reloaded, ReloadError>> {
        let mut config = self.config.clone();
        change(&mut config);
        // What is read is large.
        Box::pin(async move {
            let running = self.running.as_mut().expect("a gateway that runs");
            let done = running.reload(config.clone(), Options::default());
            let done = Box::pin(watched("the reload", done)).await;
            if done.is_ok() {
                self.config = config;
            }
            settle(&self.clock).await;
            done
        })
    }

    /// Everything there is to know.
    pub(crate) fn running_status(&self) -> Status {
        self.running().gateway.status()
    }

    pub(crate) fn running(&self) -> &Running {
        self.running.as_ref().expect("a gateway that runs")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running().addresses[0]
    }

    /// Where TLS is spoken.
    pub(crate) fn tls_address(&self) -> SocketAddr {
        self.running().tls_addresses[0]
    }

    pub(crate) fn tls(&self) -> TlsStatus {
        self.running().gateway.status().tls.expect("a configuration with TLS")
    }

    /// Where connections are passed through, in the order of the configuration.
    pub(crate) fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.running().tcp_addresses
    }

    /// Where other proxies ask.
    pub(crate) fn gate_address(&self) -> SocketAddr {
        self.running().gate_addresses[0]
    }

    /// The services that are passed through.
    pub(crate) fn services(&self) -> Vec<TcpStatus> {
        self.running().gateway.status().tcp
    }

    pub(crate) fn admin_address(&self) -> Option<SocketAddr> {
        self.running().admin
    }

    /// Asks the admin listener.
    pub(crate) async fn ask_admin(&self, ask: Ask) -> Got {
        let admin = self.admin_address().expect("an admin listener");
        let mut client = Client::connect_to(self, admin).await;
        client.send(&ask).await;
        client.answer().await
    }

    pub(crate) fn control_socket(&self) -> PathBuf {
        self.config.control_socket()
    }

    pub(crate) fn status(&self) -> SiteStatus {
        self.running().gateway.status().sites.remove(0)
    }

    /// What the pool is doing.
    pub(crate) fn pool(&self) -> PoolStatus {
        self.status().pool.expect("a pool")
    }

    /// What each server is to the pool.
    pub(crate) fn duties(&self) -> Vec<String> {
        self.pool().servers.into_iter().map(|it| it.duty).collect()
    }

    /// How the disk cache is.
    pub(crate) fn disk_status(&self) -> DiskStatus {
        self.running().gateway.status().disk_cache.expect("a disk cache")
    }

    /// Where it is.
    pub(crate) fn disk_cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// What the machines are doing.
    pub(crate) fn machines(&self) -> Vec<MachineStatus> {
        self.running().gateway.status().machines
    }

    /// States of the machines, and of the only site's server last.
    pub(crate) fn states(&self) -> Vec<String> {
        let machines = self.machines().into_iter();
        machines.map(|machine| machine.state).chain([self.state()]).collect()
    }

    /// State of the server as the proxy sees it.
    pub(crate) fn state(&self) -> String {
        self.status().state
    }

    /// Wake and sleep commands so far.
    pub(crate) fn commands(&self) -> (u32, u32) {
        let calls = self.power.calls();
        (calls.wakes, calls.sleeps)
    }

    pub(crate) fn now(&self) -> Mono {
        self.clock.now().mono
    }

    /// Lets time pass, up to this many seconds after the beginning.
    pub(crate) async fn at(&self, second: u64) {
        assert!(self.now() <= Mono::from_secs(second), "it is {:?} already", self.now());
        self.clock.sleep_until(Mono::from_secs(second)).await;
        self.rest().await;
    }

    /// Whatever is due at this moment happens first.
    async fn rest(&self) {
        for _ in 0..10 {
            settle(&self.clock).await;
            self.clock.turn().await;
        }
        settle(&self.clock).await;
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
        self.rest().await;
    }

    /// Waits until that is so, while virtual time stands still.
    pub(crate) async fn until(&self, what: &str, so: impl Fn(&SiteStatus) -> bool) {
        let _still = (self.clock.owe(), self.clock.owe());
        watched(what, async {
            while !so(&self.status()) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Sends a request on a connection of its own, and waits for its answer.
    pub(crate) async fn ask(&self, ask: Ask) -> Got {
        let mut client = self.begin(ask).await;
        client.answer().await
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn begin(&self, ask: Ask) -> Client {
        let mut client = Client::connect(self).await;
        client.send(&ask).await;
        settle(&self.clock).await;
        client
    }

    /// Sends bytes on a connection of their own, and gives what comes back.
    pub(crate) async fn say(&self, bytes: impl AsRef<[u8]>) -> Option<Got> {
        let mut client = Client::connect(self).await;
        client.say(bytes).await;
        client.next().await
    }

    /// Gives an order over the control socket.
    pub(crate) async fn order(&self, what: Order) -> Reply {
        let _still = self.clock.owe();
        let reply = watched("the reply to an order", order(&self.control_socket(), &what)).await;
        settle(&self.clock).await;
        reply.unwrap()
    }

    /// The server's journal.
    pub(crate) fn journal(&self) -> Vec<Record> {
        ledger_file::read(&self.dir.path().join("blog.ledger.jsonl")).unwrap()
    }

    /// What is in the ledger of a site.
    pub(crate) fn ledger_of(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.path().join(format!("{name}.ledger.jsonl"))).unwrap()
    }

    /// Where what the policy has learned is stored.
    pub(crate) fn lessons(&self) -> PathBuf {
        self.dir.path().join("blog.lessons.json")
    }

    /// Whether the next gateway runs in shadow mode.
    pub(crate) fn observe(&mut self, observe: bool) {
        self.observe = observe;
    }

    /// Lines of the access log.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("access.log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// What nightwatt wrote behind the lines of the access log.
    pub(crate) fn extras(&self) -> Vec<Extras> {
        let lines = self.log();
        lines.iter().map(|line| Extras::read(line).expect("a line of ours")).collect()
    }
}

/// The policy that sleeps after this idle time.
pub(crate) fn timeout(seconds: u64) -> PolicyChoice {
    PolicyChoice::Timeout { idle: secs(seconds) }
}
