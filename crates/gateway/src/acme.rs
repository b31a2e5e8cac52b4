//! Certificates by ACME (RFC 8555): got where there is none, and renewed before they end.
//!
//! ```text
//! schedule (when)  ->  order (account, web: the authority)  ->  a file  ->  tls::certificates
//!                        \-> proofs: what the authority looks for meanwhile, by `proxy` or in a handshake
//! ```

mod account;
mod order;
pub(crate) mod proofs;
mod schedule;
mod web;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_model::time::Mono;

use self::order::Failed;
use self::schedule::Attempts;
use crate::config::{AcmeConfig, CertificateConfig};
use crate::gateway::Gateway;
use crate::live::Live;
use crate::tls::Tls;

/// One attempt may take so long, looks of the authority included.
const PATIENCE: Duration = Duration::from_mins(5);

/// Clocks of boards are wrong until the network is there, and machines sleep: it is looked again after this
/// time, whatever was reckoned.
const LOOK_AGAIN: Duration = Duration::from_hours(6);

/// Gets and renews certificates as long as the gateway runs.
pub(crate) async fn run(mut live: Live) {
    let clock = live.now().clock.clone();
    let mut attempts = HashMap::new();
    loop {
        let next = look(&live.now(), &mut attempts).await;
        tokio::select! {
            () = clock.sleep_until(next) => {}
            () = live.changed() => {}
        }
    }
}

/// Gets what is due. Says when it is to be looked again.
async fn look(gateway: &Gateway, attempts: &mut HashMap<PathBuf, Attempts>) -> Mono {
    let now = || gateway.clock.now();
    let Some((tls, acme)) = gateway.tls.as_ref().zip(of(gateway)) else { return Mono::NEVER };
    let mut next = now().mono + LOOK_AGAIN;
    let certificates = gateway.config.tls.iter().flat_map(|tls| &tls.certificate);
    for certificate in certificates.filter(|it| !it.acme.is_empty()) {
        let attempts = attempts.entry(certificate.chain.clone()).or_default();
        let due = |attempts: &Attempts| attempts.next(tls.validity_of(certificate), now());
        if due(attempts) <= now().mono {
            let done = get(gateway, tls, (acme, certificate)).await;
            // A certificate that is due again at once is none that we could use.
            let is_of_use =
                schedule::wait(tls.validity_of(certificate), now().wall) > Duration::ZERO;
            let done = done.and_then(|()| if is_of_use { Ok(()) } else { Err(Failed::OfNoUse) });
            settle(tls, certificate, attempts, done, now().mono);
        }
        next = next.min(due(attempts));
    }
    next
}

/// Writes down how an attempt ended.
fn settle(
    tls: &Tls,
    certificate: &CertificateConfig,
    attempts: &mut Attempts,
    done: Result<(), Failed>,
    now: Mono,
) {
    let names = certificate.acme.join(" ");
    match done {
        Ok(()) => {
            *attempts = Attempts::default();
            tracing::info!(names, "a certificate was got from its authority");
        }
        Err(error) => {
            let pause = attempts.failed(now);
            let hint = error.hint();
            tracing::error!(names, %error, hint, again_in = ?pause, "no certificate was got");
            tls.note(certificate, &format!("no new one was got: {error}"));
        }
    }
}

fn of(gateway: &Gateway) -> Option<&AcmeConfig> {
    gateway.config.tls.as_ref()?.acme.as_ref()
}

/// Gets one certificate, and has it served.
async fn get(
    gateway: &Gateway,
    tls: &Arc<Tls>,
    (acme, certificate): (&AcmeConfig, &CertificateConfig),
) -> Result<(), Failed> {
    let dir = gateway.config.state_dir.join("acme");
    std::fs::create_dir_all(&dir).map_err(|error| Failed::file(&dir, error))?;
    let work = async {
        let account = account::open(acme, &dir).await?;
        order::carry_out(&account, &certificate.acme, gateway.config.proof(), &tls.proofs).await
    };
    let clock = &gateway.clock;
    let pem = clock.timeout(PATIENCE, Box::pin(work)).await.unwrap_or(Err(Failed::Silent))?;
    let path = &certificate.chain;
    replace(path, pem.as_bytes()).map_err(|error| Failed::file(path, error))?;
    tls.look_now(clock.now());
    Ok(())
}

/// At no moment is there no whole file; nobody else reads it.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    // One that was left behind may be open to others.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}
