//! Certificates by ACME (RFC 8555): obtains missing ones, and renews them before they expire.
//!
//! ```text
//! schedule (when)  ->  order (account, web: the authority)  ->  a file  ->  tls::certificates
//!                        \-> proofs: what the authority looks for meanwhile, by `proxy` or in a handshake
//! ```

mod account;
mod dns_challenge;
mod order;
mod renewal;
mod schedule;
mod web;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_host::files::{self, Access, Durability, Replacement};

use self::dns_challenge::Records;
use self::order::{Failed, Proving};
use self::renewal::{Advice, Window};
use self::schedule::Attempts;
use crate::config::{AcmeConfig, CertificateConfig};
use crate::gateway::Gateway;
use crate::live::Live;
use crate::tls::Tls;
use crate::tls::validity::Validity;

/// Limit for one attempt, including the checks by the authority, besides the time that records in DNS may take.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Limit for the question when a certificate is to be renewed.
const ADVICE_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a certificate that is due for renewal as soon as it is there, as its authority suggests: otherwise orders
/// would follow each other at once. It grows as after failures.
const PAUSE_AT_ONCE: Duration = Duration::from_hours(1);

/// A certificate with a shorter lifetime, in seconds, is renewed without this pause, which could be too long for it.
const SHORT_LIFE: i64 = 10 * 3600;

/// Check again after this time, whatever the schedule says: clocks of boards are wrong until the network is up, and
/// machines sleep.
const LOOK_AGAIN: Duration = Duration::from_hours(6);

/// Gets and renews certificates as long as the gateway runs.
pub(crate) async fn run(mut live: Live<Gateway>) {
    let gateway = live.now();
    let clock = gateway.serving.clock.clone();
    let mut renewals = RenewalState::open(folder(&gateway).join("attempts.json"));
    drop(gateway);
    loop {
        let next = look(&live.now(), &mut renewals).await;
        tokio::select! {
            () = clock.sleep_until(next) => {}
            // The reload may have fixed what made attempts fail.
            () = live.changed() => {
                renewals.attempts.values_mut().for_each(Attempts::hurry);
                renewals.advice.values_mut().for_each(Advice::hurry);
            }
        }
    }
}

/// Past attempts, by the file that a certificate is for. Survives a restart, since authorities count attempts.
struct RenewalState {
    path: PathBuf,
    attempts: HashMap<PathBuf, Attempts>,
    /// Certificates that were obtained but could not be written to disk.
    unstored: HashMap<PathBuf, String>,
    /// When authorities want certificates renewed. A restart asks them again.
    advice: HashMap<PathBuf, Advice>,
}

impl RenewalState {
    /// Starts empty if there is no file or it cannot be read.
    fn open(path: PathBuf) -> Self {
        let text = std::fs::read(&path).unwrap_or_default();
        let attempts = serde_json::from_slice(&text).unwrap_or_default();
        Self { path, attempts, unstored: HashMap::new(), advice: HashMap::new() }
    }

    fn store(&self) {
        let text = serde_json::to_vec(&self.attempts).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| replace(&self.path, &text)) {
            tracing::warn!(path = %self.path.display(), %error, "how often an authority was asked is not kept");
        }
    }

    /// When the next attempt at a certificate is due.
    fn due(&self, certificate: &CertificateConfig, validity: Option<Validity>, now: Now) -> Mono {
        let path = &certificate.chain;
        let attempts = self.attempts.get(path).copied().unwrap_or_default();
        attempts.next(renewal::wait(validity, self.advice.get(path), now.wall), now)
    }

    /// A certificate with this validity is there. Its authority may want it renewed at once: then there is a pause, which
    /// is returned.
    fn succeeded(
        &mut self,
        path: &Path,
        validity: Option<Validity>,
        now: Wall,
    ) -> Option<Duration> {
        let is_short = validity.is_none_or(|it| it.until.saturating_sub(it.from) < SHORT_LIFE);
        if is_short || renewal::wait(validity, self.advice.get(path), now) > Duration::ZERO {
            self.attempts.remove(path);
            return None;
        }
        let attempts = self.attempts.entry(path.to_owned()).or_default();
        Some(attempts.failed(now, PAUSE_AT_ONCE))
    }
}

/// Obtains the certificates that are due. Returns when to check again.
async fn look(gateway: &Gateway, renewals: &mut RenewalState) -> Mono {
    let now = || gateway.serving.clock.now();
    let Some((tls, acme)) = gateway.front.tls.as_ref().zip(of(gateway)) else { return Mono::NEVER };
    // A certificate may have been obtained since this configuration was opened.
    tls.look_now(now());
    let mut next = now().mono + LOOK_AGAIN;
    let certificates = gateway.serving.config.tls.iter().flat_map(|tls| &tls.certificate);
    for certificate in certificates.filter(|it| !it.acme.is_empty()) {
        let due = |renewals: &RenewalState| {
            renewals.due(certificate, tls.validity_of(certificate), now())
        };
        advise(gateway, tls, acme, certificate, renewals).await;
        if due(renewals) <= now().mono {
            let done = get(gateway, tls, acme, certificate, renewals).await;
            // A certificate that is due for renewal at once is of no use.
            let is_of_use =
                schedule::wait(tls.validity_of(certificate), now().wall) > Duration::ZERO;
            let done = done.and_then(|()| if is_of_use { Ok(()) } else { Err(Failed::OfNoUse) });
            // What the authority suggests for the new one.
            advise(gateway, tls, acme, certificate, renewals).await;
            settle(tls, certificate, renewals, done, now().wall);
        }
        next = next.min(due(renewals));
        if let Some(advice) = renewals.advice.get(&certificate.chain) {
            next = next.min(now().mono + advice.wait(now().wall));
        }
    }
    next
}

/// Asks the authority when it wants the certificate renewed, if that is to be asked now.
async fn advise(
    gateway: &Gateway,
    tls: &Tls,
    acme: &AcmeConfig,
    certificate: &CertificateConfig,
    renewals: &mut RenewalState,
) {
    let clock = &gateway.serving.clock;
    let path = &certificate.chain;
    let validity = tls.validity_of(certificate);
    let Some(id) = tls.identity_of(certificate).map(order::identifier) else {
        renewals.advice.remove(path);
        return tls.note_renewal(certificate, validity.map(|it| renewal::status(it, None)));
    };
    let before = renewals.advice.remove(path).filter(|it| it.id == id.to_string());
    let mut advice = before.unwrap_or_else(|| Advice::unknown(id.to_string()));
    if advice.is_due(clock.now().wall) {
        let dir = folder(gateway);
        let asked = async {
            let account = account::open(acme, &dir).await?;
            Ok::<_, Failed>(account.renewal_info(&id).await?)
        };
        let asked = clock.timeout(ADVICE_TIMEOUT, Box::pin(asked)).await;
        let now = clock.now().wall;
        match asked.unwrap_or(Err(Failed::Silent)) {
            Ok((info, retry_after)) => {
                let suggested = info.suggested_window;
                let (start, end) =
                    (suggested.start.unix_timestamp(), suggested.end.unix_timestamp());
                advice.explanation = info.explanation_url;
                advice.suggested(Window { start, end }, retry_after, now, random());
            }
            Err(error) => {
                tracing::debug!(names = certificate.acme.join(" "), %error, "no renewal information");
                advice.failed(now);
            }
        }
    }
    tls.note_renewal(certificate, validity.map(|it| renewal::status(it, Some(&advice))));
    renewals.advice.insert(path.clone(), advice);
}

/// A number from 0 to less than 1.
fn random() -> f64 {
    // All its values are below 2^53, which a float holds exactly.
    getrandom::u64().map_or(0.5, |it| (it >> 11) as f64 / (1_u64 << 53) as f64)
}

/// Records how an attempt ended.
fn settle(
    tls: &Tls,
    certificate: &CertificateConfig,
    renewals: &mut RenewalState,
    done: Result<(), Failed>,
    now: Wall,
) {
    let names = certificate.acme.join(" ");
    match done {
        Ok(()) => {
            let pause = renewals.succeeded(&certificate.chain, tls.validity_of(certificate), now);
            tls.note(certificate, None);
            if let Some(again_in) = pause {
                let hint = "its renewal information has a time in the past: ask the authority why";
                tracing::warn!(
                    names,
                    ?again_in,
                    hint,
                    "the authority wants a new certificate renewed at once"
                );
            }
            tracing::info!(names, "a certificate was got from its authority");
        }
        Err(error) => {
            let attempts = renewals.attempts.entry(certificate.chain.clone()).or_default();
            let pause = attempts.failed(now, error.least_pause());
            let hint = error.hint();
            tracing::error!(names, %error, hint, again_in = ?pause, "no certificate was got");
            tls.note(certificate, Some(format!("no new one was got: {error}")));
        }
    }
    renewals.store();
}

fn folder(gateway: &Gateway) -> PathBuf {
    gateway.serving.config.state_dir.join("acme")
}

fn of(gateway: &Gateway) -> Option<&AcmeConfig> {
    gateway.serving.config.tls.as_ref()?.acme.as_ref()
}

/// Obtains one certificate, and starts serving it.
async fn get(
    gateway: &Gateway,
    tls: &Arc<Tls>,
    acme: &AcmeConfig,
    certificate: &CertificateConfig,
    renewals: &mut RenewalState,
) -> Result<(), Failed> {
    let dir = folder(gateway);
    std::fs::create_dir_all(&dir).map_err(|error| Failed::file(&dir, error))?;
    let (path, clock) = (&certificate.chain, &gateway.serving.clock);
    let pem = if let Some(pem) = renewals.unstored.remove(path) {
        pem
    } else {
        let mut records = Records::open(acme.dns.as_ref(), clock, dir.join("records.json"));
        let work = async {
            let account = account::open(acme, &dir).await?;
            let proof = gateway.serving.config.proof();
            let mut proving = Proving { proof, proofs: &tls.proofs, records: &mut records };
            let replaces = tls.identity_of(certificate).map(order::identifier);
            order::carry_out(&account, &certificate.acme, replaces, &mut proving).await
        };
        let names = u32::try_from(certificate.acme.len()).unwrap_or(u32::MAX);
        let records_take = acme.dns.as_ref().map_or(Duration::ZERO, |dns| dns.takes(names));
        let timeout = TIMEOUT.saturating_add(records_take);
        let done = clock.timeout(timeout, Box::pin(work)).await.unwrap_or(Err(Failed::Silent));
        records.remove_all().await;
        done?
    };
    if let Err(error) = replace(path, pem.as_bytes()) {
        // Keep it: authorities issue the same certificate only a few times a week.
        renewals.unstored.insert(path.clone(), pem);
        return Err(Failed::file(path, error));
    }
    tls.look_now(clock.now());
    Ok(())
}

/// Keys, and what authorities limit: for this user only, and there after a power cut.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let how = Replacement { access: Access::Owner, durability: Durability::Kept };
    files::replace(path, how, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn an_authority_that_wants_each_new_certificate_renewed_at_once_gets_a_few_orders_a_day() {
        let path = PathBuf::from("/acme/wiki.pem");
        let (attempts, unstored) = (HashMap::new(), HashMap::new());
        let mut renewals = RenewalState {
            path: PathBuf::from("/unused"),
            attempts,
            unstored,
            advice: HashMap::new(),
        };
        let certificate =
            CertificateConfig { chain: path.clone(), key: path.clone(), acme: Vec::new() };
        let start = 1000 * DAY;
        let validity = |from| Some(Validity { from, until: from + 90 * DAY });
        let (mut seconds, mut orders) = (0, 0);
        while seconds < 7 * DAY {
            let wall = Wall::from_secs(start + seconds);
            let mut advice = Advice::unknown(orders.to_string());
            let window = Window { start: start - 2 * DAY, end: start - DAY };
            advice.suggested(window, Duration::ZERO, wall, 0.5);
            renewals.advice.insert(path.clone(), advice);
            let pause = renewals.succeeded(&path, validity(start + seconds), wall);
            assert!(pause.is_some_and(|it| it >= PAUSE_AT_ONCE), "{pause:?}");
            let mono = Mono::from_secs(seconds.unsigned_abs());
            let now = Now { mono, wall, utc_offset: 0 };
            let due = renewals.due(&certificate, validity(start + seconds), now);
            seconds += i64::try_from(due.since(mono).as_secs()).unwrap();
            orders += 1;
        }
        // 1 h four times, 80 min, 160 min, 320 min, 640 min, then every 12 h.
        assert!((12..=22).contains(&orders), "{orders} orders in a week");
        let short = Some(Validity { from: start, until: start + 30 });
        let wall = Wall::from_secs(start);
        assert_eq!(renewals.succeeded(&path, short, wall), None, "it is renewed in time");
        renewals.advice.clear();
        assert_eq!(renewals.succeeded(&path, validity(start), wall), None, "one that is of use");
        assert!(renewals.attempts.is_empty());
    }
}
