use super::*;

fn why(address: &str, origin: Origin) -> Option<Reason> {
    refusal(&Address::new(address).unwrap(), origin, &PatternRules::default())
}

#[test]
fn what_changes_something_is_never_fetched() {
    for (address, reason) in [
        ("/logout", Reason::Action),
        ("/user/Log%2Dout/", Reason::Action),
        ("/posts/12/delete", Reason::Action),
        ("/cart/", Reason::Action),
        ("/shop/?add-to-cart=17", Reason::Action),
        ("/index.php?title=Main_Page&action=edit", Reason::Action),
        ("/doku.php?id=start&do=edit", Reason::Action),
        ("/wiki/Page?oldid=3", Reason::Action),
        ("/2024/05/post/?replytocom=99", Reason::Action),
        ("/remove.php", Reason::Action),
        ("/reboot", Reason::Action),
        ("/deletePost/5", Reason::Action),
        ("/items/5/approve", Reason::Action),
        ("/light/on", Reason::Action),
        ("/relay/0?turn=on", Reason::Action),
        ("/cm?cmnd=Power%20On", Reason::Action),
        ("/win&T=2", Reason::Action),
        ("/api/lights/1/state?on=true", Reason::Action),
        ("/gpio/17/1", Reason::Action),
        ("/logout.html", Reason::Action),
        ("/index.php/logout.html", Reason::Action),
        ("/session/end", Reason::Action),
        ("/abmelden", Reason::Action),
        ("/entfernen?id=2", Reason::Action),
        ("/wiki/Main?rollback=1", Reason::Action),
        ("/poll?answer=1", Reason::Action),
        ("/wp-admin/post.php", Reason::Personal),
        ("/wp-login.php", Reason::Personal),
        ("/?s=cats", Reason::Search),
        ("/search/cats", Reason::Search),
        ("/events?month=2031-05", Reason::Calendar),
        ("/calendar/2031/05", Reason::Calendar),
        ("/f?token=abc", Reason::OneTime),
        ("/f?X-Amz-Signature=abc", Reason::OneTime),
        ("/list?confirm=1", Reason::OneTime),
        ("/page;JSESSIONID=0F", Reason::OneTime),
        ("/(S(lit3py55))/orders.aspx", Reason::OneTime),
        ("/a?tok%65n=8f3a", Reason::OneTime),
        ("/callback?code=8f3a", Reason::OneTime),
        ("/callback?state=8f3a", Reason::OneTime),
        ("/a?api_key=8f3a", Reason::OneTime),
        ("/unsubscribe/8f3a", Reason::Action),
        ("/confirm/8f3a", Reason::Action),
        ("/list?page=2&q=word", Reason::Search),
        ("/page?sid=0f", Reason::OneTime),
    ] {
        assert_eq!(why(address, Origin::Linked), Some(reason), "{address}");
    }
}

#[test]
fn pages_about_such_things_are_pages() {
    for address in [
        "/",
        "/docs/delete.html",
        "/blog/how-to-edit-a-file/",
        "/calendar",
        "/keyboards/",
        "/2024/05/",
        "/wiki/Logout_(album)",
        "/style.css?ver=6.4.2",
        "/list?page=3",
        "/session.html",
        "/feed",
        "/img/a%20photo.JPG",
        "/statement.pdf",
        "/docs/install/",
        "/blog/how-to-reset-your-router.html",
        "/news/run-for-charity-2024",
        "/about/opening-hours",
        "/download",
        "/list?activity=3",
        "/tea-set",
        "/img/logout.svg",
    ] {
        assert_eq!(why(address, Origin::Linked), None, "{address}");
    }
}

#[test]
fn what_only_clients_know_is_stricter() {
    for (address, reason) in [
        ("/list?sort=name", Some(Reason::NotLinked)),
        ("/blog/page/3/", Some(Reason::NotLinked)),
        ("/download/token-abc", Some(Reason::OneTime)),
        ("/share/key/8f3a", Some(Reason::OneTime)),
        ("/state/8f3a", Some(Reason::OneTime)),
        ("/confirm-email/8f3a", Some(Reason::Action)),
        ("/newsletter/unsubscribed/8f3a", Some(Reason::OneTime)),
        ("/invitation/x", Some(Reason::OneTime)),
        ("/about", None),
    ] {
        assert_eq!(why(address, Origin::Requested), reason, "{address}");
    }
    assert_eq!(why("/list?sort=name", Origin::Linked), None);
}

#[test]
fn the_operator_has_the_last_word() {
    let rules = PatternRules {
        exclude: vec!["/private/*".to_owned(), "*.iso".to_owned()],
        include: vec![
            "/docs/edit/*".to_owned(),
            "/private/x".to_owned(),
            "/garden/open".to_owned(),
        ],
    };
    let of = |text| refusal(&Address::new(text).unwrap(), Origin::Linked, &rules);
    assert_eq!(of("/private/x"), Some(Reason::Operator));
    assert_eq!(of("/files/a.iso"), Some(Reason::Operator));
    assert_eq!(of("/docs/edit/page"), None);
    assert_eq!(of("/other/edit/page"), Some(Reason::Action));
    assert_eq!(of("/garden/open"), None);
    assert_eq!(of("/gate/open"), Some(Reason::Action));
}

#[test]
fn another_spelling_evades_no_pattern_and_borrows_none() {
    let list = |patterns: &[&str]| patterns.iter().map(|it| (*it).to_owned()).collect();
    let rules = PatternRules {
        exclude: list(&["/drafts/*", "/caf\u{e9}/*", "/%65ntwurf", "*?secret=*"]),
        include: list(&["/docs/delete", "/open/*"]),
    };
    let of = |text: &str| Address::new(text).unwrap();
    for excluded in [
        "/drafts/b",
        "/%64rafts/b",
        "/drafts%2Fi",
        "/%2564rafts/b",
        "//drafts/b",
        "/x/../drafts/b",
        "/x/%2e%2e/drafts/b",
        "/caf%C3%A9/x",
        "/entwurf",
        "/a?%73ecret=1",
    ] {
        assert!(rules.excludes(&of(excluded)), "{excluded}");
    }
    for open in ["/", "/drafts", "/draft/b", "/x/drafts/b", "/a?b=secret", "/Drafts/b"] {
        assert!(!rules.excludes(&of(open)), "{open}");
    }
    for (address, is_included) in [
        ("/docs/delete", true),
        ("/docs/%64elete", true),
        ("/docs//delete", true),
        ("/open/x", true),
        ("/open/../gate/x", false),
        ("/open/%2e%2e/gate/x", false),
        ("/open/%252e%252e/gate/x", false),
        ("/docs/delete/x", false),
    ] {
        assert_eq!(rules.includes(&of(address)), is_included, "{address}");
    }
    assert!(!PatternRules::default().excludes(&of("/")));
}

#[test]
fn further_pages_belong_to_their_list() {
    let list = |text| page_of(&Address::new(text).unwrap());
    assert_eq!(list("/blog/page/7/").as_deref(), Some("/blog"));
    assert_eq!(list("/list?start=20&sort=x").as_deref(), Some("/list"));
    assert_eq!(list("/?paged=2").as_deref(), Some("/"));
    assert_eq!(list("/list?p=about"), None);
    assert_eq!(list("/page/about"), None);
}

#[test]
fn references_that_may_name_a_session_are_known_by_their_form() {
    for reference in [
        "/shop;jsessionid=1A2B",
        "https://shop.example/x;JSESSIONID=1A2B?y",
        "/(S(lit3py55t21z5v55vlm25s55))/orders.aspx",
        "page?PHPSESSID=5f0c11eebe56",
        "?x=1&sid=9f8a7c6b5d4e",
        "/a?token=q83vEjRWeJASNFZ4kBI",
    ] {
        assert!(may_name_session(reference), "{reference}");
    }
    for reference in [
        "/",
        "/session.html",
        "?page=2",
        "/news(s)/",
        "/style.css?ver=6.4.2",
        "/app.js?v=9f8a7c6b5d4e",
        "/index.php?title=Design_of_keys&oldid=12",
    ] {
        assert!(!may_name_session(reference), "{reference}");
    }
}

#[test]
fn stars_stand_for_any_text() {
    for (pattern, text, is_so) in [
        ("/a*", "/abc", true),
        ("*.html", "/a/b.html", true),
        ("/a*c*e", "/abcde", true),
        ("/a*c*e", "/abcd", false),
        ("/a", "/ab", false),
        ("*", "", true),
        ("/a**b", "/ab", true),
        ("/ab*b", "/ab", false),
    ] {
        assert_eq!(matches(pattern, text), is_so, "{pattern} {text}");
    }
}

#[test]
fn redirects_to_a_log_in_are_known_by_their_words() {
    for target in [
        "/wp-login.php?redirect_to=x",
        "/users/sign_in",
        "https://sso.example.org/saml/x",
        "/index.php/Special:UserLogin",
        "/login",
        "/oauth2/start",
        "https://authelia.example.net/?x",
        "https://id.example.net/realms/home?redirect_uri=https%3A%2F%2Fexample.org%2F",
    ] {
        assert!(leads_to_log_in(target), "{target}");
    }
    for target in ["/author/", "/blogindex", "/", "/new-login-page-design", "/x?next=/login"] {
        assert!(!leads_to_log_in(target), "{target}");
    }
}
