use std::ops::ControlFlow;
use std::path::Path;

use super::*;

const PLAN: &str = r#"
sla = "10ms"
policies = ["predictive", "always-on 1..3", "delayed-off 1s 10s"]
replications = 3
requests = 5000
transition_price_j = 5

[[server]]
name = "small"
servers = 6
points = [[200, "10ms"]]
idle_w = 2
busy_w = 2

[[server]]
name = "large"
servers = 3
service_rate = 505.5
idle_w = 81
busy_w = 97.5

[[arrivals]]
kind = "poisson"
rates = [300, 600]
"#;

fn plan(text: &str) -> Result<Plan, Error> {
    PlanFile::read("plan.toml", text, Path::new(""))
}

fn ran(text: &str) -> PlanResult {
    plan(text).unwrap().run(|_, _| ControlFlow::Continue(())).unwrap()
}

/// 100,000 requests at 1500/s are 67 s, and a server takes 30 s to start.
#[test]
fn a_simulation_follows_from_the_time_to_start_or_is_warned_of() {
    let text =
        PLAN.replace("requests = 5000", "requests = 100_000").replace("[300, 600]", "[1500]");
    let slow = text.replace("points =", "switch_on = \"30s\"\npoints =");
    let mut slow = plan(&slow).unwrap();
    let warnings = slow.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("`--requests`"), "{warnings:?}");
    slow.lengthen();
    let Sampling { requests, warm_up, .. } = slow.sampling;
    // Twenty times 30 s of 1500 a second after five times.
    assert_eq!((requests, warm_up), (900_000, 225_000));
    assert_eq!(slow.warnings(), [""; 0]);
    // Where it is short, more servers are not the cure.
    let refuses = PLAN.replace(
        "policies = [\"predictive\", \"always-on 1..3\", \"delayed-off 1s 10s\"]",
        "policies = [\"always-on 1\"]",
    );
    let result = ran(&refuses.replace("points =", "switch_on = \"30s\"\npoints ="));
    let text = result.text().replace('\n', " ");
    assert!(text.contains("simulate for longer first"), "{text}");
}

#[test]
fn every_pool_meets_every_traffic_under_every_policy() {
    let result = ran(PLAN);
    let met: Vec<(&str, &str, f64, &str)> = (result.rows.iter())
        .map(|row| (row.pool.as_str(), row.traffic.as_str(), row.rate, row.policy.as_str()))
        .collect();
    let mut expected = Vec::new();
    for pool in ["small", "large"] {
        for rate in [300.0, 600.0] {
            for policy in [
                "predictive",
                "always-on 1",
                "always-on 2",
                "always-on 3",
                "delayed-off 1s",
                "delayed-off 10s",
            ] {
                expected.push((pool, "poisson", rate, policy));
            }
        }
    }
    assert_eq!(met, expected);
    for row in &result.rows {
        let served = row.rate * (1.0 - row.refused.mean);
        // 81 W of each that is on, 16.5 W more of each that serves: 1 / 505.5 s for a request. Of three
        // times 5000 requests the number in a time is known to 0.8 %.
        if row.pool == "large" {
            let busy = (row.watts.mean - 81.0 * row.servers_on.mean) / 16.5;
            assert!((busy * 505.5 / served - 1.0).abs() < 0.04, "{busy} busy: {row:?}");
        }
        let per_joule = served / row.watts.mean;
        assert!((row.requests_per_joule.mean / per_joule - 1.0).abs() < 0.04, "{row:?}");
        if let Some(least) = row.policy.strip_prefix("always-on ") {
            let least: f64 = least.parse().unwrap();
            assert!(row.servers_on.mean >= least - 1e-9 && row.most_on >= least as u32, "{row:?}");
        }
        if (row.pool.as_str(), row.policy.as_str()) == ("large", "always-on 3") {
            assert_eq!((row.most_on, row.transitions_per_hour.mean), (3, 0.0), "there are no more");
        }
        // Small servers draw 2 W whenever they are on.
        if row.pool == "small" {
            assert!((row.watts.mean / (2.0 * row.servers_on.mean) - 1.0).abs() < 1e-9, "{row:?}");
        }
        assert!(row.mean_response_ms.mean <= 10.0 && row.p99_response_ms.mean <= 10.1, "{row:?}");
        let half = row.wh_per_day.half_width.unwrap();
        assert!(half < 0.2 * row.wh_per_day.mean, "{row:?}");
        let cost = row.watts.mean + 5.0 * row.transitions_per_hour.mean / 3600.0;
        assert!((row.cost_w.mean / cost - 1.0).abs() < 1e-9);
    }
    // 261.8 is what a point at 200/s and 10 ms makes of M/D/1.
    assert!((result.servers[0].service_rate - 261.8).abs() < 0.01);
    assert_eq!((result.servers[0].places, result.servers[1].places), (2, 5));
}

#[test]
fn the_front_is_what_nobody_beats_and_the_cheapest_lies_on_it() {
    let result = ran(PLAN);
    for rows in result.groups() {
        let cheapest: Vec<&Row> = rows.iter().filter(|row| row.cheapest).collect();
        let [best] = cheapest[..] else { panic!("{cheapest:?}") };
        for row in rows {
            assert!(best.cost_w.mean <= row.cost_w.mean, "{best:?} {row:?}");
            let at = |row: &Row| (row.watts.mean, row.transitions_per_hour.mean);
            let beaten = rows.iter().any(|other| {
                let (other, own) = (at(other), at(row));
                other.0 <= own.0 && other.1 <= own.1 && other != own
            });
            // All keep the limit here: there are servers enough.
            assert!(row.keeps_limit && row.pareto != beaten, "{row:?}");
            assert!(!row.cheapest || row.pareto, "less of both never costs more: {row:?}");
        }
    }
}

#[test]
fn the_oracle_costs_least_and_is_nothing_to_choose() {
    let longer = PLAN.replace("requests = 5000", "requests = 50000");
    let oracle = "\"predictive\", \"baseline\", \"oracle\"";
    let result = ran(&longer.replace("\"predictive\"", oracle));
    for rows in result.groups() {
        let (oracle, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.foresees);
        let [oracle] = oracle[..] else { panic!("{rows:?}") };
        assert_eq!((oracle.policy.as_str(), others.len()), ("oracle 1", 7));
        assert!(oracle.keeps_limit && !oracle.cheapest && !oracle.pareto);
        for row in others.iter().filter(|row| row.keeps_limit) {
            // These servers have several places, so it may miss the least by a little (seen: 0.5 %); with
            // one place, tests of the simulator check that no policy costs less.
            assert!(oracle.cost_w.mean <= 1.02 * row.cost_w.mean, "{oracle:?} {row:?}");
        }
        assert_eq!(others.iter().filter(|row| row.cheapest).count(), 1);
    }
    assert!(result.text().contains("oracle 1") && result.text().contains("nothing to choose"));
    assert!(!ran(PLAN).text().contains("oracle"));
    let together = format!("together = true\n{}", PLAN.replace("\"predictive\"", "\"oracle\""));
    let said = plan(&together).unwrap_err().to_string();
    assert!(said.contains("plan.toml:1:1: `oracle` is for servers that are all alike"), "{said}");
}

#[test]
fn measured_service_times_are_drawn_as_often_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    // 1, 1, 1 and 5 ms: 2 ms in the mean, 7 ms^2 in the mean square.
    std::fs::write(folder.path().join("times"), "service [ms]\n1\n1\n5\n1\n").unwrap();
    let text = r#"
sla = "10ms"
refused = 1
line = 1000000
policies = ["always-on 1"]
replications = 20
requests = 20000

[[server]]
name = "measured"
servers = 1
service = "empirical times"
idle_w = 1
busy_w = 2

[[arrivals]]
kind = "poisson"
rates = [250]
"#;
    let read = |text: &str| PlanFile::read("plan.toml", text, folder.path());
    let result = read(text).unwrap().run(|_, _| ControlFlow::Continue(())).unwrap();
    assert!((result.servers[0].service_rate - 500.0).abs() < 1e-9, "{:?}", result.servers);
    // Pollaczek and Khinchine: 2 ms, and 250/s x 7 ms^2 / (2 (1 - 1/2)) of waiting.
    let found = result.rows[0].mean_response_ms;
    let off = (found.mean - 3.75) / found.half_width.unwrap();
    // Twice the 95 % interval of 20 runs: one in 2000 lies beyond.
    assert!(off.abs() < 2.0, "{found:?}");
    // With a rate of its own only the proportions count.
    let faster = text.replace("servers = 1\n", "servers = 1\nservice_rate = 1000\n");
    assert!((read(&faster).unwrap().servers[0].kind.service.get() - 1000.0).abs() < 1e-9);

    let said = |text: &str| read(text).unwrap_err().to_string();
    let gone = said(&text.replace("empirical times", "empirical gone.csv"));
    assert!(
        gone.contains("plan.toml:12:1: cannot read ") && gone.contains("gone.csv: No such file"),
        "{gone}"
    );
    std::fs::write(folder.path().join("times"), "1ms\nsoon\n").unwrap();
    let soon = said(text);
    assert!(
        soon.contains("plan.toml:12:1: ") && soon.contains("times: line 2 is no time"),
        "{soon}"
    );
    let nameless = said(&text.replace("empirical times", "empirical"));
    assert!(nameless.contains("`empirical FILE`"), "{nameless}");
}

#[test]
fn the_same_plan_gives_the_same_result_and_another_seed_another() {
    let (first, again) = (ran(PLAN), ran(PLAN));
    assert_eq!(first, again);
    let other = ran(&format!("seed = 2\n{PLAN}"));
    assert_ne!(first.rows, other.rows);
    // The intervals of both overlap: the same truth.
    for (a, b) in first.rows.iter().zip(&other.rows) {
        let (a, b) = (a.servers_on, b.servers_on);
        let widths = a.half_width.unwrap() + b.half_width.unwrap();
        assert!((a.mean - b.mean).abs() <= 1.5 * widths + 1e-9, "{a:?} {b:?}");
    }
}

#[test]
fn kinds_together_are_used_by_energy_per_request() {
    let result = ran(&format!("together = true\n{PLAN}"));
    assert_eq!(result.rows.len(), 2 * 6);
    for row in result.rows.iter().filter(|row| row.rate < 400.0) {
        assert_eq!(row.pool, "small + large");
        assert!(row.on_by_kind[0] > 1.0 && row.on_by_kind[1] < 0.01, "{row:?}");
    }
}

#[test]
fn a_kind_may_be_called_as_two_together_are() {
    let text = ran(&PLAN.replace("\"small\"", "\"a + b\"")).text().replace('\n', " ");
    assert!(text.contains("% less than all servers idling") && !text.contains("inf"), "{text}");
}

#[test]
fn mistakes_are_told_with_their_line() {
    let said = |from: &str, to: &str| {
        let text = PLAN.replace(from, to);
        assert_ne!(text, PLAN, "{from}");
        plan(&text).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("sla = \"10ms\"", "sla = \"1ms\"", "plan.toml:11:1: a response within 1ms"),
        ("replications = 3", "replications = 0", "plan.toml:4:1: choose 1 to 1000"),
        ("always-on 1..3", "always-on", "plan.toml:3:27: `always-on` is not a fleet policy"),
        ("idle_w = 2\n", "idle_w = -2\n", "plan.toml:12:1: watts and joules are 0 or more"),
        ("service_rate = 505.5", "", "plan.toml:15:1: say how fast it is"),
        ("rates = [300, 600]", "rates = [300, -1]", "plan.toml:24:1: the rate is -1"),
        ("rates = [300, 600]", "", "plan.toml:22:1: say how much arrives"),
        (
            "kind = \"poisson\"",
            "kind = \"fish\"",
            "plan.toml:23:8: `arrivals.kind` is `fish`, but must be one of ",
        ),
        (
            "servers = 6",
            "server = 6",
            "plan.toml:10:1: unknown key `server.server`: did you mean `servers`?",
        ),
        (
            "name = \"large\"",
            "name = \"small\"",
            "plan.toml:16:1: `[[server]]` 1 and 2 are both called `small`",
        ),
        (
            "always-on 1..3",
            "delayed-off 10s",
            "plan.toml:3:46: `delayed-off 10s` is in `delayed-off 10s` and again in `delayed-off 1s 10s`",
        ),
        (
            "rates = [300, 600]",
            "rates = [300, 600, 300]",
            "plan.toml:24:1: the rate 300 is there twice",
        ),
        (
            "rates = [300, 600]",
            "rates = [300]\n[[arrivals]]\nkind = \"poisson\"\nrates = [600]",
            "plan.toml:25:1: `[[arrivals]]` 1 and 2 are both called `poisson`",
        ),
        (
            "rates = [300, 600]",
            "name = \"web\"\nrates = [300]\n[[arrivals]]\nkind = \"bursts\"\nname = \"web\"\nrates = [300]",
            "plan.toml:28:1: `[[arrivals]]` 1 and 2 are both called `web`",
        ),
    ] {
        let said = said(from, to);
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let empty = plan("sla = \"10ms\"\npolicies = [\"baseline\"]\n").unwrap_err().to_string();
    assert!(empty.contains("there is no `[[server]]`"), "{empty}");
}

#[test]
fn a_log_is_played_whole_and_counts_per_second_too() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("counts"), "3 0 1\n".repeat(40)).unwrap();
    let text = PLAN.replace(
        "kind = \"poisson\"\nrates = [300, 600]",
        "kind = \"log\"\nfiles = [\"counts\"]\ncopies = 2",
    );
    let plan = PlanFile::read("p", &text, folder.path()).unwrap();
    assert_eq!(plan.traffic.len(), 1);
    assert_eq!(plan.traffic[0].name, "2 x counts");
    assert!((plan.traffic[0].rate - 2.0 * 4.0 / 3.0).abs() < 1e-12);
    let result = plan.run(|_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(result.rows.len(), 2 * 6);
    let missing = text.replace("counts", "gone");
    let said = PlanFile::read("p", &missing, folder.path()).unwrap_err().to_string();
    assert!(said.contains("cannot open log") && said.contains("gone"), "{said}");
}

#[test]
fn the_page_has_every_published_chart() {
    let page = ran(PLAN).document(String::new()).to_html();
    for chart in [
        "Servers on against the rate",
        "Energy of a day against the rate",
        "Transitions an hour against the rate",
        "Servers on against the number always on: small",
        "Energy of a day against the delay of switching off: large",
        "Energy against transitions: poisson at 300 requests/s",
        "Requests a second per watt against the rate",
        "Power against the rate",
        "Pareto front",
        "large, 50 ms",
    ] {
        assert!(page.contains(chart), "{chart}");
    }
    // A large server needs 2 ms for one request, a small one 3.8.
    assert!(page.contains("small, 5 ms"));
}

#[test]
fn who_waits_in_line_for_longer_than_was_promised_is_late_and_no_policy_is_chosen_for_it() {
    // One server of 100/s, asked 150 times a second, with room for all to wait: no request is refused.
    let text = PLAN
        .replace(
            "policies = [\"predictive\", \"always-on 1..3\", \"delayed-off 1s 10s\"]",
            "policies = [\"always-on 1\"]\nline = 1000000",
        )
        .replace("servers = 6\npoints = [[200, \"10ms\"]]", "servers = 1\nservice_rate = 100")
        .replace("rates = [300, 600]", "rates = [150]");
    let result = ran(&text);
    let small = result.rows.iter().find(|row| row.pool == "small").unwrap();
    assert!(small.refused.mean < 1e-9 && small.late.mean > 0.9, "{small:?}");
    assert!(!small.keeps_limit && !small.cheapest);
    assert!(result.text().replace('\n', " ").contains("later than the SLA"));
}

#[test]
fn of_a_day_whole_days_count() {
    let day = |requests: &str| {
        let text = PLAN
            .replace("requests = 5000", requests)
            .replace(
                "policies = [\"predictive\", \"always-on 1..3\", \"delayed-off 1s 10s\"]",
                "policies = [\"always-on 3\"]",
            )
            .replace(
                "kind = \"poisson\"\nrates = [300, 600]",
                "kind = \"day\"\nrates = [10]\npeak = 2",
            )
            .replace("busy_w = 97.5", "busy_w = 162");
        ran(&text).rows.iter().find(|row| row.pool == "large").unwrap().watts.mean
    };
    // 81 W more for each server that is busy, and 10 / 505.5 of one is, over a day; in the first hours
    // of it, which begin at nothing, hardly any.
    let watts = 3.0 * 81.0 + 81.0 * 10.0 / 505.5;
    // The end lies in the trough, where the last requests may be half an hour late.
    let found = day("requests = 5000");
    assert!((found - watts).abs() < 0.1, "{found} {watts}");
}
