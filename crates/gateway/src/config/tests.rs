use super::*;

mod recipes;
mod reference;
mod sla;
mod wrong;

/// A file that is right; its lines are counted from 1.
const GOOD: &str = r#"listen = ["127.0.0.1:8080"]
trusted_proxies = ["10.0.0.0/8"]

[limits]
hold = "30s"

[scenario.server]
on_w = 80

[[site]]
name = "blog"
hosts = ["blog.example"]
origin = "http://10.0.0.5:8080"

[site.power.process]
command = ["/usr/sbin/apache2"]

[[site]]
name = "shop"
hosts = ["shop.example"]
origin = "http://10.0.0.6"

[site.power.simulated]
"#;

/// The error of the file with one text in the place of another.
fn error(good: &str, bad: &str) -> String {
    assert_eq!(GOOD.matches(good).count(), 1, "`{good}` is there once");
    let text = GOOD.replace(good, bad);
    match Config::parse(&text, "nightwatt.toml") {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

/// Replaces a text and checks that the error points at this line and says all of these.
#[track_caller]
fn points_at(line: u32, good: &str, bad: &str, says: &[&str]) {
    let error = error(good, bad);
    assert!(error.starts_with(&format!("nightwatt.toml:{line}:")), "not line {line}: {error}");
    for words in says {
        assert!(error.contains(words), "`{words}` is not in: {error}");
    }
}

#[test]
fn bounds_of_the_disk_cache_that_make_no_sense_are_pointed_at() {
    let before = "[scenario.server]";
    let bad = |line: &str| format!("[cache.disk]\n{line}\n\n{before}");
    points_at(
        8,
        before,
        &bad("size_mb = 4"),
        &["`cache.disk.size_mb` is 4", "between 8 and 1048576"],
    );
    points_at(8, before, &bad("write_mb_per_day = 0"), &["between 1 and"]);
    points_at(8, before, &bad("folder = \"/x\""), &["folder", "`directory`"]);
    let config = Config::parse(&GOOD.replace(before, &bad("")), "nightwatt.toml").unwrap();
    assert_eq!(config.cache.disk, Some(DiskConfig::default()));
    assert_eq!(Config::parse(GOOD, "nightwatt.toml").unwrap().cache.disk, None);
}

#[test]
fn a_good_file_is_read_and_the_rest_is_default() {
    let config = Config::parse(GOOD, "nightwatt.toml").unwrap();
    assert_eq!(config.limits, Limits { hold: Duration::from_secs(30), ..Limits::default() });
    assert_eq!(config.site[1].origin.authority, "10.0.0.6:80");
    assert!((config.scenario.server.on_w - 80.0).abs() < 1e-12);
    assert!((config.scenario.server.off_w - 1.6).abs() < 1e-12);
    assert_eq!(config.control_socket(), PathBuf::from("/var/lib/nightwatt/control.sock"));
    assert!(config.proxy_protocol.is_empty());
}

#[test]
fn every_phase_of_a_connection_has_its_time_out() {
    let keys = "connections_per_client = 4\nheader_timeout = \"5s\"\nidle_timeout = \"6s\"\n\
                body_timeout = \"7s\"\nsend_timeout = \"8s\"";
    let limits = Config::parse(&GOOD.replace("hold = \"30s\"", keys), "x").unwrap().limits;
    let expected = Limits {
        connections_per_client: 4,
        header_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(6),
        body_timeout: Duration::from_secs(7),
        send_timeout: Duration::from_secs(8),
        ..Limits::default()
    };
    assert_eq!(limits, expected);
    for key in ["header_timeout", "idle_timeout", "body_timeout", "send_timeout"] {
        let none = format!("{key} = \"0\"");
        points_at(5, "hold = \"30s\"", &none, &[&format!("`limits.{key}` is 0"), "longer than 0"]);
    }
}

#[test]
fn a_rate_is_a_line_of_text_and_there_is_none_by_default() {
    assert_eq!(Limits::default().requests_per_client, None);
    let text = GOOD.replace("hold = \"30s\"", "requests_per_client = \"100/s burst 300\"");
    let limits = Config::parse(&text, "x").unwrap().limits;
    assert_eq!(limits.requests_per_client, Some("100/s burst 300".parse().unwrap()));
    for bad in ["\"100\"", "\"0/s\"", "\"100/s burst 0\"", "\"100/d\""] {
        let line = format!("requests_per_client = {bad}");
        points_at(5, "hold = \"30s\"", &line, &["is not a rate", "`100/s`"]);
    }
    points_at(5, "hold = \"30s\"", "requests_per_client = 100", &["text in quotes"]);
}

#[test]
fn proxy_protocol_is_a_list_of_networks() {
    let both =
        "trusted_proxies = [\"10.0.0.0/8\"]\nproxy_protocol = [\"fd00::/8\", \"10.1.0.0/16\"]";
    let text = GOOD.replace("trusted_proxies = [\"10.0.0.0/8\"]", both);
    let config = Config::parse(&text, "x").unwrap();
    let expected = ["fd00::/8", "10.1.0.0/16"].map(|it| it.parse::<Network>().unwrap());
    assert_eq!(config.proxy_protocol, expected);
    let bad = "proxy_protocol = [\"10.0.0/8\"]";
    points_at(2, "trusted_proxies = [\"10.0.0.0/8\"]", bad, &["is not a network", "10.0.0.0/8"]);
}

#[test]
fn unknown_keys_are_named_with_those_that_are_known() {
    points_at(3, "\n\n[limits]", "\nlisen = 1\n\n[limits]", &["lisen", "listen"]);
    points_at(5, "hold = \"30s\"", "hodl = \"30s\"", &["hodl", "`hold`"]);
    points_at(8, "on_w = 80", "watts = 80", &["watts", "`on_w`"]);
    points_at(12, "hosts = [\"blog.example\"]", "host = \"x\"", &["host", "`hosts`"]);
    let bad = "command = [\"/usr/sbin/apache2\"]\ncwd = \"/\"";
    points_at(17, "command = [\"/usr/sbin/apache2\"]", bad, &["cwd"]);
    points_at(7, "[scenario.server]", "[scenario.sever]", &["sever", "`server`"]);
}

#[test]
fn unknown_keys_about_clients_are_named_too() {
    let bad = "[site.clients]\ncrawler_agent = [\"Bot\"]\n\n[site.power.simulated]";
    points_at(24, "[site.power.simulated]", bad, &["crawler_agent", "crawler_agents"]);
}

#[test]
fn rules_about_clients_that_could_never_hold_are_pointed_at() {
    for (line, says) in [
        ("clients.webhook_paths = [\"hook\"]", "`hook` is no path"),
        ("clients.webhook_paths = [\"/hook?x=1\"]", "have no `?`"),
        ("clients.known_paths = [\"wp-login.php\"]", "`wp-login.php` is no path"),
        ("clients.scanner_share = 2.0", "`site.clients.scanner_share` of site `shop` is 2"),
        ("clients.clients = 0", "`site.clients.clients` of site `shop` is 0"),
        ("awake_per_client_and_day = \"2d\"", "longer than a day"),
    ] {
        let bad = format!("hosts = [\"shop.example\"]\n{line}");
        let error = error("hosts = [\"shop.example\"]", &bad);
        assert!(error.contains(says), "{line}: {error}");
    }
}

#[test]
fn wrong_types_say_what_is_wanted() {
    points_at(1, "listen = [\"127.0.0.1:8080\"]", "listen = 8080", &["must be a list"]);
    points_at(1, "[\"127.0.0.1:8080\"]", "[\"8080\"]", &["address"]);
    points_at(5, "\"30s\"", "30", &["`30` has no unit", "`\"30s\"`"]);
    points_at(5, "\"30s\"", "true", &["a duration with a unit, such as `\"120s\"`"]);
    points_at(5, "\"30s\"", "\"99999999999d\"", &["too long", "at most 3650d"]);
    points_at(8, "on_w = 80", "on_w = \"80\"", &["80"]);
    points_at(11, "\"blog\"", "[\"blog\"]", &["text in quotes"]);
}

#[test]
fn impossible_figures_are_refused() {
    points_at(8, "on_w = 80", "on_w = -80", &["-80", "from 0 to"]);
    points_at(8, "on_w = 80", "on_w = nan", &["NaN"]);
    points_at(9, "on_w = 80", "on_w = 80\noff_w = 90", &["off_w", "90", "awake"]);
    points_at(5, "hold = \"30s\"", "header_bytes = 100", &["8192"]);
    let own = "[site.power.simulated]";
    for key in ["wake_timeout", "sleep_timeout"] {
        points_at(23, own, &format!("{key} = \"0\"\n{own}"), &[key, "longer than 0"]);
    }
    // No client would ever be let in.
    points_at(5, "hold = \"30s\"", "connections = 0", &["at least 1"]);
    points_at(5, "hold = \"30s\"", "headers = 1000", &["at most 256"]);
}

#[test]
fn a_figure_of_a_site_points_at_that_site() {
    let own = "[site.scenario.server]\non_w = -1\n\n[site.power.simulated]";
    points_at(24, "[site.power.simulated]", own, &["-1"]);
    // Both sites have the key; the first is wrong.
    let both = GOOD
        .replace(
            "[site.power.process]",
            "[site.scenario.server]\non_w = -5\n\n[site.power.process]",
        )
        .replace(
            "[site.power.simulated]",
            "[site.scenario.server]\non_w = 5\n\n[site.power.simulated]",
        );
    let error = Config::parse(&both, "nightwatt.toml").unwrap_err().to_string();
    assert!(error.starts_with("nightwatt.toml:16:"), "{error}");
}

#[test]
fn figures_in_an_inline_table_are_found() {
    points_at(8, "[scenario.server]\non_w = 80", "[scenario]\nserver = { on_w = -1 }", &["-1"]);
    points_at(4, "[limits]\nhold = \"30s\"", "limits.header_bytes = 1", &["8192"]);
}

#[test]
fn a_policy_is_a_line_of_text() {
    let choices = "`learned`, `window`, `ski-rental`, `timeout 5s` or `always-on`";
    let put = "[scenario.server]\non_w = 80";
    points_at(8, put, "[scenario]\npolicy = \"sleepy\"", &["`sleepy` is not a policy", choices]);
    points_at(8, put, "[scenario]\npolicy = 30", &["`30`", choices]);
    points_at(8, put, "[scenario]\npolicy = \"timeout 30\"", &["`30` is not a duration"]);
    points_at(7, put, "[scenario.policy]\nname = \"window\"", &["a table", choices]);
}

#[test]
fn durations_need_a_unit() {
    for bad in ["30", "soon", "-5s", ""] {
        let value = format!("\"{bad}\"");
        points_at(5, "\"30s\"", &value, &["is not a duration", "`5s`", &format!("`{bad}`")]);
    }
}

#[test]
fn an_origin_is_http_or_https_with_host_and_port() {
    for bad in [
        "https://10.0.0.6/shop",
        "http://10.0.0.6/shop",
        "10.0.0.6:80",
        "http://10.0.0.6/?a",
        "http://user:secret@10.0.0.6",
        "http://",
        "ftp://10.0.0.6",
        "http://10.0.0.6:99999",
        "http://10.0.0.6:0",
        "",
    ] {
        let path = ["/shop", "/?a"].into_iter().find(|path| bad.ends_with(path));
        let without = path.map(|path| format!("leave out the path `{path}`"));
        let advice = without.as_deref().unwrap_or("http://10.0.0.5:8080");
        points_at(21, "http://10.0.0.6\"", &format!("{bad}\""), &["is not an origin", advice]);
    }
}

#[test]
fn a_server_has_one_controller() {
    points_at(23, "[site.power.simulated]", "[site.power]", &["no driver", "`process`"]);
    let two = "[site.power.simulated]\n[site.power.command]\nwake = \"a\"\nsleep = \"b\"";
    let error = error("[site.power.simulated]", two);
    assert!(error.contains("two drivers") && error.starts_with("nightwatt.toml:2"), "{error}");
    points_at(23, "[site.power.simulated]", "[site.power.telepathy]", &["telepathy", "`process`"]);
    points_at(18, "[site.power.simulated]", "", &["power"]);
}

#[test]
fn sites_do_not_share_names_or_hosts() {
    points_at(19, "name = \"shop\"", "name = \"blog\"", &["blog", "differ"]);
    points_at(19, "name = \"shop\"", "name = \"../shop\"", &["../shop", "letters"]);
    points_at(19, "name = \"shop\"", "name = \"\"", &["name"]);
    points_at(20, "[\"shop.example\"]", "[\"Blog.Example\"]", &["Blog.Example"]);
    for bad in ["shop.example:80", "http://shop.example", "*.example", ""] {
        points_at(20, "shop.example", bad, &["is not a host name", "`blog.example.org`"]);
    }
    let none = GOOD
        .replace("hosts = [\"blog.example\"]\n", "")
        .replace("hosts = [\"shop.example\"]\n", "");
    let error = Config::parse(&none, "nightwatt.toml").unwrap_err().to_string();
    assert!(error.contains("only one site can do without `hosts`"), "{error}");
    assert!(error.starts_with("nightwatt.toml:17:"), "the second of the two: {error}");
}

#[test]
fn the_first_of_two_sites_is_pointed_at_when_it_is_wrong() {
    points_at(11, "name = \"blog\"", "name = \"b l o g\"", &["b l o g"]);
}

#[test]
fn networks_are_an_address_and_a_length() {
    for bad in ["10.0.0.0/33", "10.0.0/8", "example.org", ""] {
        points_at(2, "10.0.0.0/8", bad, &["is not a network", "10.0.0.0/8"]);
    }
}

#[test]
fn what_is_missing_is_asked_for() {
    points_at(1, "listen = [\"127.0.0.1:8080\"]", "listen = []", &["at least one address"]);
    let without = |line: &str| {
        let text = GOOD.replace(line, "");
        Config::parse(&text, "nightwatt.toml").unwrap_err().to_string()
    };
    assert!(without("listen = [\"127.0.0.1:8080\"]\n").contains("listen"));
    assert!(without("origin = \"http://10.0.0.6\"\n").contains("origin"));
    let empty =
        Config::parse("listen = [\"127.0.0.1:80\"]\nsite = []", "x").unwrap_err().to_string();
    assert!(empty.starts_with("x:2:") && empty.contains("[[site]]"), "{empty}");
    let none = Config::parse("", "x").unwrap_err().to_string();
    assert!(none.contains("listen"), "{none}");
}

#[test]
fn what_is_not_toml_is_pointed_at() {
    points_at(5, "hold = \"30s\"", "hold = \"30s", &[]);
    points_at(4, "[limits]", "[limits", &[]);
    points_at(9, "on_w = 80", "on_w = 80\non_w = 81", &["twice"]);
}

#[test]
fn the_place_is_shown_under_its_line() {
    let error = error("hold = \"30s\"", "hold = \"soon\"");
    assert!(error.contains("\n5 | hold = \"soon\"\n"), "{error}");
    assert!(error.lines().last().unwrap().contains('^'), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Path::new("/nowhere/nightwatt.toml")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/nightwatt.toml"), "{error}");
}

proptest::proptest! {
    /// Whatever is broken in it, reading ends, and an error has a place in the file.
    #[test]
    fn no_file_is_too_odd(at in 0_usize..GOOD.len(), put in "[\\[\\]\"={}.#\\n\\\\a-z0-9é-]{0,8}") {
        let mut text = GOOD.to_owned();
        text.insert_str(at, &put);
        if let Err(error) = Config::parse(&text, "x") {
            let text = error.to_string();
            proptest::prop_assert!(text.starts_with('x'), "{}", text);
        }
    }
}

/// The first site's `[site.cache]` with this in it; it begins at line 16.
fn cache(text: &str) -> Result<Config, String> {
    let text = GOOD.replacen(
        "[site.power.process]",
        &format!("[site.cache]\n{text}\n\n[site.power.process]"),
        1,
    );
    Config::parse(&text, "nightwatt.toml").map_err(|error| error.to_string())
}

#[test]
fn a_site_says_what_is_kept() {
    let all = r#"
        ttl = "5m"
        negative_ttl = "30s"
        grace_asleep = "7d"
        stale_if_error = "0"
        heuristic_percent = 20
        heuristic_longest = "1h"
        cookies = "bypass"
        harmless_cookies = ["_ga*"]
        ignore_query = ["utm_*", "*"]
        sort_query = true
        store_set_cookie = true
        heed_requests = false
        respect_must_revalidate = false
        cdn_cache_control = false
        pinned = ["/", "/news/*"]
    "#;
    let config = cache(all).unwrap();
    let rules = config.site[0].cache_rules(&config.scenario);
    assert_eq!(rules.default_ttl, Some(Duration::from_mins(5)));
    assert_eq!(rules.negative_ttl, Some(Duration::from_secs(30)));
    assert_eq!(rules.grace_while_asleep, Duration::from_hours(168));
    assert_eq!(rules.stale_if_error, Duration::ZERO);
    let heuristic = rules.heuristic.unwrap();
    assert_eq!((heuristic.percent, heuristic.longest), (20, Duration::from_hours(1)));
    assert!(rules.store_set_cookie && rules.key.sort_query);
    assert!(!rules.heed_requests && !rules.respect_must_revalidate && !rules.cdn_cache_control);
    assert!(rules.is_pinned("/news/1?x") && rules.is_pinned("/") && !rules.is_pinned("/a"));
    assert_eq!(config.site[0].cache.risks().len(), 2);
    // The other site has the defaults, with the scenario's times.
    let other = &config.site[1].cache;
    let rules = other.rules(None, &config.scenario.cache);
    let defaults = nightwatt_httpcache::Rules::default();
    let expected =
        nightwatt_httpcache::Rules { default_ttl: Some(Duration::from_mins(2)), ..defaults };
    assert_eq!(rules, expected);
    assert_eq!(other.risks(), [""; 0]);
    let never = cache("ttl = \"0\"\nheuristic_percent = 0").unwrap();
    let rules = never.site[0].cache_rules(&never.scenario);
    assert_eq!((rules.default_ttl, rules.heuristic), (None, None));
}

#[test]
fn what_a_site_cannot_mean_about_its_cache_is_refused() {
    for (text, says) in [
        ("cookies = \"all\"", "`personal`"),
        ("ttl = 5", "`\"5s\"`"),
        ("ttl = \"5\"", "unit"),
        ("heuristic_percent = 101", "between 0 and 100"),
        ("ignore_query = [\"a=b\"]", "query parameter"),
        ("ignore_query = [\"\"]", "query parameter"),
        ("ignore_query = [\"*_id\"]", "at its end"),
        ("harmless_cookies = [\"a; b\"]", "cookie"),
        ("pinned = [\"robots.txt\"]", "`/robots.txt`"),
        ("pinned = [\"*\"]", "path"),
        ("pinned = [\"/a?b\"]", "path"),
        ("pin = []", "`pinned`"),
    ] {
        let error = cache(text).unwrap_err();
        assert!(error.starts_with("nightwatt.toml:16:"), "{text}: {error}");
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// The file with a meter for its first site.
fn with_meter(meter: &str) -> Result<Config, ConfigError> {
    let text = GOOD.replacen("origin = ", &format!("meter = {meter}\norigin = "), 1);
    Config::parse(&text, "nightwatt.toml")
}

#[test]
fn a_meter_is_a_driver_its_options_and_what_the_ledger_wants_of_it() {
    let config = with_meter(
        r#"{ driver = "rapl", address = "x", every = "30s", pick = "package-0", name = "host" }"#,
    );
    let meter = config.unwrap().site[0].meter.clone().unwrap();
    assert_eq!(
        (meter.every().unwrap(), meter.pick()),
        (Duration::from_secs(30), Some("package-0"))
    );
    let spec = meter.spec();
    assert_eq!((spec.name(), spec.address.as_deref()), ("host", Some("x")));
    assert!(spec.only(&[]).is_ok(), "the driver is not told of what is the ledger's");
    let usual = with_meter(r#"{ driver = "rapl" }"#).unwrap().site[0].meter.clone().unwrap();
    assert_eq!(usual.every().unwrap(), Duration::from_secs(10));
}

#[test]
fn a_meter_that_cannot_be_is_shown_on_its_line() {
    for (meter, says) in [
        (r#"{ driver = "sundial" }"#, "no meter `sundial`"),
        (r#"{ driver = "model" }"#, "`model` measures nothing"),
        (r#"{ driver = "rapl", every = "often" }"#, "`every`"),
        (r#"{ driver = "rapl", every = "10ms" }"#, "from 1 s to 300 s"),
        (r#"{ driver = "rapl", every = "1h" }"#, "from 1 s to 300 s"),
    ] {
        let error = with_meter(meter).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(error.starts_with("nightwatt.toml:13:"), "{error}");
    }
}

#[test]
fn a_sleeper_is_looked_at_if_somebody_else_can_tell() {
    let watched = |power: &str| {
        let site = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"web\"\norigin = \"http://10.0.0.2\"\nprobe = \
             \"controller\"\n{power}"
        );
        let site = Config::parse(&site, "test").unwrap().site.remove(0);
        let machine = power.replace("[site.", "[machine.");
        let machine = format!(
            "listen = [\"127.0.0.1:0\"]\n[[machine]]\nname = \"metal\"\nprobe = \"controller\"\n{machine}\n\
             [[site]]\nname = \"web\"\norigin = \"http://10.0.0.2\"\non = \"metal\"\n"
        );
        let machine = Config::parse(&machine, "test").unwrap().machine.remove(0);
        assert_eq!(site.watch_asleep(), machine.watch_asleep());
        let pooled = power.replace("[site.", "[site.server.");
        let pooled = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"web\"\n[[site.server]]\nname = \"one\"\n\
             origin = \"http://10.0.0.2\"\nprobe = \"controller\"\n{pooled}"
        );
        let pooled = Config::parse(&pooled, "test").unwrap().site.remove(0).server.remove(0);
        assert_eq!(site.watch_asleep(), pooled.watch_asleep());
        site.watch_asleep()
    };
    let agent = "[site.power.sleep.agent]\naddress = \"10.0.0.2\"\nkey = \"/k\"\n";
    let by_controller =
        "[site.power.wake.ipmi]\nhost = \"10.0.0.9\"\nuser = \"u\"\npassword_env = \"P\"\n";
    assert_eq!(watched(&format!("{by_controller}{agent}")), Duration::from_mins(1));
    let by_packet = "[site.power.wake.wol]\nmac = \"52:54:00:12:34:56\"\n";
    assert_eq!(watched(&format!("{by_packet}{agent}")), Duration::ZERO, "its own agent sleeps too");
}

#[test]
fn what_cannot_stand_in_a_page_is_refused() {
    let texts = |texts: &str| format!("hosts = [\"blog.example\"]\nwaiting_texts = {{ {texts} }}");
    let good = "hosts = [\"blog.example\"]";
    points_at(13, good, &texts("lang = 'en\"><script>'"), &["is no language", "pt-BR"]);
    points_at(13, good, &texts("style = '</style><script>'"), &["CSS cannot hold a `<`"]);
    points_at(13, good, &texts("headline = 'x'"), &["unknown key", "heading"]);
}

#[test]
fn services_that_are_passed_through_must_be_on_something_and_told_apart() {
    let parse = |tables: &str| match Config::parse(&format!("{GOOD}{tables}"), "x") {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    };
    let service = |name: &str, lines: &str| {
        format!("\n[[tcp]]\nname = \"{name}\"\nlisten = [\"0.0.0.0:443\"]\n{lines}\n")
    };
    let on = |lines: &str| format!("on = \"blog\"\norigin = \":443\"\n{lines}");
    let two = |a: &str, b: &str| [service("a", &on(a)), service("b", &on(b))].concat();
    assert_eq!(parse(&two("sni = [\"a.example\"]", "")), "fine");
    for (tables, says) in [
        (two("", ""), "only one of those that share an address can do without `sni`"),
        (two("sni = [\"a.example\"]", "sni = [\"A.example\"]"), "claimed twice, by `a`"),
        (
            two("sni = [\"a.example\"]\nwake_on = \"ssh\"", "sni = [\"b.example\"]"),
            "begin with TLS",
        ),
        (service("blog", &on("")), "the names of sites and machines must differ"),
        (service("a", "on = \"no\"\norigin = \":22\""), "called `no`"),
        (service("a", "on = \"blog\"\norigin = \"10.0.0.5\""), "write host and port"),
        (service("a", "on = \"blog\"\norigin = \":0\""), "write host and port"),
        (service("a", &on("sni = [\"*\"]")), "is not a name that TLS can ask for"),
        (service("a", &on("quiet = \"0\"")), "`tcp.quiet` is 0"),
        (service("a", &on("held = 0")), "`tcp.held` is 0"),
        (service("a", &on("asleep = \"drop\"")), "reset"),
    ] {
        let said = parse(&tables);
        assert!(said.contains(says), "{tables}\n{said}");
    }
}

#[test]
fn what_belongs_to_no_service_keeps_its_name() {
    let text = format!(
        "{GOOD}\n[[tcp]]\nname = \"unknown\"\nlisten = [\"0.0.0.0:22\"]\non = \"blog\"\norigin = \":22\"\n"
    );
    let said = Config::parse(&text, "x").unwrap_err().to_string();
    assert!(said.contains("connections that are for no service"), "{said}");
}

#[test]
fn the_examples_of_the_docs_are_good() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = |path: &str| std::fs::read_to_string(docs.join(path)).unwrap();
    let good = |name: &str, text: &str| {
        Config::parse(text, name).unwrap_or_else(|error| panic!("{error}"))
    };
    assert!(good("nightwatt.toml", &text("examples/nightwatt.toml")).tcp.is_empty());
    let names = |config: Config| config.tcp.into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(good("tcp.toml", &text("examples/tcp.toml"))), ["ssh", "git", "mail"]);
    let udp = good("udp.toml", &text("examples/udp.toml")).udp;
    assert_eq!(udp.into_iter().map(|it| it.name).collect::<Vec<_>>(), ["vpn", "game"]);
    let first = |page: &str| {
        let (_, page) = page.split_once("```toml\n").unwrap();
        page.split_once("```").unwrap().0.to_owned()
    };
    let packets = good("magic-packets.md", &first(&text("magic-packets.md")));
    assert_eq!(packets.packet_servers().count(), 1);
    let example = first(&text("passthrough.md"));
    // The page leaves out what another one is about.
    let example = example.replace("# ... how it is woken and put to sleep", "power.simulated = {}");
    let whole = format!("listen = [\"0.0.0.0:80\"]\n{example}");
    assert_eq!(names(good("passthrough.md", &whole)), ["ssh", "git", "mail"]);
}

#[test]
fn a_gate_needs_no_address_for_http_and_what_is_wrong_with_it_is_said() {
    let parse = |gate: &str| {
        let site = GOOD.lines().filter(|line| !line.starts_with("listen"));
        let site: String = site.flat_map(|line| [line, "\n"]).collect();
        Config::parse(&format!("{site}\n[gate]\n{gate}\n"), "x")
    };
    let gate = parse("listen = [\"127.0.0.1:9181\"]").unwrap().gate.unwrap();
    let knows = |address: &str| gate.knows(address.parse().unwrap());
    assert!(knows("127.0.0.1") && knows("::1") && !knows("10.0.0.2"));
    assert_eq!((gate.quiet, gate.hold), (Duration::from_mins(1), None));
    for (gate, says) in [
        ("listen = []", "at least one address"),
        ("listen = [\"127.0.0.1:9181\"]\nquiet = \"0\"", "`gate.quiet` is 0"),
        ("listen = [\"127.0.0.1:9181\"]\nhold = \"0\"", "`gate.hold` is 0"),
        ("listen = [\"127.0.0.1:9181\"]\nfrom = []", "the gate refuses everything"),
        ("listen = [\"127.0.0.1:9181\"]\nfrom = [\"all\"]", "is not a network"),
    ] {
        let said = parse(gate).unwrap_err().to_string();
        assert!(said.contains(says), "{gate}\n{said}");
    }
    let twice = GOOD.replacen("listen", "admin = \"127.0.0.1:9181\"\nlisten", 1);
    let twice = format!("{twice}\n[gate]\nlisten = [\"127.0.0.1:9181\"]\n");
    let said = Config::parse(&twice, "x").unwrap_err().to_string();
    assert!(said.contains("`admin` is listened for at"), "{said}");
}

#[test]
fn a_machine_with_services_needs_no_site_and_no_address_for_http() {
    let text = |origin: &str| {
        format!(
            "[[machine]]\nname = \"metal\"\nprobe = \"controller\"\npower.simulated = {{}}\n\
             [[tcp]]\nname = \"ssh\"\nlisten = [\"0.0.0.0:22\"]\non = \"metal\"\norigin = \"{origin}\"\n"
        )
    };
    assert!(Config::parse(&text("10.0.0.5:22"), "x").is_ok());
    let said = Config::parse(&text(":22"), "x").unwrap_err().to_string();
    assert!(said.contains("a machine has no origin"), "{said}");
}
