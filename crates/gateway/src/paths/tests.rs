//! Which table a path belongs to.

use super::*;
use crate::config::Config;

fn paths(tables: &str) -> Arc<Paths> {
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
         power.simulated = {{}}\n{tables}\n"
    );
    let config = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let clock = Clock::virtual_at(nightwatt_energy::time::Wall(0), 0);
    Paths::open(&config.site[0], &config, &clock).unwrap().unwrap()
}

fn table(prefix: &str) -> String {
    format!("[[site.path]]\nprefix = \"{prefix}\"\ntext = \"x\"\n")
}

#[test]
fn the_longest_prefix_wins_at_the_end_of_a_step_and_an_exact_path_before_all() {
    let exact = "[[site.path]]\nexact = \"/files/a\"\ntext = \"x\"\n";
    let paths =
        paths(&format!("{}{}{}{exact}", table("/files"), table("/files/big/"), table("/api/")));
    for (path, name) in [
        ("/", None),
        ("/files", Some("/files")),
        ("/files/", Some("/files")),
        ("/files/x", Some("/files")),
        ("/filesystem", None),
        ("/files/a", Some("/files/a")),
        ("/files/a/b", Some("/files")),
        ("/files/big", Some("/files")),
        ("/files/big/x", Some("/files/big/")),
        ("/api", None),
        ("/api/", Some("/api/")),
        ("/Files/x", None),
        ("/files/a%20b", Some("/files")),
        ("/files/group%2Fproject", Some("/files")),
        ("/x/%2e/y", None),
    ] {
        let found = paths.find(path).unwrap_or_else(|_| panic!("{path} is ambiguous"));
        assert_eq!(found.map(|it| it.config.name()), name, "{path}");
    }
}

/// Spellings of `/admin/x` that some server resolves so, and of which the bytes say something else.
#[test]
fn a_path_that_servers_may_take_for_one_of_another_table_is_ambiguous() {
    let paths = paths(&table("/admin"));
    for path in [
        "/%61dmin/x",
        "/%2561dmin/x",
        "/./admin/x",
        "/a/../admin/x",
        "/a/%2e%2e/admin/x",
        "/a/%2E./admin",
        "//admin/x",
        "/\\admin/x",
        "/admin;a=b/x",
        "/admin%2fx",
        "/admin%252fx",
        "/admin%5cx",
        "/admin\\x",
        "/admin%00/x",
        "/admin%3bx",
        "/admin/../x",
        "/admin/%2e%2e/x",
        "/admin/..%2fx",
        "/admin/..;/x",
        "/a/..;b/admin",
    ] {
        assert_eq!(paths.find(path).map(|it| it.is_some()), Err(Ambiguous), "{path}");
    }
    for (path, is_in) in
        [("/admin/a%2fb", true), ("/admin/a;b", true), ("/a//b", false), ("/administrator", false)]
    {
        assert_eq!(paths.find(path).map(|it| it.is_some()), Ok(is_in), "{path}");
    }
}

#[test]
fn an_exact_path_with_a_slash_that_is_decoded_first_is_ambiguous_and_one_with_a_plain_slash_another()
 {
    let paths = paths("[[site.path]]\nexact = \"/admin\"\ntext = \"x\"\n");
    for path in ["/admin%2f", "/admin%252F", "/admin%5c", "/admin\\"] {
        assert_eq!(paths.find(path).map(|it| it.is_some()), Err(Ambiguous), "{path}");
    }
    for (path, is_in) in
        [("/admin", true), ("/admin/", false), ("/admin/x", false), ("/ADMIN", false)]
    {
        assert_eq!(paths.find(path).map(|it| it.is_some()), Ok(is_in), "{path}");
    }
}

/// The steps before `..` are of the kinds that some servers keep and others do not: each server goes up from another one.
#[test]
fn a_path_with_a_step_upwards_belongs_to_no_table() {
    for (prefix, path) in [
        ("/admin", "/a\\b/../admin/x"),
        ("/admin", "/a%5cb/../admin/x"),
        ("/admin", "/a%2fb/%2e%2e/admin/x"),
        ("/admin", "/a%252fb/%252e%252e/admin/x"),
        ("/app/admin", "/app/..;/../admin/x"),
        ("/app/admin", "/app/;/../admin/x"),
        ("/app/admin", "/app//../admin"),
        ("/other", "/a/b/../c"),
        ("/other", "/a/.."),
    ] {
        let found = paths(&table(prefix)).find(path).map(|it| it.is_some());
        assert_eq!(found, Err(Ambiguous), "{path}");
    }
    let paths = paths(&table("/other"));
    for path in ["/a..b", "/a/...", "/a/..b", "/%2e/a", "/.well-known/x"] {
        assert_eq!(paths.find(path).map(|it| it.is_some()), Ok(false), "{path}");
    }
}

#[test]
fn a_stripped_prefix_leaves_a_path_that_begins_with_one_slash() {
    for prefix in ["/api", "/api/"] {
        let text = format!("[[site.path]]\nprefix = \"{prefix}\"\nstrip_prefix = true\n");
        let paths = paths(&text);
        for (target, stripped) in [
            ("/api/x?y=/api", "/x?y=/api"),
            ("/api/", "/"),
            ("/api/?a", "/?a"),
            ("/api/api/x", "/api/x"),
        ] {
            let rule = paths.find(path_of(target)).unwrap().unwrap();
            assert_eq!(rule.target(target), stripped, "{prefix} {target}");
        }
    }
    let bare = paths("[[site.path]]\nprefix = \"/api\"\nstrip_prefix = true\n");
    assert_eq!(bare.find("/api").unwrap().unwrap().target("/api?a=b"), "/?a=b");
}

#[test]
fn the_rest_of_a_redirect_leads_to_no_other_host() {
    let paths = paths("[[site.path]]\nprefix = \"/old\"\nredirect = \"/{rest}\"\n");
    let rule = paths.find("/old/x").unwrap().unwrap();
    for (target, rest) in [
        ("/old/x?y", "x?y"),
        ("/old//evil.example", "evil.example"),
        ("/old/\\evil.example", "evil.example"),
        ("/old", ""),
    ] {
        assert_eq!(rule.rest(target), rest, "{target}");
    }
}

proptest::proptest! {
    #[test]
    fn readings_of_any_path_have_no_steps_left(path in "/[a-c./%25;\\\\]{0,12}") {
        for reading in &readings(&path)[1..] {
            proptest::prop_assert!(reading.starts_with('/'));
            proptest::prop_assert!(!reading.contains("//") && !reading.contains("/../"), "{}", reading);
        }
    }
}
