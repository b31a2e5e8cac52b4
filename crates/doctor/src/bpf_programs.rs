//! What this kernel lets `caliper` and `disk` do, tried one by one.

use nightwatt_probes::{Offer, offers};

use super::Finding;

/// Tries everything: some programs are loaded, put in place and taken out again.
pub fn examine() -> Vec<Finding> {
    offers().iter().map(finding).collect()
}

fn finding(offer: &Offer) -> Finding {
    let used = match offer.used_by {
        [] => "not used".to_owned(),
        users if offer.is_needed => format!("needed by {}", users.join(", ")),
        users => format!("used by {} where there is one", users.join(", ")),
    };
    match &offer.refused {
        None => Finding::good(offer.name, format!("works ({used})")),
        Some(why) if !offer.is_needed => Finding::note(offer.name, format!("{why} ({used})")),
        Some(why) => Finding::bad(offer.name, format!("{why} ({used})"))
            .cure("docs/caliper.md says what it needs: rights, a kernel that describes its types, and which kernels are tested"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn what_is_refused_is_bad_only_where_something_needs_it() {
        let of = |is_needed, refused: Option<&str>| {
            let refused = refused.map(str::to_owned);
            finding(&Offer { name: "kprobe", used_by: &["caliper"], is_needed, refused }).verdict
        };
        assert_eq!(of(true, Some("no")), Verdict::Bad);
        assert_eq!(of(false, Some("no")), Verdict::Note);
        assert_eq!((of(true, None), of(false, None)), (Verdict::Good, Verdict::Good));
    }
}
