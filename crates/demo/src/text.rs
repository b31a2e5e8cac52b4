//! The report in words and tables, for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_report::figures::with_half_width;

use super::report::DemoReport;

/// What each answer means, in the order in which they are told.
const ANSWERS: [(&str, &str); 17] = [
    ("cache", "from the cache"),
    ("not-modified", "from the cache: the client has it (304)"),
    ("stale", "from the cache, stale: the server slept"),
    ("mirror", "from the mirror: the server slept"),
    ("server", "by the server, awake"),
    ("held", "held until the server woke"),
    ("waiting-page", "waiting page, then the page"),
    ("monitor", "by the proxy: health checks, icons"),
    ("crawler", "crawler, told when to come back (503)"),
    ("scanner", "scanner, refused (503)"),
    ("state", "the waiting page's own questions"),
    ("timeout", "held too long (504)"),
    ("budget", "woke the server too often (503)"),
    ("unavailable", "server failed (502, 503)"),
    ("refused", "refused by the proxy (4xx)"),
    ("limited", "asked too often (429)"),
    ("redirect", "sent on to HTTPS (308)"),
];

impl DemoReport {
    /// The report for people who read.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}: {} requests in {:.2} days", self.source, self.requests, self.days())?;
        if let Some(log) = &self.log {
            writeln!(
                out,
                "  {} lines read; {} held no HTTP request and {} could not be read: not played",
                log.lines, log.bad_requests, log.malformed
            )?;
        }
        let server = &self.scenario.server;
        writeln!(
            out,
            "  server {} W awake, {} W asleep, {} J a sleep; proxy {} W; policy {}; {}\n",
            server.on_w,
            server.off_w,
            server.switch_j,
            self.scenario.proxy.power_w,
            self.scenario.policy,
            self.sla()
        )?;
        self.write_answers(out)?;
        self.write_delays(out)?;
        self.write_wakeups(out)?;
        self.write_energy(out)?;
        let sound = if self.is_sound() {
            "every request is in the client's, the proxy's and the server's records once"
        } else {
            "THE RECORDS DISAGREE"
        };
        writeln!(out, "Accounting: {} lost, {} doubled: {sound}", self.lost, self.doubled)
    }

    fn days(&self) -> f64 {
        self.span_s / 86_400.0
    }

    fn sla(&self) -> String {
        let sla = &self.scenario.sla;
        let share =
            sla.share.filter(|_| sla.visits_per_day.is_none() && sla.longest_wait.is_none());
        match share {
            _ if !sla.enabled => "no SLA".to_owned(),
            Some(share) => format!(
                "at most {:.0} % of requests wait over {:.0} ms",
                share * 100.0,
                sla.delay.as_secs_f64() * 1000.0
            ),
            None => sla.in_words().join("; "),
        }
    }

    fn write_answers(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{:<44}{:>9}{:>8}", "Answered", "requests", "share")?;
        let mut rest: BTreeMap<&str, u64> =
            self.answers.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let told = ANSWERS.iter().filter_map(|(name, words)| Some((*words, rest.remove(name)?)));
        let told: Vec<(&str, u64)> = told.collect();
        for (words, count) in told.into_iter().chain(rest) {
            writeln!(out, "  {words:<42}{count:>9}{:>7.1} %", self.share(count))?;
        }
        let more = &self.follow_ups;
        writeln!(
            out,
            "  and {} pages reopened, {} crawler visits kept, {} polls of waiting pages\n",
            more.reopened, more.crawler_retries, more.polls
        )
    }

    fn share(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.requests.max(1) as f64
    }

    fn write_delays(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "{:<22}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "Delay until content, s", "requests", "mean", "p50", "p90", "p99", "max"
        )?;
        let all = std::iter::once(("all", &self.delay_s));
        for (class, delay) in all.chain(self.delay_s_by_class.iter().map(|(k, v)| (k.as_str(), v)))
        {
            writeln!(
                out,
                "  {class:<20}{:>9}{:>9.3}{:>9.3}{:>9.3}{:>9.3}{:>9.3}",
                delay.count, delay.mean, delay.p50, delay.p90, delay.p99, delay.max
            )?;
        }
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        writeln!(
            out,
            "  delayed: {} of {} requests of people and programs ({:.1} %), {} of {} visits ({:.1} %)",
            self.delayed_requests,
            self.admitted,
            percent(self.delayed_requests, self.admitted),
            self.delayed_visits,
            self.visits,
            percent(self.delayed_visits, self.visits)
        )?;
        if self.refused_though_logged_well > 0 {
            writeln!(
                out,
                "  refused as scanners' although the logged site had answered well: {} requests",
                self.refused_though_logged_well
            )?;
        }
        let crawlers = &self.crawlers;
        if crawlers.sent_away > 0 {
            writeln!(
                out,
                "  crawlers: {} requests sent away, {} of them served within 24 h of asking",
                crawlers.sent_away, crawlers.served_within_24_h
            )?;
        }
        writeln!(out)
    }

    fn write_wakeups(&self, out: &mut String) -> std::fmt::Result {
        let rate = self.wakeups as f64 / self.days();
        write!(out, "Wake-ups: {} ({rate:.1} a day)", self.wakeups)?;
        for (cause, count) in &self.wakeup_causes {
            write!(out, "; {cause} {count}")?;
        }
        writeln!(out)?;
        let classes = self.wakeups_by_class.iter();
        let classes: Vec<String> =
            classes.map(|(class, count)| format!("{class} {count}")).collect();
        write!(out, "  by class of the client then: {}", classes.join(", "))?;
        let later = self.wakeups_by_clients_classed_later;
        writeln!(out, "; {later} by clients found out later\n")
    }

    fn write_energy(&self, out: &mut String) -> std::fmt::Result {
        let (energy, sure) = (&self.energy_j, &self.energy_uncertainty_j);
        let model = &self.provenance.model;
        writeln!(out, "Energy, modelled ({model})")?;
        let on_w = self.scenario.server.on_w;
        writeln!(out, "  assumes {on_w} W awake (not measured)")?;
        let rows = [
            ("server", energy.server, sure.server),
            ("proxy", energy.proxy, sure.proxy),
            ("server always on, no proxy", energy.always_on, sure.always_on),
            ("server, perfect knowledge, no delays", energy.oracle, sure.oracle),
        ];
        for (name, joules, uncertainty) in rows {
            let (kwh, plus_minus) = (joules / JOULES_PER_KWH, uncertainty / JOULES_PER_KWH);
            let [kwh, plus_minus] = with_half_width(kwh, plus_minus)
                .unwrap_or_else(|| [kwh, plus_minus].map(|it| format!("{it:.4}")));
            writeln!(out, "  {name:<42}{kwh:>9} ± {plus_minus} kWh")?;
        }
        writeln!(
            out,
            "  saved {:.1} % against always on; perfect knowledge would have saved {:.1} %",
            self.saving * 100.0,
            self.oracle_saving * 100.0
        )?;
        if let Some(plain) = &self.without_mirror {
            writeln!(
                out,
                "  the same requests without the mirror: saved {:.1} %, with {} wake-ups; {} requests delayed",
                plain.saving * 100.0,
                plain.wakeups,
                plain.delayed_requests
            )?;
        }
        writeln!(out)
    }
}
