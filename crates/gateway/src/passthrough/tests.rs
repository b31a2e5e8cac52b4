use super::*;

fn listener(services: &str) -> PassthroughListener {
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
         power.simulated = {{}}\n{services}"
    );
    let config = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let mut listeners = PassthroughListener::all(&config);
    assert_eq!(listeners.len(), 1);
    Arc::into_inner(listeners.remove(0).1).unwrap()
}

fn service(name: &str, sni: &str) -> String {
    format!(
        "[[tcp]]\nname = \"{name}\"\nlisten = [\"127.0.0.1:443\"]\non = \"blog\"\norigin = \":8443\"\nsni = {sni}\n"
    )
}

#[test]
fn a_whole_name_goes_before_a_star_and_a_star_before_nobody() {
    let listener = listener(
        &[
            service("stars", r#"["*.example.org"]"#),
            service("git", r#"["Git.example.org", "git.example.net"]"#),
            service("rest", "[]"),
        ]
        .concat(),
    );
    for (name, expected) in [
        (Some("git.example.org"), 1),
        (Some("git.example.net"), 1),
        (Some("www.example.org"), 0),
        // One label, as in certificates (RFC 9525, 6.3).
        (Some("a.www.example.org"), 2),
        (Some("example.org"), 2),
        (None, 2),
    ] {
        assert_eq!(listener.service(name), Some(expected), "{name:?}");
    }
}

#[test]
fn without_a_default_nobody_has_what_nobody_named() {
    let listener = listener(&service("git", r#"["git.example.org"]"#));
    assert!(listener.asks());
    assert_eq!((listener.service(None), listener.service(Some("x.example"))), (None, None));
}

#[test]
fn where_nobody_has_names_nobody_is_asked() {
    let listener = listener(&service("all", "[]"));
    assert_eq!((listener.asks(), listener.service(None)), (false, Some(0)));
}

#[test]
fn every_outcome_stands_at_its_own_place() {
    for (at, outcome) in Outcome::ALL.iter().enumerate() {
        assert_eq!(*outcome as usize, at);
    }
}
