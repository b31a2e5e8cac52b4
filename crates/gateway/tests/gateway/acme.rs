//! Certificates by ACME, from Pebble, the test server of those who run Let's Encrypt.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nightwatt_gateway::config::{AcmeConfig, CertificateConfig, DnsConfig, Proof, TlsConfig};
use nightwatt_gateway::status::CertificateStatus;
use nightwatt_needs::{own_address, programs};

use crate::client::get;
use crate::origin::ok;
use crate::origin_tls::Made;
use crate::passthrough_programs::{has, run, succeeded};
use crate::stage::{Setup, Stage, asleep, secs};

const NAME: &str = "blog.example.org";

/// Pebble, and a DNS server that knows this machine by every name; both end with it.
pub(crate) struct Authority {
    children: Vec<Child>,
    /// The certificate of its own server.
    own: Made,
    at: SocketAddr,
    management: SocketAddr,
    dir: tempfile::TempDir,
}

impl Drop for Authority {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Before it is looked again; false.
#[expect(clippy::disallowed_methods, reason = "a program of others begins in real time")]
pub(crate) fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(50));
    false
}

/// An address for Pebble, which makes keys for some seconds before it listens, or for the gateway, of which Pebble must
/// know where it will listen.
pub(crate) fn free() -> SocketAddr {
    nightwatt_needs::free_address()
}

impl Authority {
    /// It gives certificates for so many seconds, and looks for proofs at these ports. None if it is not
    /// here.
    fn start(http: SocketAddr, tls: SocketAddr, seconds: u64) -> Option<Self> {
        Self::start_with(http, tls, seconds, free())
    }

    /// The same; it asks this server for names.
    pub(crate) fn start_with(
        http: SocketAddr,
        tls: SocketAddr,
        seconds: u64,
        dns: SocketAddr,
    ) -> Option<Self> {
        let place = std::env::var_os("PEBBLE").map(PathBuf::from);
        let program = |name: &str| place.as_ref().map_or(name.into(), |place| place.join(name));
        if place.is_none() && !programs(&["pebble", "pebble-challtestsrv"]) || !has("curl") {
            return None;
        }
        let own = Made::new(&format!("IP:{}", own_address()), "10")?;
        let [at, management] = [free(), free()];
        let dir = tempfile::tempdir().unwrap();
        let config = serde_json::json!({ "pebble": {
            "listenAddress": at.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": own.chain(),
            "privateKey": own.key(),
            "httpPort": http.port(),
            "tlsPort": tls.port(),
            "domainBlocklist": ["blocked.example.org"],
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "short", "validityPeriod": seconds } },
        }});
        let path = dir.path().join("pebble.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let mut names = Command::new(program("pebble-challtestsrv"));
        let off = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""];
        // If another one has its address, it does not listen.
        names.args(off).args(["-dns01", &dns.to_string()]);
        // All names lead here.
        names.args(["-defaultIPv4", &own_address().to_string()]);
        names.args(["-management", &free().to_string()]);
        let mut pebble = Command::new(program("pebble"));
        pebble.args(["-dnsserver", &dns.to_string(), "-config"]).arg(&path);
        // It asks in any order, at once, and refuses a fiftieth of all that is well-formed. (By itself a
        // twentieth, which with the client's three tries fails one run of two hundred.)
        pebble.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "2");
        let children = [names, pebble].map(|mut it| {
            let mut file = std::fs::File::options();
            let log = file.create(true).append(true).open(dir.path().join("log")).unwrap();
            it.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
        });
        let authority = Self { children: children.into(), own, at, management, dir };
        for at in [at, management] {
            let up = || std::net::TcpStream::connect(at).is_ok();
            assert!((0..600).any(|_| up() || pause()), "{}", authority.log());
        }
        Some(authority)
    }

    /// The site by TLS, with certificates of this authority for these names.
    fn gives(&self, setup: Setup, ports: [SocketAddr; 2], proof: Proof, names: &[&str]) -> Setup {
        self.gives_by(setup, ports, proof, None, names)
    }

    /// The same; records in DNS are changed like this.
    pub(crate) fn gives_by(
        &self,
        setup: Setup,
        ports: [SocketAddr; 2],
        proof: Proof,
        dns: Option<DnsConfig>,
        names: &[&str],
    ) -> Setup {
        let acme = AcmeConfig {
            directory: format!("https://{}/dir", self.at),
            terms_agreed: true,
            email: Some("me@example.org".to_owned()),
            proof: Some(proof),
            dns,
            ca: Some(self.own.chain()),
        };
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let [http, tls] = ports;
        setup.with(move |config| {
            let file = config.state_dir.join("acme").join(acme.file(&names));
            let certificate = CertificateConfig { chain: file.clone(), key: file, acme: names };
            config.listen = vec![http];
            let (listen, certificate) = (vec![tls], vec![certificate]);
            config.tls = Some(TlsConfig {
                listen,
                port: None,
                http2: true,
                certificate,
                acme: Some(acme),
                client_authorities: Vec::new(),
            });
        })
    }

    /// What a client sees that believes this authority.
    async fn page(&self, stage: &Stage) -> Result<String, String> {
        self.page_of(stage, NAME).await
    }

    /// The same at this name.
    pub(crate) async fn page_of(&self, stage: &Stage, name: &str) -> Result<String, String> {
        let root = self.dir.path().join("root.pem");
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "-o"]).arg(&root);
        succeeded(
            &run({
                curl.arg(format!("https://{}/roots/0", self.management));
                curl
            })
            .await,
        );
        let (ip, port) = (stage.tls_address().ip(), stage.tls_address().port());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--resolve", &format!("{name}:{port}:{ip}"), "--cacert"]).arg(root);
        curl.arg(format!("https://{name}:{port}/"));
        let output = run(curl).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// Waits for it, no longer than a minute.
pub(crate) async fn eventually(
    what: &str,
    authority: &Authority,
    stage: &Stage,
    so: impl Fn() -> bool,
) {
    for _ in 0..1200 {
        if so() {
            return;
        }
        stage.clock.sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: {:?}\n{}", stage.tls(), authority.log());
}

pub(crate) fn problem(stage: &Stage) -> Option<String> {
    stage.tls().certificates.remove(0).problem
}

fn got(proof: Proof) {
    let ports = [free(), free()];
    let Some(authority) = Authority::start(ports[0], ports[1], 40) else { return };
    let setup = authority.gives(asleep().real(), ports, proof, &[NAME, "www.example.org"]);
    let setup = setup.site(|site| site.redirect_to_https = true);
    setup.play(async |stage| {
        stage.origin.says(ok("page"));
        assert!(authority.page(stage).await.unwrap_err().contains("certificate"));
        eventually("a certificate", &authority, stage, || problem(stage).is_none()).await;
        assert_eq!(stage.commands(), (0, 0), "no proof wakes anybody");
        let first = stage.tls().certificates[0].not_after;
        let mut names = stage.tls().certificates.remove(0).names;
        names.sort();
        assert_eq!(names, [NAME, "www.example.org"]);
        assert_eq!(authority.page(stage).await.as_deref(), Ok("page"));
        eventually("another one", &authority, stage, || {
            stage.tls().certificates[0].not_after > first
        })
        .await;
        assert_eq!(authority.page(stage).await.as_deref(), Ok("page"));
        assert_eq!(problem(stage), None);
    });
}

#[test]
fn a_certificate_is_got_and_renewed_while_the_server_sleeps_by_a_proof_in_plain_http() {
    got(Proof::Http);
}

#[test]
fn a_certificate_is_got_and_renewed_by_a_proof_in_a_handshake() {
    got(Proof::TlsAlpn);
}

#[test]
fn a_name_that_does_not_lead_here_is_told_with_what_the_authority_saw() {
    let [http, tls, elsewhere] = [free(), free(), free()];
    let Some(authority) = Authority::start(elsewhere, tls, 3600) else { return };
    authority.gives(asleep().real(), [http, tls], Proof::Http, &[NAME]).play(async |stage| {
        let seen = || problem(stage).is_some_and(|it| it.contains(&format!("{NAME}: ")));
        eventually("what it saw", &authority, stage, seen).await;
        let said = problem(stage).unwrap();
        assert!(said.contains("connection refused"), "{said}");
    });
}

#[test]
fn what_an_authority_refuses_is_told_and_plain_http_goes_on() {
    let ports = [free(), free()];
    let Some(authority) = Authority::start(ports[0], ports[1], 3600) else { return };
    let names = ["blocked.example.org"];
    let setup = authority.gives(asleep().real(), ports, Proof::Http, &names);
    setup.play(async |stage| {
        let is_told = || problem(stage).is_some_and(|it| it.contains("no new one was got"));
        eventually("the refusal", &authority, stage, is_told).await;
        let said = problem(stage).unwrap();
        assert!(said.contains("blocklist") || said.contains("policy"), "{said}");
        assert_eq!(stage.ask(get("/")).await.status, 200);
    });
}

/// A certificate for these names with its key, in one file, between these two days of November 2026.
fn written(path: &Path, names: &[String], [from, until]: [u8; 2]) {
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(2026, 11, from);
    params.not_after = rcgen::date_time_ymd(2026, 11, until);
    let key = rcgen::KeyPair::generate().unwrap();
    let text = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What `/metrics` says of the only certificate.
async fn figures(stage: &Stage) -> [u64; 3] {
    let page = stage.ask_admin(get("/metrics")).await.text().to_owned();
    ["lifetime_seconds", "faulty", "renewal_failed"].map(|name| {
        let start = format!("nightwatt_certificate_{name}{{");
        let line = page.lines().find(|line| line.starts_with(&start)).expect("a figure");
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    })
}

/// An authority that is not there, and a certificate of six days, half a day before its end.
pub(crate) fn without_authority() -> Setup {
    let acme = AcmeConfig {
        directory: "https://127.0.0.1:1/dir".to_owned(),
        terms_agreed: true,
        email: None,
        proof: Some(Proof::TlsAlpn),
        dns: None,
        ca: None,
    };
    let names = vec![NAME.to_owned()];
    asleep().with(move |config| {
        let file = config.state_dir.join("acme").join(acme.file(&names));
        written(&file, &names, [18, 24]);
        let certificate = vec![CertificateConfig { chain: file.clone(), key: file, acme: names }];
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.tls = Some(TlsConfig {
            listen,
            port: None,
            http2: true,
            certificate,
            acme: Some(acme),
            client_authorities: Vec::new(),
        });
    })
}

#[test]
fn a_renewal_that_fails_is_no_fault_of_the_certificate_that_clients_get() {
    without_authority().play(async |stage| {
        stage.at(3600).await;
        assert_eq!(figures(stage).await, [518_400, 0, 1]);
        let said = problem(stage).unwrap();
        assert!(said.starts_with("no new one was got: "), "{said}");
        // Two thirds of six days: the 22nd.
        let renewal = stage.tls().certificates.remove(0).renewal.unwrap();
        assert_eq!(
            (renewal.at_text.as_str(), renewal.from),
            ("Sun, 22 Nov 2026 00:00:00 GMT", None)
        );
        stage.pass(secs(12 * 3600)).await;
        assert_eq!(figures(stage).await, [518_400, 1, 1]);
        let said = problem(stage).unwrap();
        assert!(said.starts_with("it expired on Tue, 24 Nov 2026 00:00:00 GMT; no new"), "{said}");
    });
}

fn certificate(stage: &Stage) -> CertificateStatus {
    stage.tls().certificates.remove(0)
}

/// Pebble suggests the whole lifetime, or a part of it by its version. What its interface for tests suggests has no
/// `Retry-After`, which RFC 9773 demands; so certificates live for half a minute here.
#[test]
fn a_certificate_is_renewed_when_its_authority_suggests_it() {
    const LIVES: i64 = 30;
    let ports = [free(), free()];
    let Some(authority) = Authority::start(ports[0], ports[1], 30) else { return };
    authority.gives(asleep().real(), ports, Proof::Http, &[NAME]).play(async |stage| {
        let has_window = || certificate(stage).renewal.is_some_and(|it| it.from.is_some());
        eventually("its window", &authority, stage, has_window).await;
        let first = certificate(stage);
        let file = PathBuf::from(&first.chain);
        let got = || std::fs::read_to_string(&file).unwrap();
        let before = got();
        let renewal = first.renewal.unwrap();
        let (from, until) = (renewal.from.unwrap(), renewal.until.unwrap());
        let ends = first.not_after.unwrap();
        assert!(ends - LIVES <= from && from < until && until <= ends, "{renewal:?}, {ends}");
        assert!((from..=until).contains(&renewal.at), "{renewal:?}");
        assert!(renewal.at <= ends - LIVES / 10 + 1, "not in the last tenth: {renewal:?}");
        let page = stage.ask_admin(get("/metrics")).await.text().to_owned();
        let line = format!("moment=\"at\"}} {}", renewal.at);
        assert!(page.contains(&line), "{line}: {page}");
        eventually("another one", &authority, stage, || got() != before).await;
        // The second order, and not the first. (The moment may have been at once: it is ordered by now.)
        let log = authority.log();
        let [issued, replaced] =
            ["Issued certificate serial ", "is a replacement of"].map(|it| log.find(it));
        assert!(issued.is_some() && issued < replaced, "{log}");
        assert_eq!(problem(stage), None);
        // One that was replaced already, as after a restore from a backup: the order replaces nothing then.
        std::fs::write(&file, &before).unwrap();
        stage.reload(|_| {}).await.unwrap();
        eventually("one without", &authority, stage, || got() != before).await;
    });
}
