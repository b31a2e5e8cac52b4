//! The rule over generated requests and servers.

use proptest::prelude::*;

use super::*;

/// Fields of requests: known ones, identities of applications, and names that no list has.
fn request_field() -> impl Strategy<Value = (String, String)> {
    let listed: Vec<String> = rows::<4>(FIELDS)
        .map(|[name, ..]| name.replace('*', "x"))
        .filter(|name| HeaderName::from_bytes(name.as_bytes()).is_ok())
        .collect();
    let cookies = rows::<5>(APPLICATIONS).filter(|row| row[1] == "cookie");
    let cookies: Vec<String> = cookies.map(|row| format!("{}=", row[2])).collect();
    prop_oneof![
        (proptest::sample::select(listed), "[a-z0-9]{1,6}"),
        ("x-[a-z]{1,9}", "[a-z0-9]{1,6}"),
        ("[a-z]{3,9}", "[a-z0-9]{1,6}"),
        (proptest::sample::select(cookies), "[a-z0-9]{1,6}")
            .prop_map(|(cookie, value)| ("cookie".to_owned(), cookie + &value)),
        ("[a-z_]{2,8}", "[a-z]{1,4}")
            .prop_map(|(name, v)| ("cookie".to_owned(), format!("{name}={v}"))),
    ]
}

proptest! {
    /// The rule itself. Servers here do not mark what they answer.
    #[test]
    fn requests_that_differ_in_what_is_not_known_to_be_harmless_share_nothing(
        first in proptest::collection::vec(request_field(), 0..4),
        second in proptest::collection::vec(request_field(), 0..4),
        says in proptest::collection::vec(
            prop_oneof![
                Just(("etag", "\"1\"")),
                Just(("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")),
                Just(("vary", "accept-encoding")),
                Just(("vary", "cookie")),
                Just(("content-type", "application/json")),
            ],
            0..3,
        ),
        status in proptest::sample::select(vec![200_u16, 203, 301, 404]),
        assumes: bool,
        clients_fill: bool,
    ) {
        let fill = if clients_fill { Fill::Clients } else { Fill::OwnRequests };
        let rules = Rules {
            assumes,
            fill,
            default_ttl: Some(std::time::Duration::from_mins(2)),
            ..Rules::default()
        };
        let of = |fields: &[(String, String)]| {
            let fields: Vec<(&str, &str)> =
                fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            headers(&fields)
        };
        let (one, other) = (of(&first), of(&second));
        let status = StatusCode::from_u16(status).unwrap();
        let request = at("example.org", &one);
        let answer =
            Stored::new(&request, Filler::Client, status, &headers(&says), Times::at(NOW), &rules);
        if let Ok(stored) = answer {
            // Only what an anonymous client got is kept, and only such clients get it.
            prop_assert!(assumes && clients_fill);
            prop_assert!(Sender::of(&request, &rules).is_anonymous());
            let gets_it = !matches!(usability(&stored, &other, &rules), Usability::Unusable(_));
            let sender = Sender::of(&at("example.org", &other), &rules);
            prop_assert!(!gets_it || sender.is_anonymous(), "{:?}", other);
        }
    }

    /// The gateway looks the names up once, and asks by what it found.
    #[test]
    fn names_that_are_known_are_as_good_as_names_that_are_read(
        fields in proptest::collection::vec(
            prop_oneof![
                request_field(),
                ("(content-length|transfer-encoding|from|forwarded|x-forwarded-host)", "[0-9a-z]{1,9}"),
            ],
            0..5,
        ),
    ) {
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let fields = headers(&fields);
        let names = fields.keys().try_fold(FieldNames::default(), |names, name| names.with(name, true));
        // What not even trusted proxies may send has been dropped before.
        let Some(names) = names else { return Ok(()) };
        let (request, rules) = (at("example.org", &fields), Rules::default());
        prop_assert_eq!(Sender::of_named(names, &request, &rules), Sender::of(&request, &rules));
    }

    #[test]
    fn one_unknown_name_suffices(name in "[a-z][a-z0-9-]{0,20}", value in "[ -~]{0,10}") {
        let sender = sender_of(&[("accept", "*/*"), (&name, value.trim())]);
        let listed = field_rule(name.as_bytes()).map(|rule| rule.class);
        let is_harmless = matches!(listed, Some(FieldClass::Neutral | FieldClass::Selecting));
        let is_special = ["cookie", "content-length", "transfer-encoding", "forwarded"].contains(&&*name);
        prop_assert!(is_special || sender.is_anonymous() == is_harmless, "{}: {:?}", name, sender);
    }
}
