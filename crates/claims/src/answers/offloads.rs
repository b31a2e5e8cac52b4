//! B2: what segmentation offload and interrupt coalescing save, by results of `tcp helps`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::answers::tcp::kept::of_kind;
use crate::{Answer, Context, Error, Figure, Printed};
use nightwatt_netlab::cards::Feature;
use nightwatt_netlab::helps::{Change, KIND, SCHEMA};

/// What would give results, where there are none.
const HOW: &str = "minutes to hours of measuring, as root: run `nightwatt tcp helps --json` with the changes \
     tso+gso+gro and coalescing, and give the file that it wrote with `--results`";

/// Why no percentage of ours could agree with theirs.
const THEIRS: &str =
    "theirs is of its authors' network cards, and of the energy of one side by a meter";

/// What a pair of virtual Ethernet cards has for a driver.
const VETH: &str = "veth";

/// Answers B2.
pub(crate) fn offloads(context: &mut Context<'_>, _: &Printed) -> Result<Answer, Error> {
    let mut found = OffloadFindings::default();
    for (path, results) in of_kind(context, Some(KIND))? {
        if results["schema"] != SCHEMA {
            let why = format!("it is no `{KIND}` of version {SCHEMA}");
            return Err(Error::Kept { path, why });
        }
        found.read(&results);
    }
    Ok(found.answer())
}

/// What results say of it.
#[derive(Debug, Default)]
struct OffloadFindings {
    figures: Vec<Figure>,
    /// Of what is segmentation: CPU time was less, more, and neither.
    segmentation: [u32; 3],
    refused: Vec<String>,
    /// Of the cards that were switched.
    drivers: BTreeSet<String>,
}

impl OffloadFindings {
    fn read(&mut self, results: &Value) {
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        for link in list(&results["links"]) {
            let scenario = link["scenario"]["name"].as_str().unwrap_or_default().to_owned();
            for change in list(&link["changes"]) {
                self.change(&scenario, &change);
            }
            for refused in list(&link["refused"]) {
                let what = refused["change"].as_str().unwrap_or_default();
                let why = refused["refusals"][0]["why"].as_str().unwrap_or_default();
                if what.starts_with("coalescing") {
                    self.refused.push(format!("interrupt coalescing was refused ({why})"));
                }
            }
        }
    }

    fn change(&mut self, scenario: &str, change: &Value) {
        let name = change["change"].as_str().unwrap_or_default();
        let (is_segmentation, is_coalescing) = match Change::parse(name) {
            Ok(Change::Features(all)) => {
                (all.contains(&Feature::Tso) && all.contains(&Feature::Gso), false)
            }
            Ok(Change::Coalescing(_)) => (false, true),
            _ => (false, false),
        };
        if !is_segmentation && !is_coalescing {
            return;
        }
        let ends = change["cards"].as_array().into_iter().flatten().filter_map(Value::as_array);
        let drivers = ends.flatten().filter_map(|card| card["driver"].as_str());
        self.drivers.extend(drivers.map(str::to_owned));
        for figure in ["cpu", "energy"] {
            let effect = &change["figures"][figure];
            let number = |name: &str| effect[name].as_f64();
            let (Some(percent), Some(low), Some(high)) =
                (number("percent"), number("low"), number("high"))
            else {
                continue;
            };
            let verdict = effect["verdict"].as_str().unwrap_or_default();
            let (connections, segments) = (&change["connections"], &change["segments"]);
            let what = format!(
                "{figure} saved by {name}, scenario {scenario}, {connections} x {segments} segments, by \
                 {} pairs (95 %: {:.1} to {:.1} %; {verdict})",
                effect["pairs"], -high, -low
            );
            self.figures.push(Figure::alone(what, -percent, "%"));
            if figure == "cpu" && is_segmentation {
                let place = ["less", "more"].iter().position(|it| *it == verdict).unwrap_or(2);
                self.segmentation[place] += 1;
            }
        }
    }

    fn answer(mut self) -> Answer {
        self.refused.sort_unstable();
        self.refused.dedup();
        if self.figures.is_empty() && self.refused.is_empty() {
            return Answer::not_checkable(HOW);
        }
        let [less, more, neither] = self.segmentation;
        let direction = match self.segmentation {
            [0, 0, 0] => "segmentation offload (tso+gso) was not tried".to_owned(),
            [_, 0, 0] => {
                format!(
                    "it is less wherever it was tried ({less}): the direction of their claim is seen"
                )
            }
            _ => format!(
                "it is less in {less} loads, more in {more}, and not known or no different in {neither}"
            ),
        };
        let refused = self.refused.iter().fold(String::new(), |all, it| all + "; " + it);
        let cards = self.cards();
        Answer::not_checkable(format!("{THEIRS}; {cards}: {direction}{refused}")).with(self.figures)
    }

    /// Whose results these are.
    fn cards(&self) -> String {
        let drivers: Vec<&str> = self.drivers.iter().map(String::as_str).collect();
        match &drivers[..] {
            [] => "of the CPU time here".to_owned(),
            [VETH] => {
                "of the CPU time between virtual cards (veth), where the kernel cuts and joins \
                       segments in place of a card"
                    .to_owned()
            }
            other => format!("of the CPU time with cards by the driver {}", other.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results(verdict: &str, driver: &str) -> Value {
        let cards = json!([[{"driver": driver}, {"driver": driver}], [{"driver": driver}, {"driver": driver}]]);
        json!({"kind": KIND, "schema": SCHEMA, "links": [{
            "scenario": {"name": "none"},
            "changes": [
                {"change": "tso+gso+gro", "connections": 1, "segments": 10000, "cards": cards, "figures": {
                    "cpu": {"percent": -40.0, "low": -45.0, "high": -35.0, "pairs": 20, "verdict": verdict},
                    "energy": {"percent": null, "low": null, "high": null, "verdict": "not-known-yet"}}},
                {"change": "gro", "connections": 1, "segments": 10000, "figures": {
                    "cpu": {"percent": 1.0, "low": 0.5, "high": 1.5, "pairs": 20, "verdict": "no-difference"}}},
            ],
            "refused": [{"change": "coalescing=50", "refusals": [
                {"what": "rx-usecs 50", "end": "sender", "why": "veth: Operation not supported"}]}],
        }]})
    }

    fn answer(results: &[Value]) -> String {
        let mut found = OffloadFindings::default();
        for it in results {
            found.read(it);
        }
        format!("{:?}", found.answer())
    }

    #[test]
    fn the_direction_of_b2_is_seen_where_cpu_time_is_less_with_its_interval() {
        let said = answer(&[results("less", "veth")]);
        assert!(said.contains("the direction of their claim is seen"), "{said}");
        assert!(said.contains("95 %: 35.0 to 45.0 %; less"), "{said}");
        assert!(said.contains("refused (veth: Operation not supported)"), "{said}");
        assert!(!said.contains("saved by gro,"), "joining alone is no part of it: {said}");
        assert!(said.contains("virtual cards (veth)"), "{said}");
        let said = answer(&[results("not-known-yet", "e1000e")]);
        assert!(said.contains("cards by the driver e1000e") && !said.contains("veth)"), "{said}");
        assert!(said.contains("not known or no different in 1"), "{said}");
        assert!(answer(&[]).contains("--results"));
    }
}
