//! `nightwatt mining`: what proof-of-work mining takes and brings.

use std::fs;
use std::path::Path;

use nightwatt_clock::Clock;
use nightwatt_mining::{
    self as mining, At, Coins, Devices, Error, Histories, Mining, MiningOptions,
};

use crate::ExitStatus;
use crate::args::MiningArgs;
use crate::errors::Failure;
use crate::output;

/// Works it out and says it.
pub(crate) fn run(args: &MiningArgs) -> Result<ExitStatus, Failure> {
    // Whatever is wrong was given by the user.
    let mining = work(args).map_err(|error| Failure::usage(&error))?;
    // A report that cannot be written takes nothing away from the result.
    output::say_result(&mining, args.json, || mining.text(), &[])?;
    if let Some(path) = &args.report {
        write(path, &mining)?;
    }
    Ok(ExitStatus::Success)
}

fn work(args: &MiningArgs) -> Result<Mining, Error> {
    let at = match (&args.difficulty, args.bits, args.date) {
        (Some(difficulty), ..) => At::Difficulty(difficulty.clone()),
        (None, Some(bits), _) => At::Bits(bits),
        (None, None, Some(day)) => At::Day(day),
        (None, None, None) => At::Usual,
    };
    let devices = match &args.devices {
        Some(path) => Devices::read(path)?,
        None => Devices::ours()?,
    };
    mining::run(&MiningOptions {
        coin: Coins::with(args.coins.as_deref())?.get(&args.coin)?.clone(),
        at,
        hash_rate: args.hash_rate.clone(),
        devices: devices.only(&args.device)?,
        histories: Histories::read(&args.history)?,
        per_kwh: args.price_kwh,
        per_coin: args.price,
        fees: args.fees,
        height: args.height,
        currency: args.currency.clone(),
    })
}

fn write(path: &Path, mining: &Mining) -> Result<(), Failure> {
    let when = nightwatt_model::civil::to_minute(Clock::real().now().wall.secs());
    let generated = format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"));
    fs::write(path, mining.document(generated).to_html()).map_err(|error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("name a file in a folder that exists and that you may write to")
    })
}
