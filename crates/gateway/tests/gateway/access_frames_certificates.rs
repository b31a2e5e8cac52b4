//! Frames of HTTP/2 to a site for certificates. A connection belongs to no site: whatever name it was made for
//! and whatever it shows, each request on it is judged by its own `:authority`.

use std::path::{Path, PathBuf};

use nightwatt_gateway::Config;
use nightwatt_gateway::config::AccessConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::access_certificates::{authority, opens_to, person};
use crate::access_frames::{answered, closed_and_open, none_passes};
use crate::http2::{Hello, connection_of, with_tls};
use crate::http2_smuggling::{Case, Fate, bytes, head};
use crate::stage::{Setup, Stage, watched};

/// Names of the other sites. The server's certificate has them too.
const OPEN: &str = "open.site.example";
const FRIENDS: &str = "friends.site.example";

/// `blog` opens to the family and another site to friends; a third is for all. Each authority has signed for one
/// person, and so has one that no site knows.
fn for_certificates(dir: &Path, setup: Setup) -> Setup {
    let (family, friends) = (authority(dir, "family"), authority(dir, "friends"));
    authority(dir, "strangers");
    for (name, of) in [("ann", "family"), ("bob", "friends"), ("eve", "strangers")] {
        person(dir, name, of, "clientAuth");
    }
    setup.with(move |config: &mut Config| {
        config.site[1].hosts.push(OPEN.to_owned());
        let mut other = config.clone();
        opens_to(&mut other, &friends);
        let mut site = other.site.swap_remove(0);
        "friends".clone_into(&mut site.name);
        site.hosts = vec![FRIENDS.to_owned()];
        config.site.push(site);
        opens_to(config, &family);
        let read = |path: &PathBuf| CertificateDer::from_pem_file(path).unwrap();
        let known = [family, friends].iter().map(read).collect();
        config.tls.as_mut().unwrap().client_authorities = known;
    })
}

/// Plays a story with these sites, in whose folder the certificates are.
fn play(story: impl AsyncFnOnce(&Stage, &Path, &Path)) {
    let closed = closed_and_open(AccessConfig::default());
    let Some((dir, chain, setup)) = with_tls(closed) else { return };
    for_certificates(dir.path(), setup).play(async |stage| {
        let stage: &Stage = stage;
        story(stage, &chain, dir.path()).await;
    });
}

fn plain(name: &str, method: &str) -> Case {
    Case::new(name, head(method, "/case"), Fate::Refused)
}

/// The person whose certificate opens it comes in by a connection for another site, and wakes the server.
async fn opens_to_ann(stage: &Stage, chain: &Path, dir: &Path) {
    let ann = dir.join("ann");
    let hello = Hello { chain, name: OPEN, person: Some(&ann) };
    let case = plain("ann", "GET");
    let got = watched(&case.name, answered(stage, hello, &case)).await;
    assert!(got.case && got.canary, "{got:?}");
    assert_eq!(stage.commands(), (1, 0));
    assert!(stage.origin.lines().contains(&"GET /case".to_owned()), "{:?}", stage.origin.lines());
}

#[test]
fn no_frames_without_a_certificate_pass_or_wake_its_site() {
    play(async |stage, chain, dir| {
        Box::pin(none_passes(stage, Hello::new(chain))).await;
        Box::pin(opens_to_ann(stage, chain, dir)).await;
    });
}

#[test]
fn no_frames_with_a_certificate_of_another_sites_authority_pass() {
    play(async |stage, chain, dir| {
        let bob = dir.join("bob");
        let hello = Hello { person: Some(&bob), ..Hello::new(chain) };
        Box::pin(none_passes(stage, hello)).await;
        Box::pin(opens_to_ann(stage, chain, dir)).await;
    });
}

#[test]
fn no_frames_on_a_connection_for_the_open_site_pass() {
    play(async |stage, chain, dir| {
        let hello = Hello { name: OPEN, ..Hello::new(chain) };
        Box::pin(none_passes(stage, hello)).await;
        Box::pin(opens_to_ann(stage, chain, dir)).await;
    });
}

#[test]
fn no_frames_on_a_connection_that_opens_another_site_pass() {
    play(async |stage, chain, dir| {
        let bob = dir.join("bob");
        let hello = Hello { chain, name: FRIENDS, person: Some(&bob) };
        Box::pin(none_passes(stage, hello)).await;
        Box::pin(opens_to_ann(stage, chain, dir)).await;
    });
}

/// What comes back on the connection of a person before it ends, whatever is sent.
async fn comes_back(stage: &Stage, hello: Hello<'_>) -> Vec<u8> {
    // By TLS 1.3 the client is done before the server has seen its certificate.
    let mut stream = Box::pin(connection_of(stage, hello)).await;
    let _ = stream.write_all(&bytes(&plain("of a stranger", "GET"))).await;
    let mut got = Vec::new();
    let _ = watched("the end of the connection", stream.read_to_end(&mut got)).await;
    got
}

#[test]
fn a_certificate_of_an_unknown_authority_gets_no_frame_whatever_the_site() {
    play(async |stage, chain, dir| {
        let eve = dir.join("eve");
        for name in ["blog", OPEN, FRIENDS] {
            let got = comes_back(stage, Hello { chain, name, person: Some(&eve) }).await;
            assert_eq!(got.escape_ascii().to_string(), "", "as {name}");
        }
        assert_eq!((stage.tls().handshakes, stage.commands()), (0, (0, 0)));
        Box::pin(opens_to_ann(stage, chain, dir)).await;
    });
}

/// The canary behind each case is for `blog`, to which ann's certificate belongs.
#[test]
fn a_certificate_opens_its_own_site_alone_on_each_connection() {
    play(async |stage, chain, dir| {
        Box::pin(opens_to_ann(stage, chain, dir)).await;
        let ann = dir.join("ann");
        for name in ["blog", OPEN, FRIENDS] {
            let hello = Hello { chain, name, person: Some(&ann) };
            for other in [FRIENDS, "FRIENDS.site.example.", "friends.site.example:443"] {
                let case = Case::changed(":authority", other, Fate::Refused);
                let got = watched(&case.name, answered(stage, hello, &case)).await;
                assert_eq!((got.case, got.canary), (false, true), "{other} as {name}");
            }
        }
        let sites = stage.running_status().sites;
        let friends = sites.iter().find(|site| site.name == "friends").expect("their site");
        let answers: Vec<_> = friends.answers.iter().filter(|(_, count)| **count > 0).collect();
        assert_eq!(answers, [(&"denied".to_owned(), &9)]);
        assert_eq!((friends.state.as_str(), stage.commands()), ("asleep", (1, 0)));
    });
}
