//! Our certificates: read from their files, found by the name that a client asks for, and read again when
//! the files have changed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_httpcache::{Timestamp, date};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::identity::Identity;
use super::validity::Validity;
use crate::config::CertificateConfig;
use crate::error::BadCertificate;
use crate::proofs::{PROTOCOL, Proofs, certified};
use crate::status::{CertificateStatus, RenewalStatus};

/// Maximum length of a file of certificates or keys.
const LONGEST: u64 = 1 << 20;

/// Time between two checks of the files, if there are handshakes.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// The object identifier of the extension that names are in, 2.5.29.17, in DER (RFC 5280, 4.2.1.6).
const SUBJECT_ALT_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];

/// Shows whether files have changed: times of modification (of content and of permissions), length, identity.
type Stamp = [Option<(i64, i64, i64, u64, u64)>; 2];

fn stamp(config: &CertificateConfig) -> Stamp {
    [&config.chain, &config.key].map(|path| {
        let of = |it: fs::Metadata| (it.mtime(), it.mtime_nsec(), it.ctime(), it.size(), it.ino());
        fs::metadata(path).ok().map(of)
    })
}

/// A certificate with its key.
#[derive(Debug)]
struct Pair {
    key: Arc<CertifiedKey>,
    /// In lower case, some with a star for their first label.
    names: Vec<String>,
    /// It names something, if only addresses.
    is_named: bool,
    /// It is signed only by us.
    is_made_here: bool,
    validity: Validity,
}

impl Pair {
    fn load(config: &CertificateConfig, provider: &CryptoProvider) -> Result<Self, BadCertificate> {
        let CertificateConfig { chain: path, key: key_path, acme } = config;
        // Files of certificates by ACME are nightwatt's own.
        let [chain_key, key_key] = if acme.is_empty() { ["chain", "key"] } else { ["acme"; 2] };
        let pem = read(chain_key, path)?;
        let broken = |why: String| BadCertificate::Broken { path: path.clone(), why };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| broken(error.to_string()))?;
        let Some(own) = chain.first() else {
            let swapped = PrivateKeyDer::from_pem_slice(&pem).is_ok();
            return Err(BadCertificate::NoCertificate { path: path.clone(), swapped });
        };
        let validity = Validity::read(own).ok_or_else(|| broken("no certificate".to_owned()))?;
        let names = {
            let parsed = EndEntityCert::try_from(own).map_err(|error| broken(error.to_string()))?;
            parsed.valid_dns_names().map(str::to_ascii_lowercase).collect()
        };
        let is_named = own.windows(SUBJECT_ALT_NAME.len()).any(|it| it == SUBJECT_ALT_NAME);
        let key = read(key_key, key_path)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
            let text = String::from_utf8_lossy(&key);
            let locked = text.contains("ENCRYPTED");
            BadCertificate::NoKey { path: key_path.clone(), locked }
        })?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                BadCertificate::Mismatch { chain: path.clone(), key: key_path.clone() }
            }
            error => BadCertificate::Broken { path: key_path.clone(), why: error.to_string() },
        })?;
        Ok(Self { key: Arc::new(key), names, is_named, is_made_here: false, validity })
    }

    /// The temporary certificate until an authority has issued one: an earlier one for the same first name with other
    /// names beside it, or by another authority; else one that browsers warn about.
    fn stand_in(
        config: &CertificateConfig,
        provider: &CryptoProvider,
        now: Wall,
    ) -> Result<Self, rcgen::Error> {
        let others = config.before().into_iter().filter_map(|path| {
            let config = CertificateConfig { chain: path.clone(), key: path, acme: Vec::new() };
            Self::load(&config, provider).ok().filter(|pair| pair.fault(now).is_none())
        });
        if let Some(other) = others.max_by_key(|pair| pair.validity.until) {
            return Ok(other);
        }
        let names: Vec<String> = config.acme.iter().map(|it| it.to_ascii_lowercase()).collect();
        let params = rcgen::CertificateParams::new(names.clone())?;
        let key = certified(&params, &rcgen::KeyPair::generate()?, provider)?;
        let validity = Validity::read(&key.cert[0]).unwrap_or(Validity { from: 0, until: 0 });
        let key = Arc::new(key);
        Ok(Self { key, names, is_named: true, is_made_here: true, validity })
    }

    /// The certificate in the files; if an authority has yet to issue it, a temporary one, and the reason.
    fn load_or_stand_in(
        config: &CertificateConfig,
        provider: &CryptoProvider,
        now: Wall,
    ) -> Result<(Self, Option<String>), BadCertificate> {
        match Self::load(config, provider) {
            Ok(pair) => Ok((pair, None)),
            Err(error) if config.acme.is_empty() => Err(error),
            Err(error) => {
                let why = if error.is_missing() {
                    "not got yet from its authority".to_owned()
                } else {
                    error.to_string()
                };
                let stand_in = Self::stand_in(config, provider, now);
                stand_in.map(|pair| (pair, Some(why))).map_err(|_| error)
            }
        }
    }

    /// Why clients will reject it now, if so.
    fn fault(&self, now: Wall) -> Option<String> {
        let Validity { from, until } = self.validity;
        let now = now.0.div_euclid(1000);
        if now > until {
            Some(format!("it expired on {}", day(until)))
        } else if now < from {
            Some(format!("it is not valid before {}: is the clock right?", day(from)))
        } else if !self.is_named {
            Some("it has no names, which browsers insist on (subjectAltName)".to_owned())
        } else {
            None
        }
    }

    /// Whether clients will accept it for all of these names, as far as names matter. A star stands for one label.
    fn stands_in_for(&self, names: &[String]) -> bool {
        let is_for = |name: &String| {
            let name = name.to_ascii_lowercase();
            let star = name.split_once('.').map(|(_, above)| format!("*.{above}"));
            self.names.iter().any(|it| *it == name || Some(it) == star.as_ref())
        };
        !self.is_made_here && names.iter().all(is_for)
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, BadCertificate> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    file.map_err(|source| BadCertificate::Unreadable { key, path: path.to_owned(), source })?;
    Ok(bytes)
}

fn day(seconds: i64) -> String {
    let at = Timestamp::from_millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000));
    date::format(at).to_str().unwrap_or_default().to_owned()
}

/// Where the certificate of an entry comes from.
const fn kind(config: &CertificateConfig, is_stand_in: bool) -> &'static str {
    match (config.acme.is_empty(), is_stand_in) {
        (_, true) => "stand-in",
        (true, false) => "file",
        (false, false) => "acme",
    }
}

/// One entry of the configuration, and its state.
#[derive(Debug)]
struct Entry {
    config: CertificateConfig,
    pair: Arc<Pair>,
    stamp: Stamp,
    /// Why what is in the files now is not used.
    problem: Option<String>,
    /// It is not the one that its authority issued.
    is_stand_in: bool,
    /// Why its authority issued no other one at the last attempt.
    refused: Option<String>,
    /// When its authority wants it renewed.
    renewal: Option<RenewalStatus>,
}

/// All certificates, as used now.
#[derive(Debug)]
pub(crate) struct Certificates {
    provider: Arc<CryptoProvider>,
    entries: Mutex<Vec<Entry>>,
    /// What clients get.
    served: RwLock<Arc<Served>>,
    looked: Mutex<Mono>,
    proofs: Arc<Proofs>,
}

#[derive(Debug)]
struct Served {
    default: Arc<CertifiedKey>,
    names: HashMap<String, Arc<CertifiedKey>>,
}

impl Served {
    /// None if there are no entries.
    fn of(entries: &[Entry]) -> Option<Self> {
        let default = Arc::clone(&entries.first()?.pair.key);
        let mut names = HashMap::new();
        // Those signed by an authority come first.
        let (given, stand_ins): (Vec<_>, Vec<_>) = entries.iter().partition(|it| !it.is_stand_in);
        for pair in given.into_iter().chain(stand_ins).map(|entry| &entry.pair) {
            for name in &pair.names {
                names.entry(name.clone()).or_insert_with(|| Arc::clone(&pair.key));
            }
        }
        Some(Self { default, names })
    }

    /// The certificate for a name: the first that has it, else the first that has it with a star, which
    /// stands for one label.
    fn find(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        let found = name.and_then(|name| {
            let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
            let above = || name.split_once('.').map(|(_, above)| format!("*.{above}"));
            self.names.get(&name).or_else(|| self.names.get(&above()?))
        });
        found.unwrap_or(&self.default)
    }
}

impl Certificates {
    /// Reads all of them. Certificates that clients will reject are served too: plain HTTP, and the renewal of a
    /// certificate over it, must not end with a certificate, nor because of a wrong clock.
    pub(super) fn load(
        configured: &[CertificateConfig],
        provider: &Arc<CryptoProvider>,
        now: Now,
    ) -> Result<Self, BadCertificate> {
        let mut entries = Vec::new();
        for config in configured {
            // Before the files are read, so that what changes meanwhile is seen later.
            let stamp = stamp(config);
            let (pair, problem) = Pair::load_or_stand_in(config, provider, now.wall)?;
            if problem.is_none() {
                complain(config, &pair, now.wall);
            }
            let (pair, is_stand_in) = (Arc::new(pair), problem.is_some());
            let (config, refused, renewal) = (config.clone(), None, None);
            entries.push(Entry { config, pair, stamp, problem, is_stand_in, refused, renewal });
        }
        let served = Served::of(&entries).ok_or_else(|| BadCertificate::NoCertificate {
            path: PathBuf::from("[tls]"),
            swapped: false,
        })?;
        Ok(Self {
            provider: Arc::clone(provider),
            entries: Mutex::new(entries),
            served: RwLock::new(Arc::new(served)),
            looked: Mutex::new(now.mono),
            proofs: Arc::default(),
        })
    }

    /// Adds the proofs for authorities.
    pub(super) fn with_proofs(mut self, proofs: &Arc<Proofs>) -> Self {
        self.proofs = Arc::clone(proofs);
        self
    }

    /// The validity of the certificate of this entry, if there is one.
    pub(super) fn validity_of(&self, config: &CertificateConfig) -> Option<Validity> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.iter().find(|it| it.config == *config && !it.is_stand_in)?;
        Some(entry.pair.validity)
    }

    /// What the certificate of this entry is known by at its authority, if there is one.
    pub(super) fn identity_of(&self, config: &CertificateConfig) -> Option<Identity> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.iter().find(|it| it.config == *config && !it.is_stand_in)?;
        Identity::read(entry.pair.key.cert.first()?)
    }

    /// Notes when the authority wants the certificate renewed.
    pub(super) fn note_renewal(&self, config: &CertificateConfig, at: Option<RenewalStatus>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter_mut().find(|it| it.config == *config) {
            entry.renewal = at;
        }
    }

    /// Notes why the authority issued no other certificate; nothing once it has.
    pub(super) fn note(&self, config: &CertificateConfig, refused: Option<String>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.iter_mut().find(|it| it.config == *config) {
            entry.refused = refused;
        }
    }

    /// Keeps earlier notes for entries that are still configured.
    pub(super) fn with_notes_of(self, before: &Self) -> Self {
        let noted = before.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for Entry { config, refused, renewal, .. } in noted.iter() {
            self.note(config, refused.clone());
            self.note_renewal(config, renewal.clone());
        }
        drop(noted);
        self
    }

    /// Reads changed files again, unless that was checked within the last minute. Unusable files change nothing. (These
    /// are a few small files that were read before: fast enough for the thread that serves.)
    pub(super) fn look(&self, now: Now) {
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if now.mono.since(*looked) < LOOK_EVERY {
                return;
            }
            *looked = now.mono;
        }
        self.look_now(now);
    }

    /// The same, at once.
    pub(super) fn look_now(&self, now: Now) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_changed = false;
        for entry in entries.iter_mut() {
            let stamp = stamp(&entry.config);
            // Unusable files may have become usable without a change: by folders above them.
            if stamp == entry.stamp && entry.problem.is_none() {
                continue;
            }
            entry.stamp = stamp;
            let chain = entry.config.chain.display();
            match Pair::load(&entry.config, &self.provider) {
                Ok(pair) => {
                    tracing::info!(%chain, until = %day(pair.validity.until), "a certificate was read again");
                    complain(&entry.config, &pair, now.wall);
                    entry.pair = Arc::new(pair);
                    (entry.problem, entry.is_stand_in) = (None, false);
                    has_changed = true;
                }
                // Its authority is being asked.
                Err(error) if !entry.config.acme.is_empty() && error.is_missing() => {}
                Err(error) => {
                    let (hint, problem) = (error.hint(), Some(error.to_string()));
                    if problem != entry.problem {
                        tracing::error!(%chain, %error, hint, "a changed certificate is not used: the old one stays");
                    }
                    entry.problem = problem;
                }
            }
        }
        if has_changed && let Some(served) = Served::of(&entries) {
            *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(served);
        }
    }

    /// The status of each of them.
    pub(super) fn status(&self, now: Wall) -> Vec<CertificateStatus> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |it: &Entry| {
            let problem = it.refused.clone().or_else(|| it.problem.clone());
            let status = of_pair(&it.config, &it.pair, problem, it.is_stand_in, now);
            let renewal_failed = status.renewal_failed || it.refused.is_some();
            let is_awaited = it.is_stand_in && it.refused.is_none();
            CertificateStatus { is_awaited, renewal_failed, renewal: it.renewal.clone(), ..status }
        };
        entries.iter().map(status).collect()
    }
}

/// The status of what is served for an entry, and why that is not what is in the files, or not what is expected.
fn of_pair(
    config: &CertificateConfig,
    pair: &Pair,
    problem: Option<String>,
    is_stand_in: bool,
    now: Wall,
) -> CertificateStatus {
    let fault = pair.fault(now);
    let falls_short = is_stand_in && !pair.stands_in_for(&config.acme);
    let is_faulty = fault.is_some() || falls_short;
    let renewal_failed = problem.is_some() && !is_stand_in;
    // A failed renewal must not hide that the certificate has expired.
    let told: Vec<String> = fault.into_iter().chain(problem).collect();
    CertificateStatus {
        chain: config.chain.display().to_string(),
        kind: kind(config, is_stand_in).to_owned(),
        names: pair.names.clone(),
        not_before: Some(pair.validity.from),
        not_after: Some(pair.validity.until),
        is_awaited: false,
        is_faulty,
        renewal_failed,
        until: (!pair.is_made_here).then(|| day(pair.validity.until)),
        renewal: None,
        problem: (!told.is_empty()).then(|| told.join("; ")),
    }
}

fn complain(config: &CertificateConfig, pair: &Pair, now: Wall) {
    if let Some(fault) = pair.fault(now) {
        let chain = config.chain.display();
        tracing::error!(%chain, "clients will not accept this certificate: {fault}");
    }
}

/// Checks certificates that are not in use: the errors that serving them would cause.
pub fn look_over(configured: &[CertificateConfig], now: Wall) -> Vec<CertificateStatus> {
    let provider = rustls::crypto::ring::default_provider();
    let look = |config: &CertificateConfig| match Pair::load_or_stand_in(config, &provider, now) {
        Ok((pair, problem)) => {
            let is_stand_in = problem.is_some();
            of_pair(config, &pair, problem, is_stand_in, now)
        }
        Err(error) => CertificateStatus {
            chain: config.chain.display().to_string(),
            kind: kind(config, false).to_owned(),
            names: Vec::new(),
            not_before: None,
            not_after: None,
            is_awaited: false,
            is_faulty: false,
            renewal_failed: false,
            until: None,
            renewal: None,
            problem: Some(format!("{error}; {}", error.hint())),
        },
    };
    configured.iter().map(look).collect()
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if hello.alpn().is_some_and(|mut offered| offered.any(|it| it == PROTOCOL)) {
            return self.proofs.shown_for(hello.server_name()?);
        }
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(served.find(hello.server_name())))
    }
}

#[cfg(test)]
mod tests;
