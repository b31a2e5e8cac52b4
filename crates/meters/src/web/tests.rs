use crate::device::{Device, chunked, json, status};

use super::*;

fn spec(text: &str) -> MeterSpec {
    text.parse().unwrap()
}

fn web(device: &Device, options: &str) -> Web {
    let spec = spec(&format!("http={}{options}", device.address()));
    Web::of(&spec, device.address(), "http").unwrap().0
}

fn password_file(password: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), password).unwrap();
    file
}

#[test]
fn whole_and_chunked_answers_are_read_over_one_connection() {
    let device = Device::http(|ask| match ask.path.as_str() {
        "/whole" => json(r#"{"power": 7}"#),
        _ => chunked(r#"{"power": 8}"#),
    });
    let mut web = web(&device, "");
    assert_eq!(web.json("/whole", opening()).unwrap()["power"], 7);
    assert_eq!(web.json("/chunked", opening()).unwrap()["power"], 8);
    assert_eq!(device.connections(), 1);
}

#[test]
fn a_device_that_hangs_up_after_each_answer_is_read_all_the_same() {
    let device = Device::http(|_| status(200, crate::device::HANGS_UP, "{}"));
    let mut web = web(&device, "");
    for _ in 0..20 {
        web.json("/", opening()).unwrap();
    }
    assert_eq!(device.asked().len(), 20, "nothing is asked twice");
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let device = Device::http(|_| status(200, "", &"x".repeat(1 << 20)));
    let error = web(&device, "").json("/", opening()).unwrap_err().to_string();
    assert!(error.contains("more than 64 KiB"), "{error}");
    let headers = format!("X: {}\r\n", "y".repeat(1 << 20));
    let device = Device::http(move |_| status(200, &headers, "{}"));
    assert!(web(&device, "").json("/", opening()).is_err());
}

#[test]
fn garbage_is_told_as_such() {
    let device = Device::http(|_| "\0\u{1}\u{2} who goes there\r\n\r\n".to_owned());
    let error = web(&device, "").json("/", opening()).unwrap_err();
    assert!(matches!(error, MeterError::Nonsense { .. }), "{error}");
    let device = Device::http(|_| status(200, "", "<html>hello</html>"));
    let error = web(&device, "").json("/x", opening()).unwrap_err().to_string();
    assert!(error.contains("/x: `<html>hello</html>` is no JSON"), "{error}");
}

#[test]
fn a_device_that_does_not_answer_in_time_is_silent_and_one_that_is_not_there_is_named() {
    let device = Device::silent();
    let until = monotonic() + Duration::from_millis(30);
    let error = web(&device, "").json("/", until).unwrap_err();
    assert!(matches!(error, MeterError::Silent { .. }), "{error}");
    let address = format!("http://{}", nightwatt_needs::free_address());
    let spec = spec("http=gone");
    let (mut web, _) = Web::of(&spec, &address, "http").unwrap();
    let error = web.json("/", opening()).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot reach {address}/ (is it on")), "{error}");
}

#[test]
fn redirects_are_followed_within_the_device_only() {
    let other = Device::http(|_| json("{}"));
    let elsewhere = format!("Location: {}/stolen\r\n", other.address());
    let device = Device::http(move |ask| match ask.path.as_str() {
        "/old" => status(302, "Location: /new\r\n", ""),
        "/new" => json(r#"{"new": 1}"#),
        "/loop" => status(307, "Location: /loop\r\n", ""),
        "/protocol" => status(301, "Location: //elsewhere/x\r\n", ""),
        _ => status(301, &elsewhere, ""),
    });
    let mut web = web(&device, "");
    assert_eq!(web.json("/old", opening()).unwrap()["new"], 1);
    for path in ["/away", "/protocol"] {
        let error = web.json(path, opening()).unwrap_err().to_string();
        assert!(error.contains("only places within it are followed"), "{error}");
    }
    assert!(web.json("/loop", opening()).unwrap_err().to_string().contains("status 307"));
    assert_eq!(other.asked().len(), 0);
}

#[test]
fn a_password_is_sent_when_asked_for_and_never_shown() {
    let file = password_file("open sesame\n");
    let device = Device::http(|ask| {
        // base64 of `admin:open sesame`, by coreutils.
        if ask.header("authorization") == Some("Basic YWRtaW46b3BlbiBzZXNhbWU=") {
            json("{}")
        } else {
            status(401, "WWW-Authenticate: Basic realm=\"plug\"\r\n", "")
        }
    });
    let mut known = web(&device, &format!(",password-file={}", file.path().display()));
    known.json("/", opening()).unwrap();
    known.json("/", opening()).unwrap();
    let sent: Vec<_> =
        device.asked().iter().map(|ask| ask.header("authorization").is_some()).collect();
    assert_eq!(sent, [false, true, true], "not before it was asked for; then each time");

    let error = web(&device, "").json("/", opening()).unwrap_err();
    assert!(error.hint().unwrap().contains("password-file="), "{error}");
    let wrong = password_file("open barley");
    let mut wrong = web(&device, &format!(",password-file={}", wrong.path().display()));
    let error = wrong.json("/?password=open%20barley", opening()).unwrap_err();
    assert!(error.hint().unwrap().contains("is not the device's"), "{error}");
    assert!(!format!("{error:?}").contains("barley"), "{error:?}");
}

#[test]
fn a_scheme_that_is_not_known_is_named() {
    let file = password_file("x");
    let device = Device::http(|_| status(401, "WWW-Authenticate: Negotiate\r\n", ""));
    let mut web = web(&device, &format!(",password-file={}", file.path().display()));
    let error = web.json("/", opening()).unwrap_err();
    assert!(error.hint().unwrap().contains("`Negotiate`"), "{:?}", error.hint());
}

#[test]
fn addresses_that_make_no_sense_are_refused_before_anything_is_sent() {
    let wrong = |address: &str| {
        let spec = spec("http=x");
        Web::of(&spec, address, "http").map(drop).unwrap_err().to_string()
    };
    let told = wrong("http://admin:secret@10.0.0.1/");
    assert!(told.contains("password-file=") && !told.contains("secret"), "{told}");
    assert!(wrong("ftp://10.0.0.1").contains("`http://`"));
    assert!(wrong("http://").contains("no address"));
    let insecure = spec("http=x,insecure=true");
    assert!(Web::of(&insecure, "http://h", "http").is_err(), "there is nothing to be insecure");
}
