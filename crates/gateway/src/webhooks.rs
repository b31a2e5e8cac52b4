//! Webhooks: who is told when something needs a person.
//!
//! ```text
//! gateway -> watch (pure): what is new  ->  a mailbox for each webhook  ->  post (HTTP, again and again)
//! ```

mod post;
mod watch;

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_model::policy::lifecycle::Phase;
use tokio::sync::mpsc;

use self::post::Post;
use self::watch::{CertificateSeen, Event, Seen, ServerSeen, Watch};
use crate::config::WebhookConfig;
use crate::gateway::Gateway;
use crate::live::Live;
use crate::supervisor::Supervisor;

/// It is looked so often. What needs a person does not pass by sooner.
const EVERY: Duration = Duration::from_secs(10);

/// Events that wait for a receiver who does not take them; further ones are lost, which the log says.
const WAITING: usize = 100;

/// Somebody who is told.
struct Mailbox {
    config: WebhookConfig,
    events: mpsc::Sender<Event>,
}

/// Watches, and tells, as long as the gateway runs.
pub(crate) async fn run(mut live: Live) {
    let (mut watch, mut mailboxes) = (Watch::default(), Vec::<Mailbox>::new());
    loop {
        let gateway = live.now();
        let clock = gateway.clock.clone();
        // Mailboxes that are not wanted any more are emptied first.
        mailboxes.retain(|mailbox| gateway.config.webhook.contains(&mailbox.config));
        if gateway.config.webhook.is_empty() {
            drop(gateway);
            live.changed().await;
            continue;
        }
        for config in &gateway.config.webhook {
            if !mailboxes.iter().any(|mailbox| mailbox.config == *config) {
                mailboxes.extend(Mailbox::open(config, &clock));
            }
        }
        for event in watch.look(&seen(&gateway), gateway.clock.now()) {
            tracing::info!(event = event.text, "webhooks are told");
            mailboxes.iter().for_each(|mailbox| mailbox.put(&event));
        }
        drop(gateway);
        tokio::select! {
            () = clock.sleep(EVERY) => {}
            () = live.changed() => {}
        }
    }
}

impl Mailbox {
    /// Nothing if it cannot be told anything; it is tried again at the next look.
    fn open(config: &WebhookConfig, clock: &Clock) -> Option<Self> {
        let post = Post::open(config, clock);
        let post = post.inspect_err(|error| {
            tracing::error!(webhook = post::shown(config), %error, "a webhook cannot be used");
        });
        let (events, mail) = mpsc::channel(WAITING);
        tokio::spawn(post.ok()?.carry(mail));
        Some(Self { config: config.clone(), events })
    }

    fn put(&self, event: &Event) {
        if self.config.wants(event.kind) && self.events.try_send(event.clone()).is_err() {
            let webhook = post::shown(&self.config);
            tracing::error!(webhook, event = event.text, "nobody takes it: it is lost");
        }
    }
}

/// What is to be seen now.
fn seen(gateway: &Gateway) -> Seen {
    let sites = gateway.sites.iter().flat_map(|site| {
        let promise = site.scenario.sla().map(|sla| sla.share);
        let whole = server(&site.name, &site.supervisor, promise);
        let servers = site.pool.iter().flat_map(|pool| &pool.servers);
        let servers = servers.map(|it| server(it.supervisor.name(), &it.supervisor, None));
        std::iter::once(whole).chain(servers)
    });
    let machines = gateway.machines.iter().map(|it| server(&it.name, &it.supervisor, None));
    let tls = gateway.tls.as_ref().map(|tls| tls.status(gateway.clock.now()));
    let certificates = tls.into_iter().flat_map(|tls| tls.certificates);
    Seen {
        servers: sites.chain(machines).collect(),
        certificates: certificates
            .map(|it| CertificateSeen {
                chain: it.chain,
                names: it.names,
                not_after_s: it.not_after,
                problem: it.problem,
            })
            .collect(),
    }
}

fn server(name: &str, supervisor: &Supervisor, promise: Option<f64>) -> ServerSeen {
    let status = supervisor.status();
    ServerSeen {
        name: name.to_owned(),
        has_failed: status.phase == Phase::Failed,
        is_well: matches!(status.phase, Phase::Awake | Phase::Asleep),
        failures: status.failures,
        wake_loops: status.wake_loops,
        promise: status.sla.zip(promise),
    }
}
