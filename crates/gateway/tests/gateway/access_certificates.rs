//! Certificates of clients, made by OpenSSL and shown by curl.

use std::path::{Path, PathBuf};
use std::process::Command;

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{AccessConfig, Vouchers};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::access::rule;
use crate::passthrough_programs::{has, run, succeeded};
use crate::stage::{Stage, asleep, awake, timeout};
use crate::tls::{by_tls, certificate, curl};

fn openssl(args: &[&str], dir: &Path) {
    let done = Command::new("openssl").args(args).current_dir(dir).output().unwrap();
    succeeded(&done);
}

const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// An authority of this name.
pub(crate) fn authority(dir: &Path, name: &str) -> PathBuf {
    let (key, out, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
    let own = ["req", "-x509", "-days", "3650", "-subj", &subject, "-keyout", &key, "-out", &out];
    openssl(&[&own[..], &KEY].concat(), dir);
    dir.join(out)
}

/// A certificate for a person (or, with `usage`, for another end) of an authority.
pub(crate) fn person(dir: &Path, name: &str, authority: &str, usage: &str) {
    let subject = format!("/CN={name}");
    let (key, request, out) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
    let asks = ["req", "-subj", &subject, "-keyout", &key, "-out", &request];
    openssl(&[&asks[..], &KEY].concat(), dir);
    std::fs::write(
        dir.join("ext"),
        format!("extendedKeyUsage={usage}\nbasicConstraints=CA:FALSE\n"),
    )
    .unwrap();
    let (ca, ca_key) = (format!("{authority}.pem"), format!("{authority}.key"));
    let signs = ["x509", "-req", "-in", &request, "-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial"];
    openssl(&[&signs[..], &["-days", "3650", "-extfile", "ext", "-out", &out]].concat(), dir);
}

pub(crate) fn opens_to(config: &mut Config, authority: &Path) {
    let vouchers = Vouchers::parse(&std::fs::read(authority).unwrap()).unwrap();
    let access = AccessConfig {
        certificate_ca: Some(authority.to_owned()),
        vouchers,
        ..AccessConfig::default()
    };
    config.site[0].access = Some(access);
}

/// What curl gets with the certificate of a person: the status, and nothing if there is no connection.
async fn asks_as(
    stage: &Stage,
    chain: &Path,
    dir: &Path,
    name: &str,
    host: &str,
) -> Option<String> {
    let mut curl = curl(stage, chain, "/a");
    if !name.is_empty() {
        curl.arg("--cert").arg(dir.join(format!("{name}.pem")));
        curl.arg("--key").arg(dir.join(format!("{name}.key")));
    }
    curl.args([
        "-H",
        &format!("Host: {host}"),
        "-H",
        "X-Client-Cert: ann",
        "-H",
        "X-SSL-Client-Verify: SUCCESS",
    ]);
    let output = run(curl).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split(' ').nth(1).map(str::to_owned)
}

#[test]
fn only_a_certificate_of_the_sites_authority_opens_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()).filter(|_| has("curl")) else { return };
    let (dir, chain) = (dir.path().to_owned(), made.chain.clone());
    let (family, friends) = (authority(&dir, "family"), authority(&dir, "friends"));
    authority(&dir, "strangers");
    person(&dir, "ann", "family", "clientAuth");
    person(&dir, "bob", "friends", "clientAuth");
    person(&dir, "eve", "strangers", "clientAuth");
    person(&dir, "server", "family", "serverAuth");
    let known = [family.clone(), friends.clone()];
    by_tls(asleep().real(), &made)
        .with(move |config| {
            config.scenario.policy = timeout(3600);
            opens_to(config, &family);
            // Another site opens to friends, and a third to all.
            for (name, host) in [("friends", "friends.example"), ("open", "open.example")] {
                let mut site = config.site[0].clone();
                name.clone_into(&mut site.name);
                site.hosts = vec![host.to_owned()];
                site.access = None;
                config.site.push(site);
            }
            config.site[0].hosts = vec!["blog".to_owned()];
            let mut other = config.clone();
            opens_to(&mut other, &friends);
            config.site[1].access = other.site[0].access.take();
            let read = |path: &PathBuf| CertificateDer::from_pem_file(path).unwrap();
            config.tls.as_mut().unwrap().client_authorities = known.iter().map(read).collect();
        })
        .play(async |stage| {
            let status = async |name: &str, host: &str| {
                asks_as(stage, &chain, &dir, name, host).await.unwrap_or_default()
            };
            assert_eq!(status("", "blog").await, "403");
            assert_eq!(rule(stage).as_deref(), Some("access-certificate"));
            assert_eq!(status("bob", "blog").await, "403", "of the other site's authority");
            assert_eq!(status("eve", "blog").await, "", "no handshake with an unknown authority");
            assert_eq!(
                status("server", "blog").await,
                "",
                "a server's certificate is not a person's"
            );
            assert_eq!(stage.commands(), (0, 0));
            assert_eq!(status("ann", "blog").await, "200");
            assert_eq!(status("ann", "friends.example").await, "403");
            assert_eq!(status("", "open.example").await, "200", "others need none");
            // Without TLS there is no certificate.
            let got = stage.ask(crate::client::get("/a")).await;
            assert_eq!(got.how(), (403, "denied"));
        });
}

/// An authority that another one has signed.
fn between(dir: &Path, name: &str, root: &str) {
    let (key, out, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
    let (root_key, root) = (format!("{root}.key"), format!("{root}.pem"));
    let own = ["req", "-x509", "-days", "3650", "-subj", &subject, "-keyout", &key, "-out", &out];
    let signs = ["-CA", &root, "-CAkey", &root_key];
    openssl(&[&own[..], &signs, &KEY].concat(), dir);
}

#[test]
fn a_chain_opens_the_sites_of_each_authority_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()).filter(|_| has("curl")) else { return };
    let (dir, chain) = (dir.path().to_owned(), made.chain.clone());
    let (root, inter) = (authority(&dir, "root"), dir.join("inter.pem"));
    between(&dir, "inter", "root");
    person(&dir, "ann", "inter", "clientAuth");
    person(&dir, "bob", "root", "clientAuth");
    let (leaf, inter_text) = (dir.join("ann.pem"), std::fs::read(&inter).unwrap());
    let both = [std::fs::read(&leaf).unwrap(), inter_text].concat();
    std::fs::write(&leaf, both).unwrap();
    let known = [root.clone(), inter.clone()];
    by_tls(awake().real(), &made)
        .with(move |config| {
            let mut site = config.site[0].clone();
            "inter".clone_into(&mut site.name);
            site.hosts = vec!["inter.example".to_owned()];
            config.site[0].hosts = vec!["blog".to_owned()];
            let mut other = config.clone();
            opens_to(&mut other, &inter);
            site.access = other.site[0].access.take();
            opens_to(config, &root);
            config.site.push(site);
            let read = |path: &PathBuf| CertificateDer::from_pem_file(path).unwrap();
            config.tls.as_mut().unwrap().client_authorities = known.iter().map(read).collect();
        })
        .play(async |stage| {
            for (name, host, status) in [
                ("ann", "blog", "200"),
                ("ann", "inter.example", "200"),
                ("bob", "blog", "200"),
                ("bob", "inter.example", "403"),
            ] {
                let got = asks_as(stage, &chain, &dir, name, host).await.unwrap_or_default();
                assert_eq!(got, status, "{name} at {host}");
            }
        });
}
