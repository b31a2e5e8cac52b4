//! O8 to O10, and a date (X1).

use nightwatt_mining::pure::Exact;

use nightwatt_mining::{
    BAND_GW, Band, Coins, Devices, DifficultyChoice, Histories, History, MiningOptions,
    PUBLISHED_DIFFICULTY, Point, SECONDS_PER_DAY, band, day_of, hash_rate, spans,
};

use crate::{Answer, Context, Error, Figure, Printed};

const EPOCHS: &str = include_str!("../../data/bitcoin-epochs.csv");

const SECONDS_PER_YEAR: f64 = 365.0 * 86_400.0;

/// O8: the published example, digit by digit.
pub(crate) fn expected_time(_: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let options = MiningOptions {
        coin: Coins::with(None)?.get("bitcoin")?.clone(),
        at: DifficultyChoice::Difficulty(
            PUBLISHED_DIFFICULTY.parse().map_err(nightwatt_mining::Error::from)?,
        ),
        hash_rate: hash_rate("1 Mhash/s")?,
        devices: Devices::ours()?,
        histories: Histories::default(),
        per_kwh: 0.1,
        per_coin: None,
        fees: None,
        height: None,
        currency: "USD".to_owned(),
    };
    let mining = nightwatt_mining::run(&options)?;
    let seconds: f64 = mining.expected_s.parse().unwrap_or(f64::NAN);
    let exact: f64 =
        mining.exact_expected_s.as_deref().and_then(|it| it.parse().ok()).unwrap_or(f64::NAN);
    let figures = vec![
        printed.digits("time", mining.expected_s.clone())?,
        printed.figure("years", seconds / SECONDS_PER_YEAR / 1e6)?,
        Figure::alone("more by 2^256 / (target + 1)", 1e6 * (exact / seconds - 1.0), "millionths"),
    ];
    Ok(Answer::by(
        figures,
        "166851513283 x 2^32 / 10^6, in whole numbers. The difficulty itself is rounded to a whole number: \
         compact bits 180696f4 have 166851513282.777",
    ))
}

/// Our few epochs, in the order of time.
fn epochs() -> Result<Vec<Point>, Error> {
    let mut histories = Histories::default();
    histories.add(History::parse("bitcoin-epochs.csv", EPOCHS)?)?;
    let coin = Coins::with(None)?.get("bitcoin")?.clone();
    // Epochs between these are left out because nothing happens in them.
    let points = histories.points(&coin);
    Ok(points.into_iter().map(|point| Point { missing_since: None, ..point }).collect())
}

/// O9: the power of the network between the two published efficiencies, when it was written.
pub(crate) fn network_power(_: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let points = epochs()?;
    let per_difficulty = Exact::power_of_two(32).to_f64();
    let bands = band(&points, 600.0, per_difficulty)?;
    let mut figures = Vec::new();
    for (when, day) in [("January 2014", "2014-01-02"), ("April 2016", "2016-04-01")] {
        let day = day_of(day)?;
        let difficulty =
            points.iter().find(|point| point.day() == day).and_then(|it| it.difficulty);
        let difficulty = difficulty.ok_or_else(|| Error::Data(format!("no epoch of {when}")))?;
        for band in bands.iter().rev() {
            let gigawatts = BAND_GW.0 * difficulty / band.difficulties.0;
            let of = format!("{when}, {} Mhash/J", band.mhash_j);
            figures.push(printed.figure_of("power", &of, gigawatts)?);
        }
    }
    let [least, most] = &bands[..] else { return Err(Error::Data("two bounds".to_owned())) };
    figures.push(printed.figure("factor", most.mhash_j / least.mhash_j)?);
    let told = |band: &Band| format!("at {} Mhash/J from {}", band.mhash_j, spans(&band.spans));
    let why = format!(
        "the power is D x 2^32 / 600 s / efficiency, so that 2 and 2000 Mhash/J always span a factor of 1000, \
         and no date fits a band of 100. 0.1 to 10 GW holds {}, and {}: never for both",
        told(least),
        told(most)
    );
    Ok(Answer::by(figures, why))
}

/// O10: rate over power of each published device. What was printed may have been cut instead of rounded.
pub(crate) fn efficiencies(_: &mut Context<'_>, _: &Printed) -> Result<Answer, Error> {
    let (mut figures, mut wrong) = (Vec::new(), Vec::new());
    for device in Devices::ours()?.iter() {
        let (Some(theirs), Some(text)) = (device.printed_mhash_j, &device.printed) else {
            continue;
        };
        let places = text.split_once('.').map_or(0, |(_, behind)| behind.len());
        let digit = 10_f64.powi(-i32::try_from(places).unwrap_or(0));
        let what = format!("{}: {} / {}", device.name, device.mhash_s, device.watts);
        // Rounded, it may be off by half a unit in the last digit; cut, one unit above it.
        let accepted = theirs - digit / 2.0..=theirs + digit;
        let ours = device.mhash_j();
        let figure = Figure::accepting(what, ours, theirs..=theirs, accepted, "Mhash/J");
        if figure.agrees == Some(false) {
            wrong.push(format!(
                "{}, where {} Mhash/s / {} W = {ours:.3} and {text} is printed",
                device.name, device.mhash_s, device.watts
            ));
        }
        figures.push(figure);
    }
    Ok(Answer::by(
        figures,
        format!(
            "whether they were rounded or cut is not said: the Sapphire's 130.59 was cut to 130. All follow \
             but {}",
            wrong.join(", and ")
        ),
    ))
}

/// X1: when block 420,000 was found, ten minutes a block from the beginning of its epoch on.
pub(crate) fn halving(_: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    const HALVED: u64 = 420_000;
    let epoch = epochs()?.into_iter().rfind(|epoch| epoch.height.is_some_and(|it| it <= HALVED));
    let missing = || Error::Data("no epoch before the halving".to_owned());
    let (time, height) =
        epoch.and_then(|epoch| Some((epoch.time, epoch.height?))).ok_or_else(missing)?;
    let blocks = HALVED - height;
    let halved = time + 600 * i64::try_from(blocks).unwrap_or(0);
    let days = (halved - day_of("2016-06-09")? * SECONDS_PER_DAY) as f64 / SECONDS_PER_DAY as f64;
    let figures = vec![printed.figure("day", days)?];
    let why = format!(
        "the reward is halved every 210,000 blocks. Block {height} came on {}, and {blocks} blocks of ten \
         minutes later is {}: the month is July",
        nightwatt_energy::civil::to_minute(time),
        nightwatt_energy::civil::to_minute(halved)
    );
    Ok(Answer::by(figures, why))
}
