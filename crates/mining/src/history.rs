//! What was: difficulties, prices and fees, by day or by height of the block.

mod point;

use std::path::{Path, PathBuf};

use crate::pure::{Coin, CompactBits, Exact, MiningError};
use serde::Serialize;

pub use self::point::Point;
use super::written::{self, Row, SECONDS_PER_DAY};
use super::{Error, written::date};

/// What is told of one day, or of the block with which an epoch begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moment {
    /// Seconds since 1970.
    pub(super) time: i64,
    /// Height of the block, in a history by height.
    pub(super) height: Option<u64>,
    pub(super) difficulty: Option<Exact>,
    /// As the file has it, digit by digit.
    pub(super) shown: Option<String>,
    pub(super) bits: Option<CompactBits>,
    /// Of a coin.
    pub(super) price: Option<f64>,
    /// Of a block, coins.
    pub(super) fees: Option<f64>,
    /// Of a block without fees, coins.
    pub(super) reward: Option<f64>,
    /// Something is missing between the moment before and this one: from this time on.
    pub(super) missing_since: Option<i64>,
    /// The file says of its time that it is not the block's own.
    pub(super) is_estimated: bool,
}

impl Moment {
    pub(super) const fn day(&self) -> i64 {
        self.time.div_euclid(SECONDS_PER_DAY)
    }
}

/// What a history lacks between its first value and its last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// What is missing: `all`, or a column.
    pub what: &'static str,
    /// First day that lacks it.
    pub from: String,
    /// Last day that lacks it.
    pub to: String,
    /// How many days these are.
    pub days: i64,
}

/// One file.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    name: String,
    by_height: bool,
    moments: Vec<Moment>,
    /// Names of columns that mean nothing here.
    unread: Vec<String>,
}

/// Columns of a file that were not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The file.
    pub file: String,
    /// Their names.
    pub columns: Vec<String>,
}

/// A history by day, one by height, both, or none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histories {
    by_day: Option<History>,
    by_height: Option<History>,
}

/// Where each column is. Besides our own names those of Coin Metrics, and of lists of checkpoints.
struct Columns {
    time: Option<usize>,
    height: Option<usize>,
    difficulty: Option<usize>,
    bits: Option<usize>,
    price: Option<usize>,
    fees: Option<usize>,
    fees_per_day: Option<usize>,
    reward: Option<usize>,
    reward_per_day: Option<usize>,
    blocks: Option<usize>,
    /// Whether times are those of blocks: `exact`, or anything else.
    time_is: Option<usize>,
}

impl Columns {
    /// With the names of columns that mean nothing; the name of one that is there twice is an error.
    fn of(heading: &[String]) -> Result<(Self, Vec<String>), String> {
        let (mut unread, mut twice) = (heading.to_vec(), None);
        let mut find = |names: &[&str]| {
            let mut places = (0..heading.len()).filter(|it| names.contains(&heading[*it].as_str()));
            let place = places.next();
            if let (Some(first), Some(second)) = (place, places.next()) {
                twice = Some(format!(
                    "its columns `{}` and `{}` say the same; rename one, or take it out",
                    heading[first], heading[second]
                ));
            }
            unread.retain(|it| !names.contains(&it.as_str()));
            place
        };
        let columns = Self {
            time: find(&["date", "time", "day", "time_utc"]),
            height: find(&["height", "epoch_first_height"]),
            difficulty: find(&["difficulty", "diffmean"]),
            bits: find(&["bits", "bits_hex"]),
            price: find(&["price", "priceusd"]),
            fees: find(&["fees", "fees_per_block"]),
            fees_per_day: find(&["fees_per_day", "feetotntv"]),
            reward: find(&["reward", "subsidy_btc"]),
            reward_per_day: find(&["reward_per_day", "isstotntv"]),
            blocks: find(&["blocks", "blkcnt"]),
            time_is: find(&["time_is"]),
        };
        twice.map_or(Ok((columns, unread)), Err)
    }
}

/// No hash has more than 256 bits: no difficulty of any coin is as high as this.
const NO_DIFFICULTY: f64 = 1.2e77;

/// A number that is not below 0, if there is any.
fn amount(row: &Row<'_>, column: Option<usize>, what: &str) -> Result<Option<f64>, String> {
    let Some(cell) = row.cell(column) else { return Ok(None) };
    let number = cell.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0);
    number.map(Some).ok_or_else(|| {
        format!("`{cell}` is no {what}; write a number that is not below 0, or nothing")
    })
}

fn moment(row: &Row<'_>, columns: &Columns) -> Result<Moment, String> {
    let time = row.cell(columns.time).unwrap_or_default();
    let time = written::second_of(time).ok_or_else(|| {
        format!("`{time}` is no date; write it as in 2016-04-01, from 1990 to 2200")
    })?;
    let shown = row.cell(columns.difficulty);
    let difficulty: Option<Exact> =
        shown.map(str::parse).transpose().map_err(|it: MiningError| it.to_string())?;
    if difficulty.as_ref().is_some_and(Exact::is_zero) {
        return Err(
            "difficulty 0 is no work at all; leave the cell empty where none is known".to_owned()
        );
    }
    if let Some(shown) =
        shown.filter(|_| difficulty.as_ref().is_some_and(|it| it.to_f64() >= NO_DIFFICULTY))
    {
        return Err(format!(
            "difficulty {shown} is beyond 256 bits; no hash is low enough, so look for a slip in it"
        ));
    }
    let bits = row.cell(columns.bits).map(|cell| {
        let bits: CompactBits = cell.parse()?;
        bits.target().map(|_| bits)
    });
    let bits = bits.transpose().map_err(|it: MiningError| it.to_string())?;
    let blocks = amount(row, columns.blocks, "number of blocks")?.filter(|blocks| *blocks > 0.0);
    let of_day = |total: Option<f64>| Some(total? / blocks?);
    let fees = amount(row, columns.fees, "sum of fees")?;
    let fees_per_day = amount(row, columns.fees_per_day, "sum of fees")?;
    let reward = amount(row, columns.reward, "reward")?;
    let reward_per_day = amount(row, columns.reward_per_day, "sum of rewards")?;
    let height = row.cell(columns.height).map(|cell| {
        cell.parse().map_err(|_| format!("`{cell}` is no height of a block; write a whole number"))
    });
    Ok(Moment {
        time,
        height: height.transpose()?,
        difficulty,
        shown: shown.map(str::to_owned),
        bits,
        price: amount(row, columns.price, "price")?,
        fees: fees.or(of_day(fees_per_day)),
        reward: reward.or(of_day(reward_per_day)),
        missing_since: None,
        is_estimated: row.cell(columns.time_is).is_some_and(|it| !it.eq_ignore_ascii_case("exact")),
    })
}

impl History {
    /// Reads one.
    ///
    /// # Errors
    /// A file that cannot be read or is no history, and values that cannot be.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&path.display().to_string(), &written::text_of(path)?)
    }

    /// Reads one from its text; `name` is for the messages.
    ///
    /// # Errors
    /// Text that is no history, and values that cannot be.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let (heading, rows) = written::table(name, text)?;
        let (columns, unread) =
            Columns::of(&heading).map_err(|why| Error::Text(format!("{name}: {why}")))?;
        let empty = |what, hint| Error::Empty { name: name.to_owned(), what, hint };
        if columns.time.is_none() {
            return Err(empty(
                "no dates",
                "its first line names its columns between commas, as in date,difficulty,price,fees",
            ));
        }
        let known =
            [columns.difficulty, columns.bits, columns.price, columns.fees, columns.fees_per_day];
        if known.iter().all(Option::is_none) {
            return Err(empty(
                "no difficulty, price or fees",
                "its first line names its columns between commas, as in date,difficulty,price,fees",
            ));
        }
        let by_height = columns.height.is_some();
        let mut moments: Vec<Moment> = Vec::with_capacity(rows.len());
        for row in rows {
            let bad = |why: String| Error::Line { name: name.to_owned(), line: row.line, why };
            let moment = moment(&row, &columns).map_err(bad)?;
            if by_height && moment.height.is_none() {
                return Err(bad(
                    "this row has no height; each row of a history by height has one".to_owned()
                ));
            }
            if let Some(last) = moments.last() {
                let rises =
                    if by_height { moment.height > last.height } else { moment.day() > last.day() };
                if !rises {
                    return Err(bad("this row is not later than the one before; sort the rows, one for each day or epoch".to_owned()));
                }
            }
            moments.push(moment);
        }
        if moments.is_empty() {
            return Err(empty("no rows", "each line after the first is a day"));
        }
        Ok(Self { name: name.to_owned(), by_height, moments, unread })
    }

    /// Where the file goes on after something is missing. By height every epoch is there or is missed.
    fn marked(&self, epoch: Option<u32>) -> Vec<Moment> {
        let mut moments = self.moments.clone();
        for index in 1..moments.len() {
            let (before, after) = (&moments[index - 1], &moments[index]);
            let missing = match (before.height, after.height, epoch) {
                (Some(before), Some(after), Some(epoch)) => after - before > u64::from(epoch),
                (Some(_), Some(_), None) => false,
                _ => after.day() - before.day() > 1,
            };
            // A day holds for a day; of an epoch only its beginning is known where the next is missing.
            let since = before.time + if self.by_height { 1 } else { SECONDS_PER_DAY };
            moments[index].missing_since = missing.then_some(since);
        }
        moments
    }
}

impl Histories {
    /// Reads files: at most one by day and one by height.
    ///
    /// # Errors
    /// As each of them, and two of the same kind.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut histories = Self::default();
        for path in paths {
            histories.add(History::read(path)?)?;
        }
        Ok(histories)
    }

    /// Adds a history.
    ///
    /// # Errors
    /// A history of the same kind is there already.
    pub fn add(&mut self, history: History) -> Result<(), Error> {
        let (place, kind) = if history.by_height {
            (&mut self.by_height, "by height")
        } else {
            (&mut self.by_day, "by day")
        };
        if let Some(first) = place {
            let (first, second) = (first.name.clone(), history.name);
            return Err(Error::TwoHistories { first, second, kind });
        }
        *place = Some(history);
        Ok(())
    }

    /// Whether there is no history.
    pub const fn is_empty(&self) -> bool {
        self.by_day.is_none() && self.by_height.is_none()
    }

    /// What their files have besides.
    pub(super) fn unread(&self) -> Vec<Unread> {
        let all = [&self.by_day, &self.by_height].into_iter().flatten();
        let with = all.filter(|history| !history.unread.is_empty());
        with.map(|it| Unread { file: it.name.clone(), columns: it.unread.clone() }).collect()
    }

    /// The epochs of a history by height.
    pub(super) fn epochs(&self) -> &[Moment] {
        self.by_height.as_ref().map_or(&[], |history| &history.moments)
    }

    /// All that is known as points, in the order of time.
    pub fn points(&self, coin: &Coin) -> Vec<Point> {
        self.timeline(coin).into_iter().map(Point::from).collect()
    }

    /// All that is known, in the order of time: days, and epochs where there are no days.
    pub(super) fn timeline(&self, coin: &Coin) -> Vec<Moment> {
        let epoch = coin.retarget.map(|retarget| retarget.blocks);
        let days = self.by_day.as_ref().map_or_else(Vec::new, |it| it.marked(epoch));
        let epochs = self.by_height.as_ref().map_or_else(Vec::new, |it| it.marked(epoch));
        let span = days.first().map(Moment::day).zip(days.last().map(Moment::day));
        let is_outside = |moment: &Moment| {
            span.is_none_or(|(first, last)| moment.day() < first || moment.day() > last)
        };
        let mut all: Vec<Moment> = epochs.iter().filter(|it| is_outside(it)).cloned().collect();
        all.extend(days.into_iter().map(|mut day| {
            if let Some(epoch) = in_force(&epochs, day.day()) {
                // The chain's own, where a history by day has means of a day.
                if epoch.difficulty.is_some() || epoch.bits.is_some() {
                    (day.difficulty, day.bits) = (epoch.difficulty.clone(), epoch.bits);
                }
                complete(&mut day, epoch);
            }
            day
        }));
        all.sort_by_key(|moment| moment.time);
        for moment in &mut all {
            if let (None, Some(height)) = (moment.reward, moment.height) {
                moment.reward = coin.rewards.at(height);
            }
        }
        all
    }

    /// The last moment with a difficulty.
    pub(super) fn last(&self, coin: &Coin) -> Result<Moment, Error> {
        let mut all = self.timeline(coin);
        let last = all.iter().rposition(|it| it.difficulty.is_some() || it.bits.is_some());
        let none = || Error::NoDifficulty { day: "any day".to_owned() };
        last.map(|index| all.swap_remove(index)).ok_or_else(none)
    }

    /// The difficulty, price and fees of a day: of its end, where they changed on it.
    pub(super) fn on(&self, day: i64, coin: &Coin) -> Result<Moment, Error> {
        let all = self.timeline(coin);
        let of_day = all.iter().rfind(|moment| moment.day() == day);
        let epochs = self
            .by_height
            .as_ref()
            .map_or_else(Vec::new, |it| it.marked(coin.retarget.map(|retarget| retarget.blocks)));
        let in_force = in_force(&epochs, day);
        let found = of_day.cloned().or_else(|| in_force.cloned()).map(|mut moment| {
            if let Some(epoch) = in_force {
                (moment.difficulty, moment.bits) = (epoch.difficulty.clone(), epoch.bits);
                complete(&mut moment, epoch);
                let reward = epoch.height.and_then(|height| coin.rewards.at(height));
                moment.reward = moment.reward.or(reward);
            }
            moment
        });
        found.ok_or_else(|| Error::NoDay { day: date(day), hint: span_of(&all) })
    }

    /// All that is missing.
    pub(super) fn gaps(&self, coin: &Coin) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let epoch = coin.retarget.map(|retarget| retarget.blocks);
        for history in [&self.by_day, &self.by_height].into_iter().flatten() {
            let moments = history.marked(epoch);
            for pair in moments.windows(2) {
                if let Some(since) = pair[1].missing_since {
                    let from = since.div_euclid(SECONDS_PER_DAY);
                    gaps.push(gap("all", from, pair[1].day() - 1));
                }
            }
            if !history.by_height {
                gaps.extend(holes("difficulty", &moments, |it| it.difficulty.is_some()));
                gaps.extend(holes("price", &moments, |it| it.price.is_some()));
                gaps.extend(holes("fees", &moments, |it| it.fees.is_some()));
            }
        }
        gaps
    }
}

/// The epoch in force at the end of a day: until the next begins, if that is known.
fn in_force(epochs: &[Moment], day: i64) -> Option<&Moment> {
    let end = (day + 1) * SECONDS_PER_DAY;
    let index = epochs.partition_point(|epoch| epoch.time < end).checked_sub(1)?;
    let epoch = &epochs[index];
    match epochs.get(index + 1) {
        Some(next) => next.missing_since.is_none().then_some(epoch),
        None => (epoch.day() == day).then_some(epoch),
    }
}

/// A day, with what its epoch tells besides.
fn complete(day: &mut Moment, epoch: &Moment) {
    if day.reward.is_none() {
        day.reward = epoch.reward;
        day.height = day.height.or(epoch.height);
    }
}

fn gap(what: &'static str, from: i64, to: i64) -> Gap {
    let to = to.max(from);
    Gap { what, from: date(from), to: date(to), days: to - from + 1 }
}

/// Rows without a value between the first and the last that have one.
fn holes(what: &'static str, moments: &[Moment], has: fn(&Moment) -> bool) -> Vec<Gap> {
    let mut holes = Vec::new();
    let mut open: Option<(i64, i64)> = None;
    let mut begun = false;
    for moment in moments {
        if has(moment) {
            holes.extend(open.take().map(|(from, to)| gap(what, from, to)));
            begun = true;
        } else if begun {
            open = Some((open.map_or(moment.day(), |(from, _)| from), moment.day()));
        }
    }
    holes
}

fn span_of(all: &[Moment]) -> String {
    match (all.first(), all.last()) {
        (Some(first), Some(last)) => {
            format!("they go from {} to {}", date(first.day()), date(last.day()))
        }
        _ => "give one with `--history FILE`".to_owned(),
    }
}
