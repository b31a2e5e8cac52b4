//! `nightwatt mirror`: what the mirrors of a running gateway hold, and why not more.

use std::fmt::Write;
use std::time::Duration;

use nightwatt_gateway::control::Order;
use nightwatt_gateway::mirror::orders::{MirrorOrder, MirrorReply};
use nightwatt_gateway::mirror::status::{Explained, MirrorStatus};

use crate::ExitStatus;
use crate::args::{MirrorArgs, MirrorStep};
use crate::control;
use crate::errors::Failure;
use crate::figures::{bytes, count, counted, time};
use crate::output;

/// Asks a running gateway about its mirrors.
pub(crate) fn run(args: &MirrorArgs) -> Result<ExitStatus, Failure> {
    let (ask, whom) = match &args.step {
        MirrorStep::Status { whom } => (MirrorOrder::Status, whom),
        MirrorStep::Refresh { places, whom } => {
            (MirrorOrder::Refresh { places: places.clone() }, whom)
        }
        MirrorStep::Explain { address, whom } => {
            (MirrorOrder::Explain { address: address.clone() }, whom)
        }
    };
    let reply = control::mirror(&whom.gateway, &Order::Mirror { site: whom.site.clone(), ask })?;
    if whom.gateway.json {
        output::say_json(&reply)?;
    } else {
        output::say(text(&reply).trim_end())?;
    }
    Ok(ExitStatus::Success)
}

fn text(reply: &MirrorReply) -> String {
    match reply {
        MirrorReply::Status(all) => all.iter().map(status).collect(),
        MirrorReply::Done => {
            "these pages are confirmed before they are served again while the server sleeps"
                .to_owned()
        }
        MirrorReply::Explained(explained) => explain(explained),
    }
}

fn seconds(seconds: f64) -> String {
    time(Duration::try_from_secs_f64(seconds.round()).unwrap_or_default())
}

fn status(it: &MirrorStatus) -> String {
    let mut text = format!("{}\n", it.site);
    let mut row = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    let Some(url) = &it.url else {
        row(
            "mirror",
            "not open: no client has used the site yet, or another process has it".into(),
        );
        return text;
    };
    row("mirror", format!("{} of {url}", counted(it.pages as u64, "page")));
    row("on the disk", format!("{} of {}", bytes(it.bytes), bytes(it.max_bytes)));
    if let Some(oldest) = it.oldest_s {
        row("oldest", format!("confirmed {} ago", seconds(oldest)));
    }
    row(
        "last pass",
        match it.last_pass_s_ago {
            Some(ago) => format!("began {} ago", seconds(ago)),
            None if it.is_running => "the first one is under way".to_owned(),
            None => "none yet".to_owned(),
        },
    );
    if it.due > 0 {
        row("due", format!("{} before the server sleeps", counted(it.due as u64, "page")));
    }
    if it.is_complete_wanted {
        let words = it.not_complete.clone().unwrap_or_else(|| "yes".to_owned());
        row("complete", words);
    }
    for (reason, number) in &it.not_mirrored {
        row("not mirrored", format!("{} ({reason})", count(*number as u64)));
    }
    text
}

fn explain(it: &Explained) -> String {
    let mut text = format!("{}: {}", it.address, it.why);
    if let Some(reason) = &it.reason {
        let _ = write!(text, " ({reason})");
    }
    if let (Some(status), Some(length), Some(ago)) = (it.status, it.bytes, it.confirmed_s_ago) {
        let _ =
            write!(text, "\nstatus {status}, {}, confirmed {} ago", bytes(length), seconds(ago));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_explained_in_words() {
        let explained = Explained {
            address: "/cart".to_owned(),
            is_mirrored: false,
            why: "the address looks like it changes something".to_owned(),
            reason: Some("action".to_owned()),
            status: None,
            bytes: None,
            confirmed_s_ago: None,
            requests: 0.0,
        };
        assert_eq!(
            explain(&explained),
            "/cart: the address looks like it changes something (action)"
        );
        let kept = Explained {
            status: Some(200),
            bytes: Some(1000),
            confirmed_s_ago: Some(60.0),
            ..explained
        };
        assert!(
            explain(&kept).contains("status 200, 1.0 kB, confirmed 1m ago"),
            "{}",
            explain(&kept)
        );
    }
}
