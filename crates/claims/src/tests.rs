use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;

fn answered(ids: &[&str]) -> Reproduction {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    run(&ReproduceOptions { ids, ..ReproduceOptions::default() }, |_, _, _| ()).unwrap()
}

fn one(id: &str) -> Answered {
    answered(&[id]).claims.remove(0)
}

/// Figures that do not agree, by what they are.
fn wrong(it: &Answered) -> Vec<&str> {
    let wrong = it.figures.iter().filter(|figure| figure.agrees == Some(false));
    wrong.map(|figure| figure.what.as_str()).collect()
}

/// The folder of published figures, where it is.
fn published(file: &str) -> Option<String> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("NIGHTWATT_DATA").map_or_else(|| beside.into(), PathBuf::from);
    if !data.is_dir() {
        eprintln!("skipped: no shared data at {}", data.display());
        return None;
    }
    Some(std::fs::read_to_string(data.parent().unwrap().join("published").join(file)).unwrap())
}

#[test]
fn every_claim_of_the_list_is_in_the_data_and_the_other_way_round() {
    let printed = Printed::all().unwrap();
    let of_data: Vec<&str> = printed.iter().map(|claim| claim.id.as_str()).collect();
    let of_list: Vec<&str> = ANSWERS.iter().map(|(id, _)| *id).collect();
    assert_eq!(of_data, of_list);
    assert_eq!(of_list.iter().collect::<BTreeSet<_>>().len(), of_list.len());
    for claim in &printed {
        let kinds = ["exact", "simulated", "measured"];
        assert!(kinds.contains(&claim.kind.as_str()) && !claim.says.is_empty(), "{claim:?}");
    }
}

#[test]
fn every_published_claim_is_answered_by_name() {
    // The table of claims in the published figures' own description: `| id | kind | ...`.
    let Some(table) = published("README.md") else { return };
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (id, kind) = (cells.next()?.to_owned(), cells.next()?.to_owned());
        ["exact", "simulated", "measured"].contains(&kind.as_str()).then_some((id, kind))
    };
    let theirs: Vec<(String, String)> = table.lines().filter_map(row).collect();
    assert_eq!(theirs.len(), 29, "{theirs:?}");
    let printed = Printed::all().unwrap();
    for (id, kind) in theirs {
        let ours = printed.iter().find(|claim| claim.id == id);
        assert_eq!(ours.map(|claim| claim.kind.as_str()), Some(kind.as_str()), "{id}");
    }
}

#[test]
fn what_can_be_answered_now_is() {
    let all = answered(&[]);
    let of = |verdict| {
        let of_it = all.claims.iter().filter(|it| it.verdict == verdict).map(|it| it.id);
        of_it.collect::<Vec<_>>()
    };
    // The list of what has to be answered; O2 to O5 are of a log, and so may differ.
    for id in ["O1", "O8", "O9", "O10", "V1", "V2", "V3", "V4", "V5", "H1", "S1", "S4", "S5", "X1"]
    {
        let it = all.claims.iter().find(|it| it.id == id).unwrap();
        assert!(it.verdict <= Verdict::Differs && !it.figures.is_empty(), "{id}");
    }
    assert_eq!(
        of(Verdict::NotCheckable),
        ["O6", "O7", "V6", "B1", "B2", "B3", "B4", "B5", "H2", "H3", "S2", "S3"]
    );
    assert!(all.claims.iter().all(|it| !it.why.is_empty()), "each says why");
    let text = all.text();
    assert!(text.contains("30 claims: ") && text.contains("12 not checkable."), "{text}");
    let why = |id| all.claims.iter().find(|it| it.id == id).unwrap().why.clone();
    assert!(why("O2").contains("demo's day, which is generated") && !why("O1").contains("demo"));
    assert!(why("V5").contains("98,000 requests, a tenth of theirs"), "{}", why("V5"));
    let page = all.document("test".to_owned()).to_html();
    for it in &all.claims {
        assert!(page.contains(&format!("{}: {}", it.id, it.verdict.as_str())), "{}", it.id);
    }
}

#[test]
fn sleep_pays_from_4_09_seconds_on() {
    let it = one("O1");
    assert_eq!(it.verdict, Verdict::Agrees);
    // By hand: 170.7 / 41.7 = 4.09353.
    assert!((it.figures[0].ours - 4.09353).abs() < 1e-5, "{:?}", it.figures[0]);
}

#[test]
fn the_expected_time_agrees_to_every_digit() {
    let it = one("o8");
    assert_eq!((it.id, it.verdict), ("O8", Verdict::Agrees));
    let digits = "7.16621792838594592768e14".to_owned();
    assert_eq!(it.figures[0].digits, Some((digits.clone(), digits)));
}

#[test]
fn the_power_of_the_network_is_never_within_the_band_for_both_bounds() {
    let it = one("O9");
    assert_eq!(it.verdict, Verdict::Differs);
    let ours: Vec<f64> = it.figures.iter().map(|figure| figure.ours).collect();
    // The note beside the claim: 0.005 to 5.1 GW in January 2014, 0.6 to 597 GW in April 2016.
    for (ours, theirs) in ours.iter().zip([0.005, 5.1, 0.6, 597.0, 1000.0]) {
        assert!((ours / theirs - 1.0).abs() < 0.02, "{ours} {theirs}");
    }
    for date in ["2013-07-22 until 2014-02-17", "2014-09-13 until 2018-02-06"] {
        assert!(it.why.contains(date), "{}", it.why);
    }
}

#[test]
fn two_printed_efficiencies_do_not_follow_and_all_are_those_of_the_published_table() {
    let it = one("O10");
    assert_eq!(wrong(&it), ["Atom N450: 1.6 / 6.5", "ATI 5770: 214.5 / 108"]);
    assert!(it.why.contains("0.246 and 0.31") && it.why.contains("1.986 and 1.95"), "{}", it.why);
    let Some(table) = published("odwyer_mining_devices.csv") else { return };
    for (line, figure) in table.lines().skip(1).zip(&it.figures) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: usize| cells[cell].parse::<f64>().unwrap();
        assert!((figure.ours - number(2) / number(3)).abs() < 1e-9, "{line}");
        assert_eq!(figure.published, Some((number(4), number(4))), "{line}");
    }
}

#[test]
fn one_row_of_intervals_follows_from_no_number_of_samples() {
    let it = one("H1");
    assert_eq!(wrong(&it), ["KVM with three guests: 1.96 x 0.47 / sqrt(3)"]);
    // By Python: (1.96 x 0.465 / 0.515)^2 = 3.132, (1.96 x 0.475 / 0.505)^2 = 3.399.
    assert!(it.why.contains("n would be between 3.13 and 3.40"), "{}", it.why);
}

#[test]
fn our_tables_are_the_published_ones() {
    let number = |cell: &str| cell.parse::<f64>().ok();
    let table = |text: &str| -> Vec<Vec<Option<f64>>> {
        let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
        lines.map(|line| line.split(',').map(number).collect()).collect()
    };
    let ours = table(include_str!("../data/helin-power.csv"));
    let Some(idle) = published("helin_idle_power.csv") else { return };
    for (ours, theirs) in ours.iter().zip(table(&idle)) {
        assert_eq!(ours[1..], theirs[3..], "{theirs:?}");
    }
    let Some(turbo) = published("helin_turbo_and_governors.csv") else { return };
    for (ours, theirs) in ours[10..].iter().zip(table(&turbo)) {
        assert_eq!([&ours[1..2], &ours[3..]].concat(), theirs[2..], "{theirs:?}");
    }
    assert_eq!(ours.len(), 15);
    let Some(sync) = published("singh_sync_accuracy.csv") else { return };
    for (ours, theirs) in table(include_str!("../data/singh-sync.csv")).iter().zip(table(&sync)) {
        assert_eq!(ours[..], theirs[..4]);
    }
    let Some(energy) = published("singh_compression_energy.csv") else { return };
    assert_eq!(table(include_str!("../data/singh-compression.csv")), table(&energy));
    let Some(states) = published("odwyer_power_states.csv") else { return };
    let msi = &table(&states)[0];
    let default = nightwatt_policy::scenario::Scenario::default().power_states();
    let default = [default.on.get(), default.off.get(), default.switch.get()].map(Some);
    assert_eq!(msi[1..4], default, "O1's server is the default scenario's");
}

#[test]
fn epochs_of_the_band_are_those_of_the_whole_history() {
    // That their dates are those of the whole file is tested in `mining`; here, that the few epochs are.
    let Some(_) = published("README.md") else { return };
    let data = std::env::var_os("NIGHTWATT_DATA").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").into(),
        PathBuf::from,
    );
    let all = std::fs::read_to_string(data.join("bitcoin/difficulty_per_2016_blocks.csv")).unwrap();
    let ours = include_str!("../data/bitcoin-epochs.csv");
    for line in ours.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let [height, time, bits] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let found = all.lines().any(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            (cells[0], cells[1], cells[3]) == (height, time, bits)
        });
        assert!(found, "{line}");
    }
}

#[test]
fn samples_are_off_by_one_at_most() {
    let it = one("S1");
    assert_eq!(it.verdict, Verdict::Agrees);
    assert_eq!(it.figures.len(), 7);
    let synthetic = &it.figures[..5];
    assert!(synthetic.iter().all(|figure| figure.ours <= 1.0 && figure.ours > 0.0));
    // Their table: predicted 165603, seen 165604.
    assert_eq!(it.figures[5].ours.to_bits(), 165_603_f64.to_bits());
}

#[test]
fn the_halving_was_in_july() {
    // Known: block 420,000 came on 2016-07-09 at 16:46 UTC, 30.7 days after 9 June began.
    let it = one("X1");
    assert_eq!(it.verdict, Verdict::Differs);
    assert!((it.figures[0].ours - 30.7).abs() < 0.5 && it.why.contains("2016-07-09"), "{}", it.why);
}

#[test]
fn compressors_are_as_in_their_table_which_is_not_what_their_text_says() {
    let it = one("S4");
    assert_eq!(it.verdict, Verdict::Differs);
    // By hand: 91.6 / 3.4 = 26.94, where the text has 17.3.
    let wrong: Vec<_> = it.figures.iter().filter(|it| it.agrees == Some(false)).collect();
    assert_eq!(wrong.len(), 1, "{:?}", it.figures);
    assert!((wrong[0].ours - 26.94).abs() < 0.01 && wrong[0].published == Some((17.3, 17.3)));
    assert!(it.why.contains("xz at 10000 bytes/s, bzip2 at 100000"), "{}", it.why);
    let ours = |words: &str| {
        let found = it.figures.iter().find(|figure| figure.what.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {:?}", it.figures)).ours
    };
    // By hand, from the table: at four rates in equal shares xz needs 482.8, and the cheapest 316.3 J.
    assert!((ours("oracle: steps between") - 34.5).abs() < 0.5);
    assert!(ours("ours: steps between") > 30.0 && ours("published algorithm: steps") > 30.0);
    // Locked out, it sends everything as it is: 338.7 of 97.2 J.
    assert!((ours("cannot be packed: published") - 338.7 / 97.2).abs() < 0.1);
    assert!(ours("cannot be packed: ours") < 1.05);
}

#[test]
fn their_text_of_idle_guests_is_held_against_their_tables() {
    let it = one("H2");
    assert_eq!(it.verdict, Verdict::NotCheckable, "ours takes hours");
    let ours = |words: &str| {
        let found = it.figures.iter().find(|figure| figure.what.contains(words));
        let figure = found.unwrap_or_else(|| panic!("{words}: {:?}", it.figures));
        (figure.ours, figure.agrees)
    };
    // By hand: 1 - 116.3 / 125.6 = 7.404 %, 82.1 - 75.4 = 6.7 W, 1 - 80.1 / 226.2 = 64.6 %.
    for (words, theirs, agrees) in [
        ("without turbo", 7.404, Some(true)),
        ("second disk", 6.7, Some(true)),
        ("three idle machines", 64.589, None),
        ("Xen over the hardware, by their table, three", 177.719, Some(true)),
    ] {
        let (ours, ours_agrees) = ours(words);
        assert!((ours - theirs).abs() < 1e-3, "{words}: {ours}");
        assert_eq!(ours_agrees, agrees, "{words}");
    }
}

#[test]
fn what_a_log_has_nothing_of_is_not_compared() {
    // One request: the server never comes to sleep, and there is no pause.
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("one.log");
    let line =
        "192.0.2.1 - - [05/Mar/2012:12:00:00 +0000] \"GET /a HTTP/1.1\" 200 10 \"-\" \"x\"\n";
    std::fs::write(&log, line).unwrap();
    let ids = ["O4", "O5"].map(str::to_owned).to_vec();
    let options = ReproduceOptions { ids, logs: vec![log], ..ReproduceOptions::default() };
    for it in run(&options, |_, _, _| ()).unwrap().claims {
        assert_eq!((it.verdict, it.figures.len()), (Verdict::NotCheckable, 0), "{}", it.id);
    }
}

#[test]
fn what_was_given_in_vain_is_told() {
    let options = ReproduceOptions {
        ids: vec!["O1".to_owned()],
        logs: vec!["/nonexistent.log".into()],
        results: vec!["/nonexistent.results".into()],
        ..ReproduceOptions::default()
    };
    let found = run(&options, |_, _, _| ()).unwrap();
    assert_eq!((found.log.as_ref(), found.notes.len()), (None, 2), "{:?}", found.notes);
    let text = found.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("`--log` was not read"), "{text}");
    assert!(text.contains("--results /nonexistent.results` answers no claim"), "{text}");
    assert_eq!(answered(&["O1"]).notes.len(), 0);
}

#[test]
fn claims_about_a_log_are_held_against_the_one_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    // Each page is asked for three times: at once again, and after ten minutes.
    let mut text = String::new();
    for (second, page) in [(0, "a"), (1, "a"), (600, "a"), (700, "b"), (701, "b"), (1300, "b")] {
        let (hour, minute, second) = (12 + second / 3600, second / 60 % 60, second % 60);
        let time = format!("05/Mar/2012:{hour:02}:{minute:02}:{second:02} +0000");
        let agent = "Mozilla/5.0 (X11) Firefox/10";
        let line =
            format!("192.0.2.1 - - [{time}] \"GET /{page} HTTP/1.1\" 200 10 \"-\" \"{agent}\"");
        text.push_str(&line);
        text.push('\n');
    }
    std::fs::write(&log, text).unwrap();
    let ids = vec!["O2".to_owned()];
    let options = ReproduceOptions { ids, logs: vec![log], ..ReproduceOptions::default() };
    let found = run(&options, |_, _, _| ()).unwrap();
    let it = &found.claims[0];
    // By hand: two minutes answer the second time, an hour of grace also the third.
    assert!((it.figures[0].ours - 100.0 * 2.0 / 6.0).abs() < 1e-9, "{:?}", it.figures);
    assert!((it.figures[1].ours - 100.0 * 4.0 / 6.0).abs() < 1e-9, "{:?}", it.figures);
    assert_eq!((it.verdict, it.figures[2].ours.to_bits()), (Verdict::Differs, 6_f64.to_bits()));
    assert!(found.log.unwrap().ends_with("access.log"));
    let missing = ReproduceOptions { logs: vec![folder.path().join("no.log")], ..options };
    assert!(matches!(run(&missing, |_, _, _| ()), Err(Error::Savings(_))));
}

#[test]
fn an_unknown_claim_is_refused_with_those_there_are() {
    let ids = vec!["O1".to_owned(), "Z9".to_owned()];
    let error = run(&ReproduceOptions { ids, ..ReproduceOptions::default() }, |_, _, _| ());
    let said = error.unwrap_err().to_string();
    assert!(said.contains("`Z9`") && said.contains("O1, O2, O3"), "{said}");
}

#[test]
fn progress_names_each_claim_and_ends_at_all() {
    let ids = vec!["O8".to_owned(), "O1".to_owned()];
    let mut told = Vec::new();
    let on_progress = |id: &str, done, all| told.push((id.to_owned(), done, all));
    let found = run(&ReproduceOptions { ids, ..ReproduceOptions::default() }, on_progress).unwrap();
    let expected = [("O1", 0, 2), ("O8", 1, 2), ("", 2, 2)];
    assert_eq!(told, expected.map(|(id, done, all)| (id.to_owned(), done, all)));
    assert_eq!(
        found.claims.iter().map(|it| it.id).collect::<Vec<_>>(),
        ["O1", "O8"],
        "the list's order"
    );
}
