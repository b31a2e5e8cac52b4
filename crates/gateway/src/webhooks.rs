//! Webhooks: notify receivers when something needs a person.
//!
//! ```text
//! gateway -> watch (pure): what is new  ->  a mailbox for each webhook  ->  post (HTTP, with retries)
//! ```

mod post;
mod watch;

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::sla::Sla;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use self::post::Post;
use self::watch::{
    CertificateSeen, Event, Kind, RequestsSeen, Seen, ServerSeen, VisitsSeen, Watch,
};
use crate::config::WebhookConfig;
pub use crate::error::UnusableWebhook;
use crate::gateway::Gateway;
use crate::live::Live;
use crate::supervisor::Supervisor;

/// Time between two checks. Nothing that needs a person is over sooner.
const EVERY: Duration = Duration::from_secs(10);

/// Maximum number of events that wait for a receiver; further ones are lost, and that is logged.
const WAITING: usize = 100;

/// A receiver of events.
struct Mailbox {
    config: WebhookConfig,
    events: mpsc::Sender<Event>,
    carrier: AbortHandle,
}

/// Checks that a webhook can be used: its secret and its authorities can be read.
///
/// # Errors
///
/// If they cannot.
pub fn look_over(config: &WebhookConfig) -> Result<(), UnusableWebhook> {
    Post::open(config, &Clock::real()).map(drop)
}

/// Watches and notifies, as long as the gateway runs.
pub(crate) async fn run(mut live: Live<Gateway>) {
    let (mut watch, mut mailboxes) = (Watch::default(), Vec::<Mailbox>::new());
    loop {
        let gateway = live.now();
        let clock = gateway.serving.clock.clone();
        mailboxes.retain(|mailbox| {
            let stays = gateway.serving.config.webhook.contains(&mailbox.config);
            if !stays {
                // Its waiting events are not needed any more.
                mailbox.carrier.abort();
            }
            stays
        });
        if gateway.serving.config.webhook.is_empty() {
            drop(gateway);
            live.changed().await;
            watch = Watch::default();
            continue;
        }
        for config in &gateway.serving.config.webhook {
            if !mailboxes.iter().any(|mailbox| mailbox.config == *config) {
                mailboxes.extend(Mailbox::open(config, &clock));
            }
        }
        for event in watch.look(&seen(&gateway), gateway.serving.clock.now()) {
            tracing::info!(event = event.text, "an event for webhooks");
            for mailbox in &mailboxes {
                mailbox.put(&event);
            }
        }
        drop(gateway);
        tokio::select! {
            () = clock.sleep(EVERY) => {}
            () = live.changed() => {}
        }
    }
}

impl Mailbox {
    /// Nothing if it cannot be used, which the start and each reload report.
    fn open(config: &WebhookConfig, clock: &Clock) -> Option<Self> {
        let post = Post::open(config, clock).ok()?;
        let (events, mail) = mpsc::channel(WAITING);
        let carrier = tokio::spawn(post.carry(mail)).abort_handle();
        Some(Self { config: config.clone(), events, carrier })
    }

    fn put(&self, event: &Event) {
        if self.config.wants(event.kind) && self.events.try_send(event.clone()).is_err() {
            let webhook = self.config.shown();
            tracing::error!(
                webhook,
                event = event.text,
                "the queue of a webhook is full: the event is dropped"
            );
        }
    }
}

/// The present state.
fn seen(gateway: &Gateway) -> Seen {
    let sites = gateway.serving.sites.iter().flat_map(|site| {
        let sla = site.scenario.sla();
        let whole = server(Kind::Site, &site.name, &site.supervisor, sla);
        let servers = site.pool.iter().flat_map(|pool| &pool.servers);
        let servers =
            servers.map(|it| server(Kind::PoolServer, it.supervisor.name(), &it.supervisor, None));
        std::iter::once(whole).chain(servers)
    });
    let machines = gateway.machines.iter();
    let machines = machines.map(|it| server(Kind::Machine, &it.name, &it.supervisor, None));
    let tls = gateway.front.tls.as_ref().map(|tls| tls.status(gateway.serving.clock.now()));
    let certificates = tls.into_iter().flat_map(|tls| tls.certificates);
    Seen {
        servers: sites.chain(machines).collect(),
        certificates: certificates
            .map(|it| CertificateSeen {
                chain: it.chain,
                names: it.names,
                validity_s: it.not_before.zip(it.not_after),
                until: it.until,
                // At first it has none, which is no event.
                problem: it.problem.filter(|_| !it.is_awaited),
            })
            .collect(),
    }
}

fn server(kind: Kind, name: &str, supervisor: &Supervisor, sla: Option<Sla>) -> ServerSeen {
    let (status, sla) = (supervisor.status(), sla.unwrap_or_default());
    let requests = status.sla.requests.zip(sla.share);
    let visits = status.sla.visits_today.zip(sla.visits_per_day);
    ServerSeen {
        name: name.to_owned(),
        kind,
        has_failed: status.phase == Phase::Failed,
        is_well: matches!(status.phase, Phase::Awake | Phase::Asleep),
        failures: status.failures,
        wake_loops: status.wake_loops,
        sla: requests.map(|((requests, delayed), it)| {
            let share = it.share;
            RequestsSeen { requests, delayed, share }
        }),
        visits: visits.map(|(today, allowed)| VisitsSeen { today, allowed }),
    }
}
