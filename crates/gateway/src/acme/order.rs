//! One order: proves that we control the names, and obtains a certificate for them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};

use nightwatt_host::explained::Explained;

use super::dns_challenge::{DnsError, Records};
use crate::config::Proof;
use crate::proofs::Proofs;
use crate::tls::identity::Identity;

/// An authority checks from several places, which may be slow.
const TIMEOUT: RetryPolicy = RetryPolicy::new().timeout(Duration::from_mins(2));

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// The authority refused, or could not be reached.
    #[error("{0}")]
    Authority(#[from] instant_acme::Error),
    /// It rejects the proof for a name.
    #[error("{0}")]
    NotProved(String),
    /// It requires another kind of proof.
    #[error("the authority takes no {0:?} proof for {1}")]
    NoSuchProof(Proof, String),
    /// It did not finish in time.
    #[error("the authority took longer than five minutes")]
    Silent,
    /// Its certificate has expired already, or could not be parsed.
    #[error("what the authority gave cannot be used")]
    OfNoUse,
    /// The trusted authorities cannot be loaded.
    #[error("`tls.acme.ca`: {}", Explained::one_line(.0))]
    Trust(nightwatt_host::tls::TlsError),
    /// A record in DNS could not be made.
    #[error("{0}")]
    Dns(#[from] DnsError),
    /// The certificate that serves as a proof could not be made.
    #[error("{0}")]
    Made(#[from] rcgen::Error),
    /// A file could not be written.
    #[error("{}: {why}", .path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
}

impl Failed {
    pub(super) fn file(path: &Path, why: io::Error) -> Self {
        Self::File { path: path.to_owned(), why }
    }

    /// Least pause before the next attempt. After an authority has issued a certificate, it issues the same one at most
    /// five times a week (Let's Encrypt).
    pub(super) const fn least_pause(&self) -> Duration {
        match self {
            Self::OfNoUse => Duration::from_hours(34),
            _ => Duration::ZERO,
        }
    }

    /// What to try next.
    pub(super) const fn hint(&self) -> &'static str {
        match self {
            Self::NotProved(_) => {
                "the name must lead here from the internet: port 80 for http-01, port 443 for tls-alpn-01; \
                 look at its DNS (A and AAAA) and at the router. For dns-01 the world must see the record that \
                 `tls.acme.dns` changes"
            }
            Self::NoSuchProof(..) => "set `tls.acme.proof` to another one",
            Self::Dns(DnsError::Hook { .. }) => {
                "run the hook by hand, with the variables of docs/tls.md"
            }
            Self::Dns(_) => {
                "`tls.acme.dns` names the server and its key; the server's log says why it refuses, and \
                 `nsupdate -k KEY_FILE` asks it by hand"
            }
            Self::Authority(_) => "its answer says why; `tls.acme.directory` says who is asked",
            Self::Silent => "is the network there?",
            Self::OfNoUse => "is the clock right?",
            Self::Trust(_) => "`tls.acme.ca` is a file of certificates in PEM",
            Self::Made(_) => "names must be those of hosts",
            Self::File { .. } => "nightwatt must be able to write to `state_dir`",
        }
    }
}

/// How names are proved.
pub(super) struct Proving<'a, 'b> {
    pub(super) proof: Proof,
    /// By `http-01` and `tls-alpn-01`.
    pub(super) proofs: &'a Proofs,
    /// By `dns-01`.
    pub(super) records: &'a mut Records<'b>,
}

/// What an authority knows a certificate by.
pub(super) fn identifier(it: Identity) -> CertificateIdentifier<'static> {
    CertificateIdentifier::new(it.authority_key.into(), it.serial.into()).into_owned()
}

/// Begins an order, and names the certificate that it replaces. If the authority does not take that (it has no renewal
/// information, or knows of another replacement already), the order replaces nothing.
async fn begin(
    account: &Account,
    identifiers: &[Identifier],
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Order, Error> {
    if let Some(replaces) = replaces {
        let old = replaces.to_string();
        match account.new_order(&NewOrder::new(identifiers).replaces(replaces)).await {
            Ok(order) => {
                tracing::info!(
                    certificate = old,
                    "the authority knows which certificate is replaced"
                );
                return Ok(order);
            }
            Err(Error::Unsupported(_)) => {}
            Err(error @ Error::Api(_)) => {
                tracing::warn!(certificate = old, %error, "an order replaces nothing");
            }
            Err(error) => return Err(error),
        }
    }
    account.new_order(&NewOrder::new(identifiers)).await
}

/// Obtains a certificate for these names: the chain followed by the key, in PEM.
pub(super) async fn carry_out(
    account: &Account,
    names: &[String],
    replaces: Option<CertificateIdentifier<'static>>,
    proving: &mut Proving<'_, '_>,
) -> Result<String, Failed> {
    let Proving { proof, proofs, records } = proving;
    let proof = *proof;
    let kind = match proof {
        Proof::Http => ChallengeType::Http01,
        Proof::TlsAlpn => ChallengeType::TlsAlpn01,
        Proof::Dns => ChallengeType::Dns01,
    };
    let identifiers: Vec<Identifier> =
        names.iter().map(|name| Identifier::Dns(name.to_ascii_lowercase())).collect();
    let mut order = begin(account, &identifiers, replaces).await?;
    // The proofs are served until the order is done.
    let mut given = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        let challenge = authorization
            .challenge(kind.clone())
            .ok_or(Failed::NoSuchProof(proof, name.clone()))?;
        let answer = challenge.key_authorization();
        match proof {
            Proof::Http => given.push(proofs.publish(&challenge.token, answer.as_str())),
            Proof::TlsAlpn => given.push(proofs.show(&name, answer.digest().as_ref())?),
            Proof::Dns => records.add(&name, &answer.dns_value()).await?,
        }
    }
    // Two names may share one set of records (`example.org` and `*.example.org`). All are there before the authority
    // looks for the first: else its resolver could keep a set that lacks the second.
    records.wait_for_all().await?;
    ask_to_check(&mut order, &kind).await?;
    match order.poll_ready(&TIMEOUT).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => {
            let unexplained = Failed::NotProved("the authority does not say why".to_owned());
            return Err(rejected(&mut order, unexplained).await);
        }
        Err(error @ (Error::Api(_) | Error::Timeout(_))) => {
            return Err(rejected(&mut order, error.into()).await);
        }
        Err(error) => return Err(error.into()),
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&TIMEOUT).await?;
    drop(given);
    Ok(format!("{chain}\n{key}"))
}

/// Asks the authority to check the proofs of this kind.
async fn ask_to_check(order: &mut Order, kind: &ChallengeType) -> Result<(), Failed> {
    let mut refused = BTreeMap::new();
    let mut number = 0;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        number += 1;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let Some(mut challenge) = authorization.challenge(kind.clone()) else { continue };
        match challenge.set_ready().await {
            Ok(()) => {}
            Err(Error::Api(problem)) => {
                refused.insert(number, problem);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if refused.is_empty() { Ok(()) } else { are_checked(order, kind, &refused).await }
}

/// Fails if the authority does not check the proofs of these authorizations, by their number. An error in its answer to
/// a challenge may also be that of a check, which is over or is repeated (RFC 8555, 8.2): then the order tells its result.
async fn are_checked(
    order: &mut Order,
    kind: &ChallengeType,
    refused: &BTreeMap<usize, Problem>,
) -> Result<(), Failed> {
    let mut reasons = Vec::new();
    let mut number = 0;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        number += 1;
        let Some(problem) = refused.get(&number) else { continue };
        let name = authorization.identifier().to_string();
        let challenges = &authorization.refresh().await?.challenges;
        let mut challenges = challenges.iter().filter(|it| it.r#type == *kind);
        if challenges.any(|it| it.status == ChallengeStatus::Pending) {
            reasons.push(format!("{name}: {problem}"));
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(Failed::NotProved(reasons.join("; "))) }
}

/// Why the authority rejected an order: the names it could not check, else `otherwise`.
async fn rejected(order: &mut Order, otherwise: Failed) -> Failed {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Err(error) = authorization.refresh().await {
            tracing::debug!(%error, "an authorization cannot be read again");
        }
        let name = authorization.identifier().to_string();
        let errors = authorization.challenges.iter().filter_map(|it| it.error.as_ref());
        reasons.extend(errors.map(|error| {
            format!("{name}: {}", error.detail.clone().unwrap_or_else(|| error.to_string()))
        }));
    }
    if reasons.is_empty() { otherwise } else { Failed::NotProved(reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use http::Request;
    use instant_acme::{BodyWrapper, BytesResponse, HttpClient, NewAccount};
    use nightwatt_clock::Clock;
    use serde_json::{Value, json};

    use super::*;

    /// What an authority means by an error in its answer to a challenge.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Meaning {
        /// It does not check.
        Refused,
        /// It has checked immediately.
        Invalid,
        /// It checks again, and then the proof is there.
        Repeated,
    }

    struct Authority {
        meaning: Meaning,
        error: Value,
        is_asked: AtomicBool,
        is_finalized: AtomicBool,
    }

    impl Authority {
        fn answer(&self, path: &str) -> Value {
            let at = |path: &str| format!("https://ca.example/{path}");
            let is_asked = self.is_asked.load(Ordering::Relaxed);
            let status = match self.meaning {
                Meaning::Invalid if is_asked => "invalid",
                Meaning::Repeated if is_asked => "processing",
                _ => "pending",
            };
            let is_known = is_asked && self.meaning != Meaning::Refused;
            let challenge = |is_known: bool| {
                json!({
                    "type": "http-01", "url": at("challenge"), "token": "token", "status": status,
                    "error": is_known.then_some(&self.error),
                })
            };
            let order = |status: &str| {
                json!({
                    "status": status, "authorizations": [at("authorization")],
                    "finalize": at("finalize"), "certificate": at("certificate"),
                })
            };
            match path {
                "/directory" => json!({
                    "newNonce": at("nonce"), "newAccount": at("account"), "newOrder": at("new-order"),
                }),
                "/new-order" => order("pending"),
                "/authorization" => json!({
                    "identifier": { "type": "dns", "value": "lan.example.org" },
                    "status": "pending", "challenges": [challenge(is_known)],
                }),
                "/challenge" => {
                    self.is_asked.store(true, Ordering::Relaxed);
                    challenge(true)
                }
                "/finalize" => {
                    self.is_finalized.store(true, Ordering::Relaxed);
                    order("processing")
                }
                "/order" => match self.meaning {
                    Meaning::Refused => order("pending"),
                    Meaning::Invalid => order("invalid"),
                    Meaning::Repeated if self.is_finalized.load(Ordering::Relaxed) => {
                        order("valid")
                    }
                    Meaning::Repeated => order("ready"),
                },
                "/certificate" => json!("chain"),
                _ => json!({ "status": "valid" }),
            }
        }
    }

    impl HttpClient for Authority {
        fn request(
            &self,
            request: Request<BodyWrapper<Bytes>>,
        ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
            let answer = self.answer(request.uri().path()).to_string();
            let answer = http::Response::builder()
                .header("Replay-Nonce", "nonce")
                .header("Location", "https://ca.example/order")
                .body(http_body_util::Full::new(Bytes::from(answer)))
                .unwrap();
            Box::pin(async { Ok(BytesResponse::from(answer)) })
        }
    }

    async fn order_from(meaning: Meaning, error: Value) -> Result<String, String> {
        let new =
            NewAccount { contact: &[], terms_of_service_agreed: true, only_return_existing: false };
        let [is_asked, is_finalized] = [false, false].map(AtomicBool::new);
        let authority = Authority { meaning, error, is_asked, is_finalized };
        let directory = "https://ca.example/directory".to_owned();
        let account = Account::builder_with_http(Box::new(authority));
        let (account, _) = account.create(&new, directory, None).await.unwrap();
        let (clock, proofs) = (Clock::real(), Proofs::default());
        let mut records = Records::open(None, &clock, PathBuf::from("/nonexistent"));
        let mut proving = Proving { proof: Proof::Http, proofs: &proofs, records: &mut records };
        let names = ["lan.example.org".to_owned()];
        let done = carry_out(&account, &names, None, &mut proving).await;
        done.map_err(|error| error.to_string())
    }

    /// RFC 8555, 7.1.5 and 8.2: a challenge has the error of its last check, also while the server retries.
    #[tokio::test]
    async fn an_error_in_the_answer_to_a_challenge_names_its_name_unless_the_check_is_repeated() {
        let error =
            json!({ "type": "urn:ietf:params:acme:error:unauthorized", "detail": "no text" });
        let invalid = order_from(Meaning::Invalid, error.clone()).await.unwrap_err();
        assert_eq!(invalid, "lan.example.org: no text");
        let refused = order_from(Meaning::Refused, error.clone()).await.unwrap_err();
        assert!(
            refused.starts_with("lan.example.org: ") && refused.contains("no text"),
            "{refused}"
        );
        let pem = order_from(Meaning::Repeated, error).await.unwrap();
        assert!(pem.starts_with("\"chain\"\n") && pem.contains("PRIVATE KEY"), "{pem}");
        let mute = json!({ "type": "urn:ietf:params:acme:error:dns" });
        let mute = order_from(Meaning::Invalid, mute).await.unwrap_err();
        assert!(mute.contains("acme:error:dns"), "{mute}");
    }
}
