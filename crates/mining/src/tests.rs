use std::path::PathBuf;

use crate::pure::CompactBits;
use nightwatt_report::Block;

use super::*;

fn coin(name: &str) -> Coin {
    Coins::with(None).unwrap().get(name).unwrap().clone()
}

fn options(histories: Histories) -> MiningOptions {
    MiningOptions {
        coin: coin("bitcoin"),
        at: DifficultyChoice::Usual,
        hash_rate: hash_rate("1 Mhash/s").unwrap(),
        devices: Devices::ours().unwrap(),
        histories,
        per_kwh: 0.1,
        per_coin: None,
        fees: None,
        height: None,
        currency: "USD".to_owned(),
    }
}

fn of(texts: &[&str]) -> Histories {
    let mut histories = Histories::default();
    for text in texts {
        histories.add(History::parse("test.csv", text).unwrap()).unwrap();
    }
    histories
}

/// The folder of real data, where it is.
fn shared(file: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("NIGHTWATT_DATA").map_or_else(|| beside.into(), PathBuf::from);
    if !folder.is_dir() {
        eprintln!("skipped: no shared data at {}", folder.display());
        return None;
    }
    // Where the folder is, all of it has to be: a check that looks at nothing proves nothing.
    Some(folder.join("bitcoin").join(file))
}

#[test]
fn without_options_it_is_the_published_example_to_all_its_digits() {
    let mining = run(&options(Histories::default())).unwrap();
    // O'Dwyer 2017, section 6.2.1.
    assert_eq!(mining.expected_s, "7.16621792838594592768e14");
    assert_eq!(mining.hashes, "7.16621792838594592768e20");
    let text = mining.text();
    assert!(text.contains("7.16621792838594592768e14 s"), "{text}");
    // Blocks of that time brought 25 BTC.
    assert_eq!(mining.reward, Some(25.0));
}

#[test]
fn the_whole_history_of_difficulties_follows_from_its_bits_and_from_the_rule() {
    let Some(path) = shared("difficulty_per_2016_blocks.csv") else { return };
    let mining = run(&options(Histories::read(&[path]).unwrap())).unwrap();
    let rules = mining.rules.as_ref().unwrap();
    assert_eq!((rules.difficulties, rules.rewards), (rules.epochs, rules.epochs));
    assert!(rules.epochs >= 417, "{}", rules.epochs);
    assert_eq!((&rules.wrong_difficulties, &rules.wrong_rewards), (&vec![], &vec![]));
    // The implied span lies between 20 minutes over and two hours under the first-block difference.
    assert!(rules.outside.is_empty(), "{:?}", rules.outside);
    // The one change that met the bound of four (block 68544), and the first fifteen epochs of
    // difficulty 1, of whose length nothing can be said; every other change is within.
    assert_eq!(rules.bounded, [68_544]);
    assert_eq!(rules.easiest, (1..=15).map(|epoch| epoch * 2016).collect::<Vec<_>>());
    assert_eq!(rules.within, rules.epochs - 1 - 16);
    assert!(mining.gaps.is_empty(), "{:?}", mining.gaps);
    assert!(rules.holds() && rules.untimed.is_empty());
}

#[test]
fn the_power_of_the_network_is_told_for_each_year_and_the_band_with_its_dates() {
    let Some(path) = shared("difficulty_per_2016_blocks.csv") else { return };
    let mining = run(&options(Histories::read(&[path]).unwrap())).unwrap();
    let years: Vec<i64> = mining.years.iter().map(|year| year.year).collect();
    assert_eq!(years[..16], (2009..=2024).collect::<Vec<_>>());
    for year in &mining.years {
        // At 2, 20, 200, 2000 and 50,000 Mhash/J: in the proportion of these.
        let ratios = year.power_gw.map(|gigawatts| year.power_gw[0] / gigawatts);
        for (ratio, expected) in ratios.iter().zip([1.0, 10.0, 100.0, 1000.0, 25_000.0]) {
            assert!((ratio / expected - 1.0).abs() < 1e-12, "{year:?}");
        }
        assert!(!year.devices.is_empty(), "{year:?}");
    }
    // The end of 2015 by hand: the epoch of 2015-12-19 has difficulty 93448670796.32 (its bits are
    // 180bc409); x 2^32 / 600 / 2e6 = 334.5 GW.
    let at = |day| options_at(&mining, day);
    assert!((at("2015-12-25") - 334.47).abs() < 0.01, "{}", at("2015-12-25"));
    // The published band: with 2 Mhash/J it is that of 2013-07 to 2014-02, with 2000 that of 2014-09
    // to 2018-02. By awk over the file: first epoch of at least 27,939,677 (2,793,967,724) and
    // 27,939,677,238 (2,793,967,723,847).
    let told: Vec<_> = mining
        .bands
        .iter()
        .map(|band| {
            assert_eq!(band.spans.len(), 1, "{band:?}");
            (band.mhash_j, band.spans[0].from.as_str(), band.spans[0].until.as_deref())
        })
        .collect();
    let expected =
        [(2.0, "2013-07-22", Some("2014-02-17")), (2000.0, "2014-09-13", Some("2018-02-06"))];
    assert_eq!(told, expected);
}

/// Power at 2 Mhash/J on a day, GW.
fn options_at(mining: &Mining, day: &str) -> f64 {
    let end = (day_of(day).unwrap() + 1) * 86_400;
    let point = mining.history.iter().rfind(|point| point.time < end).unwrap();
    point.difficulty.unwrap() * 2_f64.powi(32) / 600.0 / 2e6 / 1e9
}

#[test]
fn days_and_epochs_are_one_history() {
    let (Some(days), Some(epochs)) =
        (shared("daily_2009_2020-07.csv"), shared("difficulty_per_2016_blocks.csv"))
    else {
        return;
    };
    let mut options = options(Histories::read(&[days, epochs]).unwrap());
    options.at = DifficultyChoice::Day(day_of("2016-04-01").unwrap());
    let mining = run(&options).unwrap();
    // The difficulty that the thesis rounds to 166,851,513,283, of the epoch that began that day.
    assert_eq!(mining.bits, Some(CompactBits(0x1806_96f4)));
    assert_eq!(mining.reward, Some(25.0));
    assert!(
        mining.per_coin.is_some_and(|price| (price - 417.2).abs() < 0.1),
        "{:?}",
        mining.per_coin
    );
    let s9 = mining.devices.iter().find(|row| row.device.name == "Antminer S9").unwrap();
    assert_eq!(s9.assessment.profitable, Some(true));
    assert!(s9.days_profitable < s9.days_known, "in late 2018 it did not pay at 0.10");
    let core = &mining.devices[0];
    assert_eq!(core.assessment.profitable, Some(false));
    let document = mining.document("test".to_owned());
    let charts: Vec<&str> = document
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .filter_map(|block| match block {
            Block::Chart(chart) => Some(chart.title.as_str()),
            _ => None,
        })
        .collect();
    let published = [
        "Difficulty",
        "Fees",
        "Exchange rate",
        "Cost of a coin against its price",
        "Power of the network",
    ];
    assert_eq!(charts, published);
    assert!(document.to_html().len() < 4 << 20);
}

const DAYS: &str = "date,difficulty,price,fees
2016-04-01,100,400,0.5
2016-04-02,100,,0.5
2016-04-03,200,410,0.5
2016-04-07,200,420,
2016-04-08,200,420,0.25
";

#[test]
fn missing_days_are_marked_and_nothing_is_made_up_for_them() {
    let mining = run(&options(of(&[DAYS]))).unwrap();
    let gaps: Vec<_> = mining
        .gaps
        .iter()
        .map(|gap| (gap.what, gap.from.as_str(), gap.to.as_str(), gap.days))
        .collect();
    let expected = [
        ("all", "2016-04-04", "2016-04-06", 3),
        ("price", "2016-04-02", "2016-04-02", 1),
        ("fees", "2016-04-07", "2016-04-07", 1),
    ];
    assert_eq!(gaps, expected);
    assert_eq!(mining.history.len(), 5, "no more days than the file has");
    let since = day_of("2016-04-04").unwrap() * 86_400;
    assert_eq!(mining.history[3].missing_since, Some(since));
    assert_eq!(mining.years[0].days_missing, 3);
    assert!(mining.text().contains("2016-04-04  2016-04-06     3"), "{}", mining.text());
    // In a chart the line ends where the gap begins.
    let chart = mining.charts().remove(0);
    let breaks: Vec<f64> =
        chart.series[0].points.iter().filter(|it| it.y.is_nan()).map(|it| it.x).collect();
    assert_eq!(breaks, [since as f64]);
    let price = &mining.charts()[2].series[0];
    assert_eq!(
        price.points.iter().filter(|it| it.y.is_nan()).count(),
        2,
        "a day without, and the gap"
    );
    let missing = MiningOptions {
        at: DifficultyChoice::Day(day_of("2016-04-05").unwrap()),
        ..options(of(&[DAYS]))
    };
    let said = run(&missing).unwrap_err().to_string();
    assert!(said.contains("no history has a difficulty for 2016-04-05"), "{said}");
    assert!(said.contains("from 2016-04-01 to 2016-04-08"), "{said}");
}

#[test]
fn an_epoch_that_is_missing_is_a_gap_too() {
    let text = "height,date,bits
0,2009-01-03,1d00ffff
2016,2009-01-27,1d00ffff
6048,2009-03-02,1d00ffff
";
    let mining = run(&options(of(&[text]))).unwrap();
    assert_eq!(mining.gaps.len(), 1, "{:?}", mining.gaps);
    let at = |day: &str| {
        let at = DifficultyChoice::Day(day_of(day).unwrap());
        run(&MiningOptions { at, ..options(of(&[text])) })
    };
    assert_eq!(at("2009-01-20").unwrap().difficulty, "1", "it holds until the next");
    assert!(at("2009-02-10").is_err(), "whose end is not known");
    assert_eq!(mining.rules.unwrap().easiest, [2016], "only what follows on another is a change");
}

#[test]
fn wrong_epochs_are_found() {
    // Block 32256, with another difficulty, another reward and a time a day late.
    let text = "height,date,bits,difficulty,reward
30240,2009-12-18T09:56:01Z,1d00ffff,1.0,50
32256,2009-12-31T06:11:04Z,1d00d86a,1.1828995343128409,25
";
    let rules = run(&options(of(&[text]))).unwrap().rules.unwrap();
    assert!(!rules.holds());
    assert_eq!(rules.wrong_difficulties.len(), 1);
    assert_eq!((rules.wrong_rewards, rules.outside[0].height), (vec![32_256], 32_256));
    // Nothing follows from a time that is not the block's own.
    let text = text.replace("reward\n", "reward,time_is\n").replace(",50\n", ",50,exact\n");
    let text = text.replace(",25\n", ",25,estimated\n");
    let rules = run(&options(of(&[&text]))).unwrap().rules.unwrap();
    assert_eq!((rules.outside, rules.untimed), (vec![], vec![32_256]));
}

#[test]
fn nonsense_is_refused_with_its_line() {
    for (text, words) in [
        ("", "holds nothing"),
        ("# nothing\n\n", "holds nothing"),
        ("a,b\n1,2\n", "no dates"),
        ("date,colour\n2016-04-01,red\n", "no difficulty, price or fees"),
        ("date,difficulty\n", "no rows"),
        ("date,difficulty\n2016-04-01,0\n", "line 2 of test.csv: difficulty 0"),
        ("date,difficulty\n2016-04-01,0.000\n", "difficulty 0"),
        ("date,difficulty\n2016-04-01,-5\n", "`-5` is no number"),
        ("date,difficulty\n2016-04-01,NaN\n", "`NaN` is no number"),
        ("date,price\n2016-04-01,-5\n", "`-5` is no price"),
        ("date,price\n2016-04-01,NaN\n", "`NaN` is no price"),
        ("date,price\n2016-04-01,inf\n", "`inf` is no price"),
        ("date,fees\n2016-04-01,-1\n", "`-1` is no sum of fees"),
        ("date,price\n2016-13-01,5\n", "`2016-13-01` is no date"),
        ("date,price\n9999-12-31,5\n", "`9999-12-31` is no date"),
        ("date,price\n0001-01-01T00:00:00Z,5\n", "is no date"),
        ("date,price\n2016-04-01 banana,5\n", "`2016-04-01 banana` is no date"),
        ("date,price,price\n2016-04-01,5,6\n", "`price` and `price` say the same"),
        ("date,price,PriceUSD\n2016-04-01,5,6\n", "`price` and `priceusd` say the same"),
        ("date;price\n2016-04-01;5\n", "between commas"),
        (
            "date,difficulty\n2016-04-01,1e300\n2016-04-02,1\n",
            "line 2 of test.csv: difficulty 1e300",
        ),
        ("date,bits\n2016-04-01,1d80ffff\n", "line 2 of test.csv: the target"),
        ("date,price\n2016-04-01,5\n2016-04-01,5\n", "line 3 of test.csv: this row is not later"),
        ("date,price\n2016-04-02,5\n2016-04-01,5\n", "not later"),
        ("date,price\n2016-04-01\n", "1 cells, and the heading 2"),
        ("date,bits\n2016-04-01,xyz\n", "no compact bits"),
        ("date,height,bits\n2016-04-01,1.5,1d00ffff\n", "no height"),
        ("date,height,bits\n2016-04-01,,1d00ffff\n", "this row has no height"),
    ] {
        let said = History::parse("test.csv", text).unwrap_err().to_string();
        assert!(said.contains(words), "{text:?}: {said}");
        assert!(said.contains("; "), "no next thing to try: {said}");
    }
    let mut two = of(&[DAYS]);
    assert!(matches!(two.add(History::parse("b", DAYS).unwrap()), Err(Error::TwoHistories { .. })));
    let none = options(of(&["date,price\n2016-04-01,5\n"]));
    assert!(matches!(run(&none), Err(Error::NoDifficulty { .. })));
    let zero = MiningOptions {
        at: DifficultyChoice::Difficulty("0".parse().unwrap()),
        ..options(Histories::default())
    };
    assert!(run(&zero).is_err());
    let monero = MiningOptions { coin: coin("monero"), ..zero };
    assert!(run(&monero).is_err(), "where it counts hashes, too");
}

#[test]
fn times_are_read_with_their_zone_and_else_as_utc() {
    let time = |text: &str| {
        let text = format!("date,price\n{text},5\n");
        of(&[&text]).timeline(&coin("bitcoin"))[0].time
    };
    // By `date -u -d`: 2016-04-01 00:00:00 UTC is 1459468800.
    for (text, seconds) in [
        ("2016-04-01", 0),
        ("2016-04-01T01:00:00Z", 3600),
        ("2016-04-01 01:00:00", 3600),
        ("2016-04-01 01:00 UTC", 3600),
        ("2016-04-01T01:00:00.000000000Z", 3600),
        ("2016-04-01T01:00:00+01:00", 0),
    ] {
        assert_eq!(time(text), 1_459_468_800 + seconds, "{text}");
    }
}

#[test]
fn a_file_without_end_is_not_read_to_it() {
    let Err(Error::Read { source, .. }) = History::read("/dev/zero".as_ref()) else { panic!() };
    assert!(source.to_string().contains("64 MiB"), "{source}");
}

#[test]
fn columns_that_are_not_read_are_told() {
    let mining =
        run(&options(of(&["date,difficulty,prcie,a\u{7}b\n2016-04-01,100,5,6\n"]))).unwrap();
    let unread = Unread {
        file: "test.csv".to_owned(),
        columns: vec!["prcie".to_owned(), "a\u{7}b".to_owned()],
    };
    assert_eq!(mining.unread, [unread]);
    let text = mining.text();
    assert!(text.contains("Columns of test.csv that are not read: prcie, a\u{fffd}b"), "{text}");
    assert!(run(&options(of(&[DAYS]))).unwrap().unread.is_empty());
}

#[test]
fn fees_that_nobody_knows_are_not_said_to_be_none() {
    let unknown = run(&options(Histories::default())).unwrap();
    assert_eq!(unknown.fees, None);
    assert!(unknown.text().contains("25 BTC and fees that are not known"), "{}", unknown.text());
    let none = MiningOptions { fees: Some(0.0), ..options(Histories::default()) };
    assert!(run(&none).unwrap().text().contains("25 BTC and 0 of fees"));
    assert_eq!(run(&options(of(&[DAYS]))).unwrap().fees, Some(0.25), "the last day's");
}

#[test]
fn only_bitcoin_has_a_usual_difficulty_and_a_published_band() {
    for name in ["litecoin", "monero", "dogecoin", "bitcoin-cash"] {
        let other = MiningOptions { coin: coin(name), ..options(Histories::default()) };
        let said = run(&other).unwrap_err().to_string();
        assert!(said.contains(name) && said.contains("--difficulty"), "{said}");
        let history = MiningOptions { coin: coin(name), ..options(of(&[DAYS])) };
        assert!(run(&history).unwrap().bands.is_empty(), "{name}");
    }
    assert_eq!(run(&options(of(&[DAYS]))).unwrap().bands.len(), 2);
}

#[test]
fn a_device_mines_coins_of_the_hash_that_it_computes() {
    let at = || DifficultyChoice::Difficulty("2.5e7".parse().unwrap());
    let of_ours = |name: &str| {
        let options = MiningOptions { coin: coin(name), at: at(), ..options(Histories::default()) };
        run(&options).unwrap()
    };
    assert!(of_ours("litecoin").devices.is_empty(), "ours compute another hash");
    let text = of_ours("litecoin").text().replace('\n', " ");
    assert!(text.contains("No device of the table computes scrypt: `--devices FILE`"), "{text}");
    assert!(of_ours("monero").devices.is_empty());
    let all = Devices::ours().unwrap().iter().count();
    assert_eq!(of_ours("bitcoin").devices.len(), all);
    assert_eq!(of_ours("bitcoin-cash").devices.len(), all);
    // A table that does not say is taken at its word.
    let table = "name,algorithm,mhash_s,watts\na,Scrypt,1,1\nb,sha256d,1,1\nc,,1,1\n";
    let devices = Devices::parse("d.csv", table).unwrap();
    let options = MiningOptions {
        coin: coin("litecoin"),
        at: at(),
        devices,
        ..options(Histories::default())
    };
    let mining = run(&options).unwrap();
    let names: Vec<&str> = mining.devices.iter().map(|row| row.device.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn days_count_from_the_month_in_which_a_device_could_be_had() {
    let days =
        "date,difficulty,price,reward\n2016-06-29,1,1,1\n2016-06-30,1,1,1\n2016-07-01,1,1,1\n";
    let known = |table: &str| {
        let devices = Devices::parse("d.csv", table).unwrap();
        let mining = run(&MiningOptions { devices, ..options(of(&[days])) }).unwrap();
        mining.devices[0].days_known
    };
    assert_eq!(known("name,mhash_s,watts,since\na,1,1,2016-07\n"), 1);
    assert_eq!(known("name,mhash_s,watts,since\na,1,1,2016\n"), 3);
    assert_eq!(known("name,mhash_s,watts,year\na,1,1,2017\n"), 0, "as it was called before");
    assert_eq!(known("name,mhash_s,watts\na,1,1\n"), 3);
}

#[test]
fn devices_of_the_list_of_2020_are_as_that_has_them() {
    let Some(path) = shared("mining-devices_f2pool_2020-03.csv") else { return };
    let list = std::fs::read_to_string(path).unwrap();
    let ours = Devices::ours().unwrap();
    let of_it: Vec<_> = ours.iter().filter(|it| it.source.contains("f2pool")).collect();
    assert_eq!(of_it.len(), 6);
    for device in of_it {
        // Company, device, age, TH/s, W, ..., year, month: there may be several of a name.
        let found = list.lines().any(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let number = |place: usize| cells[place].parse::<f64>().unwrap_or(f64::NAN);
            let since = format!("{}-{:0>2}", cells[11], cells[12]);
            cells[1] == device.name
                && (number(3) * 1e6).to_bits() == device.mhash_s.to_bits()
                && number(4).to_bits() == device.watts.to_bits()
                && device.since.as_ref().is_some_and(|it| it.to_string() == since)
        });
        assert!(found, "{device:?}");
    }
}

#[test]
fn a_negative_price_is_refused_wherever_it_is_from() {
    for (per_kwh, per_coin, fees) in [
        (-0.1, None, None),
        (f64::NAN, None, None),
        (0.1, Some(-1.0), None),
        (0.1, None, Some(f64::NAN)),
    ] {
        let wrong = MiningOptions { per_kwh, per_coin, fees, ..options(Histories::default()) };
        assert!(run(&wrong).is_err(), "{per_kwh} {per_coin:?} {fees:?}");
    }
}

#[test]
fn coins_are_found_by_name_and_symbol_and_others_come_from_a_file() {
    assert_eq!(coin("LTC").name, "litecoin");
    let unknown = Coins::with(None).unwrap().get("goldcoin").unwrap_err().to_string();
    assert!(unknown.contains("bitcoin, bitcoin-cash, litecoin"), "{unknown}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coins.toml");
    let text = r#"[[coin]]
name = "goldcoin"
symbol = "GLD"
hash_unit = "solution"
block_time_s = 30
difficulty = "hashes"
rewards = { units_per_coin = 100, first = 700, halving_blocks = 10, least = 100 }
"#;
    std::fs::write(&path, text).unwrap();
    let gold = Coins::with(Some(&path)).unwrap().get("goldcoin").unwrap().clone();
    let at = DifficultyChoice::Difficulty("6e9".parse().unwrap());
    let mining =
        run(&MiningOptions { coin: gold, at, height: Some(15), ..options(Histories::default()) });
    let mining = mining.unwrap();
    // 6e9 solutions at 1e6 a second; all together 2e8 a second; after one halving 350 of 100 units.
    assert_eq!((mining.expected_s.as_str(), mining.target), ("6e3", None));
    assert!((mining.network_hash_rate - 2e8).abs() < 1e-3);
    assert_eq!(mining.reward, Some(3.5));
    for (line, with) in [
        ("block_time_s = 30", "block_time_s = 0"),
        ("units_per_coin = 100", "units_per_coin = 0"),
        ("halving_blocks = 10", "halving_blocks = 0"),
        ("symbol = \"GLD\"", "symbol = \" \""),
        ("difficulty = \"hashes\"", "difficulty = \"beauty\""),
        ("hash_unit", "hash_units"),
    ] {
        std::fs::write(&path, text.replace(line, with)).unwrap();
        assert!(matches!(Coins::with(Some(&path)), Err(Error::Coins { .. })), "{with}");
    }
}

#[test]
fn litecoin_times_all_its_pauses_and_bitcoin_one_less() {
    // Block 2015 of Bitcoin's rule is the last of 2016; Litecoin's parameters are its own.
    assert_eq!(coin("bitcoin").retarget.unwrap().intervals, 2015);
    let litecoin = coin("litecoin");
    let settles = litecoin.retarget.unwrap().settles_at();
    assert_eq!(settles, Exact::whole(150_u8));
    assert_eq!(litecoin.rewards.at(840_000), Some(25.0));
}

#[test]
fn devices_are_picked_by_name_or_read_from_a_file() {
    let ours = Devices::ours().unwrap();
    let published: Vec<_> = ours.iter().filter(|it| it.printed.is_some()).collect();
    assert_eq!(published.len(), 8);
    assert!(ours.iter().all(|it| it.since.is_some() && !it.source.is_empty()));
    assert_eq!(ours.clone().only(&["antminer s9".to_owned()]).unwrap().iter().count(), 2);
    assert!(matches!(ours.only(&["abacus".to_owned()]), Err(Error::NoDevice { .. })));
    let of = |text| Devices::parse("d.csv", text);
    assert_eq!(
        of("name,mhash_s,watts\n\"a, b\",1,2\n").unwrap().iter().next().unwrap().name,
        "a, b"
    );
    for wrong in [
        "name,mhash_s,watts\n",
        "name,mhash_s,watts\na,0,1\n",
        "name,mhash_s,watts\na,1,-1\n",
        "name,mhash_s,watts\na,NaN,1\n",
        "name,mhash_s,watts\n,1,1\n",
        "name,mhash_s,watts\na,1,1\na,1,1\n",
        "name,mhash_s,watts,year\na,1,1,19\n",
        "name,mhash_s,watts,since\na,1,1,2016-13\n",
        "name,mhash_s,watts,since\na,1,1,2016-1\n",
    ] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_published_devices_are_the_published_table() {
    let Some(path) = shared("daily_2009_2020-07.csv") else { return };
    let table = path.ancestors().nth(3).unwrap().join("published/odwyer_mining_devices.csv");
    let table = std::fs::read_to_string(table).unwrap();
    let ours = Devices::ours().unwrap();
    for (line, device) in table.lines().skip(1).zip(ours.iter()) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: usize| cells[cell].parse::<f64>().unwrap().to_bits();
        assert_eq!((cells[0], cells[1]), (device.name.as_str(), device.kind.as_str()));
        assert_eq!(number(2), device.mhash_s.to_bits(), "{line}");
        assert_eq!(number(3), device.watts.to_bits(), "{line}");
        assert_eq!(device.printed.as_deref(), Some(cells[4]), "{line}");
    }
}

#[test]
fn hash_rates_are_read_with_their_units() {
    for (text, all) in [
        ("1 Mhash/s", "1e6"),
        ("110 TH/s", "1.1e14"),
        ("1e6", "1e6"),
        ("2.5kh/s", "2.5e3"),
        ("3 EH/s", "3e18"),
        ("7 h/s", "7e0"),
        ("5 Msol/s", "5e6"),
        ("1,000,000 hashes/s", "1e6"),
    ] {
        assert_eq!(hash_rate(text).unwrap().scientific(), all, "{text}");
    }
    for text in ["", "0", "0 TH/s", "-1 TH/s", "1 XH/s", "TH/s", "1 TH", "NaN H/s", "1 T H/s/s"] {
        assert!(hash_rate(text).is_err(), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_more_than_a_history_can_bear(
        head in "date,(difficulty|bits|price|height|fees|BlkCnt)(,(fees|height|reward_per_day|bits))?",
        rows in proptest::collection::vec("[-0-9a-fN.,eTZ:\"# ]{0,40}", 0..8),
    ) {
        let text = format!("{head}\n{}\n", rows.join("\n"));
        if let Ok(history) = History::parse("any.csv", &text) {
            let mut histories = Histories::default();
            histories.add(history).unwrap();
            if let Ok(mining) = run(&options(histories)) {
                let _ = mining.text();
                let _ = mining.document("test".to_owned()).to_html();
            }
        }
    }

    #[test]
    fn no_text_is_more_than_a_hash_rate_or_a_date_can_bear(text in ".{0,30}") {
        let _ = (hash_rate(&text), day_of(&text));
    }
}
