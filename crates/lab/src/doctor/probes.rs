//! What this kernel lets `caliper` and `disk` do, tried one by one.

use nightwatt_probes::{Offer, offers};

use super::Finding;

/// Tries everything: some programs are loaded, put in place and taken out again.
pub fn examine() -> Vec<Finding> {
    offers().iter().map(finding).collect()
}

fn finding(offer: &Offer) -> Finding {
    let needed = offer.used_by.join(", ");
    match &offer.refused {
        None if needed.is_empty() => Finding::good(offer.name, "works (not used)"),
        None => Finding::good(offer.name, format!("works (used by {needed})")),
        // What nothing needs is no loss.
        Some(why) if needed.is_empty() => Finding::note(offer.name, format!("{why} (not used)")),
        Some(why) => Finding::bad(offer.name, format!("{why} (used by {needed})"))
            .cure("docs/caliper.md says what it needs: rights, a kernel that describes its types, and which kernels are tested"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn what_is_refused_is_bad_only_where_something_needs_it() {
        let of = |used_by, refused: Option<&str>| {
            finding(&Offer { name: "kprobe", used_by, refused: refused.map(str::to_owned) })
        };
        assert_eq!(of(&["caliper"], Some("no")).verdict, Verdict::Bad);
        assert_eq!(of(&[], Some("no")).verdict, Verdict::Note);
        assert_eq!(of(&["caliper"], None).verdict, Verdict::Good);
    }
}
