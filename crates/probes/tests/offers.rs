//! What the kernel offers, tried in this very kernel.

use nightwatt_probes::{ProbeError, SectionProbes, Watch, offers};

#[test]
fn where_sections_can_be_watched_all_that_they_need_is_offered() {
    let offers = offers();
    for offer in &offers {
        println!("{}: {}", offer.name, offer.refused.as_deref().unwrap_or("works"));
    }
    match SectionProbes::load(Watch::Children) {
        Ok(_) => {
            let needed = offers.iter().filter(|it| it.is_needed && it.used_by.contains(&"caliper"));
            let missing: Vec<_> = needed.filter(|offer| !offer.works()).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
        Err(error @ (ProbeError::Denied { .. } | ProbeError::NoBtf)) => {
            println!("skipped: {error}");
            assert!(offers.iter().any(|offer| !offer.works()), "{offers:?}");
        }
        // Nothing of the kernel lacks then.
        Err(error @ ProbeError::PidNamespace) => println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
}
