use proptest::prelude::*;

use super::*;
use nightwatt_energy::quantity::Watts;

fn exact(text: &str) -> Exact {
    text.parse().unwrap()
}

/// As in `crates/mining/data/coins.toml`.
fn bitcoin() -> Retarget {
    Retarget {
        blocks: 2016,
        intervals: 2015,
        clamp: 4,
        limit: CompactBits(0x1d00_ffff),
        block_time_s: 600,
    }
}

#[test]
fn compact_bits_mean_what_bitcoin_core_says() {
    // Its own table: `bignum_SetCompact` in src/test/arith_uint256_tests.cpp.
    let zero = [
        0x0000_0000,
        0x0012_3456,
        0x0100_3456,
        0x0200_0056,
        0x0300_0000,
        0x0400_0000,
        0x0092_3456,
        0x0180_3456,
        0x0280_0056,
        0x0380_0000,
        0x0480_0000,
    ];
    for bits in zero {
        let bits = CompactBits(bits);
        assert_eq!(bits.target(), Err(MiningError::Zero(bits)), "{bits}");
    }
    for bits in [0x01fe_dcba, 0x0492_3456] {
        let bits = CompactBits(bits);
        assert_eq!(bits.target(), Err(MiningError::Negative(bits)), "{bits}");
    }
    for (bits, target, back) in [
        (0x0112_3456, "12", 0x0112_0000),
        (0x0212_3456, "1234", 0x0212_3400),
        (0x0312_3456, "123456", 0x0312_3456),
        (0x0412_3456, "12345600", 0x0412_3456),
        (0x0500_9234, "92340000", 0x0500_9234),
        (
            0x2012_3456,
            "1234560000000000000000000000000000000000000000000000000000000000",
            0x2012_3456,
        ),
    ] {
        let found = CompactBits(bits).target().unwrap();
        assert_eq!(found.to_string(), format!("{target:0>64}"));
        assert_eq!(found.compact(), CompactBits(back), "{target}");
    }
    // 0x80 would set the sign: it takes a byte more.
    assert_eq!(Target::of(0x80_u8.into()).compact(), CompactBits(0x0200_8000));
    for bits in [0xff12_3456, 0x2300_0001, 0x2200_0100, 0x2101_0000] {
        let bits = CompactBits(bits);
        assert_eq!(bits.target(), Err(MiningError::Overflow(bits)), "{bits}");
    }
    // The longest that there are: 255 x 2^248 and 65535 x 2^240.
    for bits in [0x2200_00ff, 0x2100_ffff] {
        assert!(CompactBits(bits).target().unwrap().to_string().starts_with("ff"));
    }
}

#[test]
fn compact_bits_are_eight_hexadecimal_digits() {
    assert_eq!("1d00ffff".parse(), Ok(CompactBits(0x1d00_ffff)));
    assert_eq!("0x1D00FFFF".parse(), Ok(CompactBits(0x1d00_ffff)));
    for text in ["", "1d00fff", "1d00ffff0", "+d00ffff", "1d00fffg", "0x"] {
        assert_eq!(text.parse::<CompactBits>(), Err(MiningError::Bits(text.to_owned())));
    }
}

#[test]
fn the_published_example_comes_out_to_all_its_digits() {
    // O'Dwyer 2017, section 6.2.1.
    let difficulty = exact("166,851,513,283");
    let time = difficulty * Exact::power_of_two(32) / exact("1e6");
    assert_eq!(time.scientific(), "7.16621792838594592768e14");
    assert_eq!(time.to_string(), "716621792838594.592768");
}

#[test]
fn difficulty_one_takes_a_little_more_than_two_to_the_32_hashes() {
    // 2^256 / ((2^16 - 1) 2^208 + 1): by Python, 2**256 // (0xffff * 2**208 + 1) = 4295032833, as
    // `GetBlockProof` has it too (0x100010001).
    let target = Target::of_difficulty_one();
    assert_eq!(target.compact(), CompactBits(0x1d00_ffff));
    assert_eq!(target.expected_hashes().floor(), 4_295_032_833_u64.into());
    assert_eq!(target.difficulty(), Exact::whole(1_u8));
    assert_eq!(Target::of_difficulty(&exact("1")).unwrap(), target);
}

#[test]
fn a_difficulty_without_a_target_is_an_error() {
    let of = |text| Target::of_difficulty(&exact(text));
    assert_eq!(of("0"), Err(MiningError::NoDifficulty));
    assert_eq!(of("0.000"), Err(MiningError::NoDifficulty));
    assert!(matches!(of("1e68"), Err(MiningError::TooDifficult(_))));
    assert!(matches!(of("2e-10"), Err(MiningError::TooEasy(_))));
    // The hardest and the easiest that there are.
    assert_eq!(of("2.69e67").unwrap().to_string(), format!("{:0>64}", 1));
    assert!(of("2.4e-10").is_ok());
}

#[test]
fn numbers_are_read_as_they_are_written_and_nothing_else_is() {
    for (text, all) in [
        ("1", "1e0"),
        ("0", "0"),
        ("0.10", "1e-1"),
        ("8.3e13", "8.3e13"),
        ("83947913181361.55", "8.394791318136155e13"),
        ("1_000_000", "1e6"),
        ("12,345", "1.2345e4"),
        (".5", "5e-1"),
        ("999999999999999999999999999999", "9.99999999999999999999999999999e29"),
    ] {
        assert_eq!(exact(text).scientific(), all, "{text}");
    }
    let long = "1".repeat(900);
    for text in [
        "",
        ".",
        "-1",
        "+1",
        "NaN",
        "inf",
        "1e",
        "1e401",
        "1e-401",
        "1e99999999999",
        "0x10",
        "1,2",
        "1,,000",
        "1.000,5",
        "1 000",
        "1e1.5",
        &long,
    ] {
        assert!(text.parse::<Exact>().is_err(), "{text}");
    }
}

#[test]
fn what_does_not_end_has_21_digits() {
    let third = Exact::whole(1_u8) / Exact::whole(3_u8);
    assert_eq!(third.scientific(), "3.33333333333333333333e-1");
    assert_eq!((third.clone() + third).scientific(), "6.66666666666666666667e-1");
    let nearly = exact("1") / exact("1.0000000000000000000000000000001");
    assert_eq!(nearly.decimal(3), "1.000");
}

#[test]
fn the_rule_of_the_target_gives_the_blocks_that_there_are() {
    // Times of first and last blocks, from the chain, with the bits that followed: src/test/
    // pow_tests.cpp of Bitcoin Core (whose third first time is made up, to reach the upper bound).
    for (bits, first, last, next) in [
        // Blocks 30240 and 32255.
        (0x1d00_ffff, 1_261_130_161, 1_262_152_739, 0x1d00_d86a),
        // Blocks 0 and 2015: no easier than the easiest.
        (0x1d00_ffff, 1_231_006_505, 1_233_061_996, 0x1d00_ffff),
        // Blocks 66528 and 68543: no more than four times as hard.
        (0x1c05_a3f4, 1_279_008_237, 1_279_297_671, 0x1c01_68fd),
        // To block 46367: no more than four times as easy.
        (0x1c38_7f6f, 1_263_163_443, 1_269_211_443, 0x1d00_e1fd),
    ] {
        let found = bitcoin().next(CompactBits(bits), first, last).unwrap();
        assert_eq!(found, CompactBits(next), "{bits:08x}");
    }
    // With all 2016 intervals timed (block 32256 came on 2009-12-30T06:11:04Z) it would have been
    // another target: the chain has the off-by-one.
    let next = bitcoin().next(CompactBits(0x1d00_ffff), 1_261_130_161, 1_262_153_464).unwrap();
    assert_ne!(next, CompactBits(0x1d00_d86a));
    assert_eq!(bitcoin().settles_at().decimal(3), "600.298", "1209600 / 2015");
}

#[test]
fn times_that_run_backwards_count_as_the_least_time() {
    let back = bitcoin().next(CompactBits(0x1c05_a3f4), 100, -100).unwrap();
    assert_eq!(back, CompactBits(0x1c01_68fd));
    let far = bitcoin().next(CompactBits(0x1c38_7f6f), i64::MIN, i64::MAX).unwrap();
    assert_eq!(far, CompactBits(0x1d00_e1fd));
}

#[test]
fn a_change_tells_the_time_that_its_epoch_took() {
    let of = |old, new| bitcoin().implied_span(CompactBits(old), CompactBits(new)).unwrap();
    // From block 30240 to 32255: 1,022,578 s.
    let ImpliedSpan::Between(least, most) = of(0x1d00_ffff, 0x1d00_d86a) else { panic!() };
    assert!(least <= exact("1022578") && exact("1022578") < most, "{least} {most}");
    assert_eq!(of(0x1d00_ffff, 0x1d00_ffff), ImpliedSpan::Easiest(exact("1209600")));
    assert!(matches!(of(0x1c05_a3f4, 0x1c01_68fd), ImpliedSpan::AtMost(_)));
    assert!(matches!(of(0x1c38_7f6f, 0x1d00_e1fd), ImpliedSpan::AtLeast(_)));
}

#[test]
fn rewards_are_halved_and_end() {
    let rewards = Rewards {
        units_per_coin: 100_000_000,
        first: 5_000_000_000,
        halving_blocks: Some(210_000),
        least: 0,
        since_height: 0,
    };
    for (height, units) in [
        (0, 5_000_000_000),
        (209_999, 5_000_000_000),
        (210_000, 2_500_000_000),
        (420_000, 1_250_000_000),
        (840_000, 312_500_000),
        // The last satoshi, and after it nothing.
        (6_929_999, 1),
        (6_930_000, 0),
        (u64::MAX, 0),
    ] {
        assert_eq!(rewards.units_at(height), Some(units), "{height}");
    }
    // Known: 20,999,999.97690000 BTC.
    let epochs = (0..33).map(|epoch| rewards.units_at(epoch * 210_000).unwrap());
    assert_eq!(epochs.sum::<u64>() * 210_000, 2_099_999_997_690_000);
    let tail = Rewards { least: 60_000_000, ..rewards };
    assert_eq!(tail.units_at(10_000_000), Some(60_000_000));
    let same = Rewards { halving_blocks: None, since_height: 600_000, ..rewards };
    assert_eq!((same.at(600_000), same.at(u64::MAX)), (Some(50.0), Some(50.0)));
    assert_eq!(same.units_at(599_999), None, "other rules held");
}

fn close(ours: f64, theirs: f64) -> bool {
    (ours / theirs - 1.0).abs() < 1e-12
}

#[test]
fn a_device_pays_below_its_break_even_price_and_not_above() {
    // By hand, in round figures: a block of 3.6e15 hashes, 1e9 hashes/s at 100 W, so 1e7 hashes a
    // joule: 3.6e6 s and 3.6e8 J = 100 kWh a block; at 0.10 a kWh 10, for 20 coins 0.50 each.
    let device = Device { rate: HashRate::new(1e9).unwrap(), power: Watts(100.0) };
    let market = Market { per_kwh: 0.1, per_coin: Some(0.75), reward: Some(19.5), fees: 0.5 };
    let found = market.assess(3.6e15, &device).unwrap();
    assert!(close(found.seconds_per_block, 3.6e6) && close(found.joules_per_block, 3.6e8));
    assert!(close(found.cost_per_block, 10.0) && close(found.cost_per_coin.unwrap(), 0.5));
    // 20 coins at 0.75 are 15; a day is 0.024 blocks.
    assert!(close(found.income_per_day.unwrap(), 0.36) && close(found.cost_per_day, 0.24));
    assert!(close(found.profit_per_day.unwrap(), 0.12));
    assert_eq!(found.profitable, Some(true));
    let even = found.break_even_per_kwh.unwrap();
    assert!(close(even, 0.15));
    for (per_kwh, pays) in [(even * 0.999, true), (even * 1.001, false)] {
        let found = Market { per_kwh, ..market }.assess(3.6e15, &device).unwrap();
        assert_eq!(found.profitable, Some(pays));
    }
    let unknown = Market { per_coin: None, ..market }.assess(3.6e15, &device).unwrap();
    assert_eq!((unknown.profitable, unknown.break_even_per_kwh), (None, None));
}

#[test]
fn nonsense_is_refused() {
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(HashRate::new(value).is_err(), "{value}");
    }
    let device = Device { rate: HashRate::new(1.0).unwrap(), power: Watts(1.0) };
    let market = Market { per_kwh: 0.1, per_coin: None, reward: None, fees: 0.0 };
    let wrong = [
        Market { per_kwh: -0.1, ..market },
        Market { per_kwh: f64::NAN, ..market },
        Market { per_coin: Some(-1.0), ..market },
        Market { reward: Some(f64::INFINITY), ..market },
        Market { fees: -1.0, ..market },
    ];
    for market in wrong {
        assert!(market.assess(1.0, &device).is_err(), "{market:?}");
    }
    assert!(market.assess(0.0, &device).is_err());
    for power in [0.0, -1.0, f64::NAN] {
        let device = Device { power: Watts(power), ..device };
        assert!(market.assess(1.0, &device).is_err(), "{power}");
    }
    let zeros = Retarget { blocks: 0, ..bitcoin() };
    assert!(zeros.next(CompactBits(0x1d00_ffff), 0, 1).is_err());
}

#[test]
fn the_power_of_a_network_spans_what_its_devices_span() {
    // The published formula at the difficulty of O8 by hand: 166851513283 x 2^32 / 600 =
    // 1.19436965e18 hashes/s; at 2 Mhash/J 597.18 GW, at 2000 a thousandth of it.
    let network = Network::new(166_851_513_283.0 * 2_f64.powi(32), 600.0).unwrap();
    assert!((network.rate().get() / 1.194_369_654_730_99e18 - 1.0).abs() < 1e-12);
    let at = |mega: f64| network.power(HashesPerJoule::new(mega * 1e6).unwrap()).get() / 1e9;
    assert!((at(2.0) - 597.18).abs() < 0.01 && (at(2000.0) - 0.59718).abs() < 0.00001);
}

proptest! {
    #[test]
    fn the_nearest_double_is_the_one_that_reading_gives(
        whole in 0_u64.., behind in 0_u64.., exponent in -200_i32..200,
    ) {
        // Rust's own reader rounds correctly.
        let text = format!("{whole}.{behind}e{exponent}");
        prop_assert_eq!(exact(&text).to_f64().to_bits(), text.parse::<f64>().unwrap().to_bits());
    }

    #[test]
    fn no_text_is_more_than_a_number_can_bear(text in "[-+0-9.,_eE ]{0,40}|.{0,20}") {
        if let Ok(number) = text.parse::<Exact>() {
            let _ = (number.scientific(), number.to_f64(), number.decimal(30), number.to_string());
            let _ = Target::of_difficulty(&number);
        }
        let _ = text.parse::<CompactBits>();
    }

    #[test]
    fn all_digits_are_those_that_were_written(digits in "[1-9][0-9]{0,50}[1-9]", exponent in -300_i32..300) {
        let (first, behind) = digits.split_at(1);
        let text = format!("{first}.{behind}e{exponent}");
        prop_assert_eq!(exact(&text).scientific(), text);
    }

    #[test]
    fn compact_bits_that_are_a_target_come_back_once_normal(bits in any::<u32>()) {
        if let Ok(target) = CompactBits(bits).target() {
            let compact = target.compact();
            let again = compact.target().unwrap();
            prop_assert_eq!(&again, &target, "nothing is cut that compact bits said");
            prop_assert_eq!(again.compact(), compact);
            prop_assert!(target.next_compact() > target);
        }
    }

    #[test]
    fn a_target_is_cut_by_less_than_one_step(words in any::<[u32; 8]>()) {
        let target = Target::of(num_bigint::BigUint::new(words.to_vec()));
        if target.number() != &num_bigint::BigUint::ZERO {
            let compact = target.compact().target().unwrap();
            prop_assert!(compact <= target && target < compact.next_compact());
        }
    }

    #[test]
    fn the_time_that_a_change_tells_is_the_time_that_made_it(
        word in 0x8000_u32..0x7f_ffff, bytes in 0x10_u32..0x1c, span in 0_i64..10_000_000,
    ) {
        let bits = CompactBits(word | bytes << 24).target().unwrap().compact();
        let next = bitcoin().next(bits, 0, span).unwrap();
        let told = bitcoin().implied_span(bits, next).unwrap();
        let clamped = span.clamp(302_400, 4_838_400);
        let time = Exact::whole(u64::try_from(clamped).unwrap());
        let holds = match &told {
            ImpliedSpan::Between(least, most) => *least <= time && time < *most,
            ImpliedSpan::AtMost(most) => time < *most,
            ImpliedSpan::AtLeast(least) => *least <= time,
            ImpliedSpan::Easiest(_) => false,
        };
        prop_assert!(holds, "{span} {told:?}");
    }
}
