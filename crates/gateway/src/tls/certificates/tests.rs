use std::process::Command;

use super::*;

/// A certificate for these names, valid for ten days from now on, by `openssl`; none if that is not here.
fn made(dir: &Path, file: &str, names: &str) -> Option<CertificateConfig> {
    nightwatt_needs::program("openssl")?;
    let (chain, key) = (dir.join(format!("{file}.pem")), dir.join(format!("{file}.key")));
    let mut openssl = Command::new("openssl");
    openssl
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "10", "-subj", "/CN=test"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&chain);
    if !names.is_empty() {
        openssl.args(["-addext", &format!("subjectAltName={names}")]);
    }
    match openssl.output() {
        Ok(made) if made.status.success() => {
            Some(CertificateConfig { chain, key, ..CertificateConfig::default() })
        }
        _ => {
            println!("skipped: this openssl makes no such certificates");
            None
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// So many seconds after the test began.
fn at(seconds: u64) -> Now {
    let now = nightwatt_clock::Clock::real().now();
    Now { mono: Mono(Duration::from_secs(seconds)), ..now }
}

fn served(certificates: &Certificates, name: Option<&str>) -> CertificateDer<'static> {
    certificates.served.read().unwrap().find(name).cert[0].clone()
}

fn first_in(config: &CertificateConfig) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(&config.chain).unwrap()
}

#[test]
fn a_certificate_is_found_by_its_names_and_a_star_stands_for_one_label() {
    let dir = tempfile::tempdir().unwrap();
    let Some(blog) = made(dir.path(), "blog", "DNS:Blog.example,DNS:www.blog.example") else {
        return;
    };
    let Some(shop) = made(dir.path(), "shop", "DNS:*.shop.example,DNS:blog.example") else {
        return;
    };
    let all = [blog.clone(), shop.clone()];
    let certificates = Certificates::load(&all, &provider(), at(0)).unwrap();
    let is_served = |name: Option<&str>, config| {
        assert_eq!(served(&certificates, name), first_in(config), "{name:?}");
    };
    is_served(Some("blog.example"), &blog);
    is_served(Some("WWW.blog.example"), &blog);
    is_served(Some("a.shop.example"), &shop);
    // Not two labels, and not none; who is not known, or says nothing, gets the first.
    for name in [Some("b.a.shop.example"), Some("shop.example"), Some("example"), None] {
        is_served(name, &blog);
    }
}

#[test]
fn what_changed_is_reread_after_a_minute_and_what_is_broken_leaves_the_old() {
    let dir = tempfile::tempdir().unwrap();
    let Some(config) = made(dir.path(), "blog", "DNS:blog.example") else { return };
    let certificates =
        Certificates::load(std::slice::from_ref(&config), &provider(), at(0)).unwrap();
    let old = first_in(&config);
    made(dir.path(), "blog", "DNS:blog.example").unwrap();
    let new = first_in(&config);
    assert_ne!(old, new);
    certificates.look(at(59));
    assert_eq!(served(&certificates, None), old, "nobody looks that often");
    certificates.look(at(60));
    assert_eq!(served(&certificates, None), new);
    let key = fs::read(&config.key).unwrap();
    made(dir.path(), "blog", "DNS:blog.example").unwrap();
    fs::write(&config.key, &key).unwrap();
    certificates.look(at(120));
    assert_eq!(served(&certificates, None), new, "a key that does not fit is not used");
    let said = certificates.status(at(120).wall).remove(0).problem.unwrap();
    assert!(said.contains("does not belong to the first certificate"), "{said}");
    fs::remove_file(&config.chain).unwrap();
    certificates.look(at(180));
    assert_eq!(served(&certificates, None), new);
    let newest = made(dir.path(), "blog", "DNS:blog.example").map(|it| first_in(&it)).unwrap();
    certificates.look(at(240));
    assert_eq!(served(&certificates, None), newest);
    assert_eq!(certificates.status(at(240).wall)[0].problem, None);
}

#[test]
fn what_clients_will_not_accept_is_said_with_its_day() {
    let dir = tempfile::tempdir().unwrap();
    let Some(config) = made(dir.path(), "blog", "DNS:blog.example") else { return };
    let pair = Pair::load(&config, &provider()).unwrap();
    let now = at(0).wall;
    assert_eq!(pair.fault(now), None);
    let later = |days: i64| Wall(now.0 + days * 86_400_000);
    // Ten days from when it was made, a second or so ago.
    assert_eq!(pair.fault(later(9)), None);
    let expired = pair.fault(later(11)).unwrap();
    assert_eq!(expired, format!("it expired on {}", day(pair.validity.until)));
    let printed = Command::new("openssl")
        .args(["x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in"])
        .arg(&config.chain)
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    // `notAfter=2026-12-03 15:42:00Z` and `.., 03 Dec 2026 15:42:00 GMT`.
    let time = printed.trim().rsplit(' ').next().unwrap().trim_end_matches('Z').to_owned();
    assert!(expired.contains(&time), "{expired}: {printed}");
    assert!(pair.fault(later(-1)).unwrap().contains("is the clock right"));
    let Some(address) = made(dir.path(), "ip", "IP:127.0.0.1") else { return };
    // Made after `now`, perhaps in another second: it counts from there.
    assert_eq!(Pair::load(&address, &provider()).unwrap().fault(later(1)), None);
    let Some(nameless) = made(dir.path(), "old", "") else { return };
    let said = Pair::load(&nameless, &provider()).unwrap().fault(later(1)).unwrap();
    assert!(said.contains("no names"), "{said}");
}

#[test]
fn what_cannot_be_used_is_said_with_its_file_and_what_to_try() {
    let dir = tempfile::tempdir().unwrap();
    let Some(one) = made(dir.path(), "one", "DNS:one.example") else { return };
    let Some(two) = made(dir.path(), "two", "DNS:two.example") else { return };
    let said = |chain: &Path, key: &Path| {
        let config = CertificateConfig {
            chain: chain.to_owned(),
            key: key.to_owned(),
            ..CertificateConfig::default()
        };
        let error = Pair::load(&config, &provider()).expect_err("it is wrong");
        format!("{error}; {}", error.hint()).replace(&format!("{}/", dir.path().display()), "")
    };
    let mismatch = said(&one.chain, &two.key);
    assert!(
        mismatch
            .starts_with("the key in two.key does not belong to the first certificate in one.pem")
    );
    let swapped = said(&one.key, &one.chain);
    assert!(
        swapped.starts_with("there is no certificate in one.key, but a private key"),
        "{swapped}"
    );
    assert!(swapped.contains("swapped"));
    let missing = said(&dir.path().join("none.pem"), &one.key);
    assert!(
        missing.starts_with("`tls.certificate.chain`: cannot read none.pem: No such file"),
        "{missing}"
    );
    let no_key = said(&one.chain, &one.chain);
    assert!(no_key.starts_with("there is no private key in one.pem;"), "{no_key}");
    let locked = dir.path().join("locked.key");
    let openssl = Command::new("openssl")
        .args(["pkey", "-aes256", "-passout", "pass:secret", "-in"])
        .arg(&one.key)
        .arg("-out")
        .arg(&locked)
        .output()
        .unwrap();
    assert!(openssl.status.success(), "{openssl:?}");
    let locked = said(&one.chain, &locked);
    assert!(locked.contains("without a passphrase; it cannot be typed"), "{locked}");
    let torn = dir.path().join("torn.pem");
    let whole = fs::read_to_string(&one.chain).unwrap();
    fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    let torn = said(&torn, &one.key);
    assert!(torn.contains("torn.pem"), "{torn}");
}

/// A certificate that an authority is to give for these names, kept in this file.
fn to_be_given(path: &Path, names: &[&str]) -> CertificateConfig {
    let acme = names.iter().map(|&name| name.to_owned()).collect();
    CertificateConfig { chain: path.to_owned(), key: path.to_owned(), acme }
}

/// Writes one for these names, with its key, for November 2026.
fn given(path: &Path, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(2026, 11, 1);
    params.not_after = rcgen::date_time_ymd(2026, 12, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let text = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
    fs::write(path, text).unwrap();
}

/// So many days after 2026-11-23, noon.
fn on_day(days: i64) -> Now {
    let wall = Wall::from_secs(1_795_435_200 + days * 86_400);
    Now { mono: Mono::ZERO, wall, utc_offset: 0 }
}

/// Whether clients refuse the only one, whether its renewal failed, and what is said.
fn state_after(certificates: &Certificates, days: i64) -> (bool, bool, String) {
    let it = certificates.status(on_day(days).wall).remove(0);
    (it.is_faulty, it.renewal_failed, it.problem.unwrap_or_default())
}

#[test]
fn a_renewal_that_fails_is_told_apart_from_what_clients_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blog.example-0123456789abcdef.pem");
    given(&path, &["blog.example"]);
    let config = to_be_given(&path, &["Blog.example"]);
    let all = std::slice::from_ref(&config);
    let certificates = Certificates::load(all, &provider(), on_day(0)).unwrap();
    assert_eq!(state_after(&certificates, 0), (false, false, String::new()));
    assert_eq!(certificates.status(on_day(0).wall)[0].kind, "acme");
    certificates.note(&config, Some("why".to_owned()));
    assert_eq!(state_after(&certificates, 0), (false, true, "why".to_owned()));
    let both = "it expired on Tue, 01 Dec 2026 00:00:00 GMT; why".to_owned();
    assert_eq!(state_after(&certificates, 8), (true, true, both));
    certificates.note(&config, None);
    assert_eq!(state_after(&certificates, 0), (false, false, String::new()));
    // Nor does a file that cannot be used change what clients get.
    fs::write(&path, "nothing").unwrap();
    certificates.look_now(on_day(0));
    let (is_faulty, renewal_failed, why) = state_after(&certificates, 0);
    assert_eq!((is_faulty, renewal_failed), (false, true));
    assert!(why.starts_with("there is no certificate in"), "{why}");
}

#[test]
fn what_stands_in_is_refused_by_clients_unless_it_is_vouched_for_with_all_the_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blog.example-0123456789abcdef.pem");
    let of = |names: &[&str]| {
        let all = [to_be_given(&path, names)];
        let certificates = Certificates::load(&all, &provider(), on_day(0)).unwrap();
        let (is_faulty, renewal_failed, _) = state_after(&certificates, 0);
        assert_eq!(certificates.status(on_day(0).wall)[0].kind, "stand-in");
        certificates.note(&all[0], Some("why".to_owned()));
        assert!(state_after(&certificates, 0).1, "its authority has refused it");
        (is_faulty, renewal_failed)
    };
    assert_eq!(of(&["blog.example"]), (true, false), "nobody vouches for what is made here");
    given(
        &dir.path().join("blog.example-fedcba9876543210.pem"),
        &["blog.example", "*.blog.example"],
    );
    assert_eq!(of(&["blog.example"]), (false, false));
    assert_eq!(of(&["blog.example", "WWW.blog.example"]), (false, false));
    assert_eq!(of(&["blog.example", "shop.example"]), (true, false));
}
