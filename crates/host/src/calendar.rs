//! iCalendar files (RFC 5545): which events last at a moment, and which whole days they cover.
//!
//! Read are events with DTSTART and DTEND or DURATION; RRULE, RDATE and EXDATE by the crate `rrule`;
//! moved and cancelled instances (RECURRENCE-ID, STATUS:CANCELLED); whole days; time zones of the IANA
//! database by name, UTC, and local time. Not read: zones that only the file itself describes, and
//! anything but events. An event that cannot be understood is named with the reason.

mod days;

use std::fmt::Write;
use std::time::Duration;

use rrule::RRuleSet;

/// Larger than any real calendar.
pub const LONGEST_FILE: usize = 8 << 20;

/// A property: its parameters with the semicolon before, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Property {
    name: String,
    parameters: String,
    value: String,
}

/// The events of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calendar {
    events: Vec<Vec<Property>>,
}

fn get<'a>(event: &'a [Property], name: &str) -> Option<&'a Property> {
    event.iter().find(|property| property.name == name)
}

fn is_cancelled(event: &[Property]) -> bool {
    get(event, "STATUS").is_some_and(|it| it.value.trim().eq_ignore_ascii_case("CANCELLED"))
}

fn name_of(event: &[Property]) -> String {
    get(event, "SUMMARY").map_or("without a name", |it| it.value.trim()).to_owned()
}

impl Calendar {
    /// Any text is a calendar, perhaps without events.
    pub fn parse(text: &str) -> Self {
        let mut events = Vec::new();
        let mut event: Option<Vec<Property>> = None;
        // Alarms and the like within events have properties of the same names.
        let mut depth = 0_u32;
        for line in unfold(text) {
            let Some(property) = property(&line) else { continue };
            let inside = property.value.trim().to_ascii_uppercase();
            match (property.name.as_str(), &mut event) {
                ("BEGIN", None) if inside == "VEVENT" => event = Some(Vec::new()),
                ("BEGIN", Some(_)) => depth = depth.saturating_add(1),
                ("END", Some(_)) if depth > 0 => depth -= 1,
                ("END", Some(_)) => events.extend(event.take()),
                (_, Some(event)) if depth == 0 => event.push(property),
                _ => {}
            }
        }
        Self { events }
    }

    /// Names of the events that last at this moment (seconds since 1970), and of those that cannot be
    /// understood with the reason.
    pub fn at(&self, now_s: i64) -> (Vec<String>, Vec<(String, String)>) {
        let (mut running, mut broken) = (Vec::new(), Vec::new());
        for event in &self.events {
            if is_cancelled(event) {
                continue;
            }
            let name = name_of(event);
            match self.lasts(event, now_s) {
                Ok(true) => running.push(name),
                Ok(false) => {}
                Err(why) => broken.push((name, why)),
            }
        }
        (running, broken)
    }

    /// Instances of an event that other events stand in for.
    fn replaced<'a>(&'a self, event: &'a [Property]) -> impl Iterator<Item = &'a Property> {
        let uid = get(event, "UID").map(|it| &it.value);
        let is_master = get(event, "RECURRENCE-ID").is_none();
        let others = self.events.iter().filter(move |other| {
            is_master && uid.is_some() && get(other, "UID").map(|it| &it.value) == uid
        });
        others.filter_map(|other| get(other, "RECURRENCE-ID"))
    }

    fn lasts(&self, event: &[Property], now_s: i64) -> Result<bool, String> {
        let start = get(event, "DTSTART").ok_or("it has no DTSTART")?;
        let length = length(event, start)?;
        let start_s = moment(start)?;
        if now_s < start_s {
            return Ok(false);
        }
        let recurs = event.iter().any(|it| matches!(it.name.as_str(), "RRULE" | "RDATE"));
        if !recurs {
            return Ok(now_s - start_s < length);
        }
        let mut text = format!("DTSTART{}:{}", start.parameters, start.value);
        for property in event {
            if matches!(property.name.as_str(), "RRULE" | "RDATE" | "EXDATE") {
                let _ =
                    write!(text, "\n{}{}:{}", property.name, property.parameters, property.value);
            }
        }
        for property in self.replaced(event) {
            let _ = write!(text, "\nEXDATE{}:{}", property.parameters, property.value);
        }
        let set: RRuleSet = text.parse().map_err(|error: rrule::RRuleError| error.to_string())?;
        let begins = *set.get_dt_start();
        // Both are moments between the start and now: no overflow.
        let after = |seconds: i64| begins + Duration::from_secs(seconds.max(0).cast_unsigned());
        let (from, to) = (after(now_s - start_s - length.max(0)), after(now_s - start_s));
        let found = set.after(from).before(to).all(64);
        // The first second after its end is no part of it.
        let lasts =
            found.dates.iter().any(|date| (0..length).contains(&(now_s - date.timestamp())));
        if !lasts && found.limited && found.dates.is_empty() {
            return Err("it recurs too often to find out".to_owned());
        }
        Ok(lasts)
    }
}

/// Lines that begin with white space continue the one before.
fn unfold(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(more), Some(last)) => last.push_str(more),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

fn property(line: &str) -> Option<Property> {
    // A colon may stand within quotes in a parameter.
    let mut quoted = false;
    let colon = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == ':' && !quoted
    });
    let (head, value) = line.split_at(colon?.0);
    let (name, parameters) = head.split_at(head.find(';').unwrap_or(head.len()));
    let wanted = parameters.split(';').filter(|it| {
        let upper = it.to_ascii_uppercase();
        upper.starts_with("TZID=") || upper.starts_with("VALUE=")
    });
    let parameters: Vec<_> = wanted.map(|it| it.replace('"', "")).collect();
    let parameters =
        if parameters.is_empty() { String::new() } else { format!(";{}", parameters.join(";")) };
    Some(Property {
        name: name.to_ascii_uppercase(),
        parameters,
        value: value[1..].trim().to_owned(),
    })
}

/// The moment of a date or date-time, in seconds since 1970.
fn moment(property: &Property) -> Result<i64, String> {
    let text =
        format!("DTSTART{}:{}\nRRULE:FREQ=DAILY;COUNT=1", property.parameters, property.value);
    let set: RRuleSet = text.parse().map_err(|error: rrule::RRuleError| error.to_string())?;
    Ok(set.get_dt_start().timestamp())
}

/// How long an event lasts, in seconds.
fn length(event: &[Property], start: &Property) -> Result<i64, String> {
    if let Some(end) = get(event, "DTEND") {
        return Ok(moment(end)? - moment(start)?);
    }
    if let Some(length) = get(event, "DURATION") {
        let length =
            duration(&length.value).ok_or_else(|| format!("its DURATION is `{}`", length.value))?;
        return Ok(i64::try_from(length.as_secs()).unwrap_or(i64::MAX));
    }
    // RFC 5545, 3.6.1: a date lasts a day, a date-time no time at all.
    Ok(if start.value.contains('T') { 0 } else { 86_400 })
}

/// `P1DT2H30M`, `PT15M`, `P2W` (RFC 5545, 3.3.6).
fn duration(text: &str) -> Option<Duration> {
    let mut seconds = 0_u64;
    let mut number = String::new();
    for c in text.trim().trim_start_matches('+').strip_prefix('P')?.chars() {
        let unit = match c {
            '0'..='9' => {
                number.push(c);
                continue;
            }
            'T' => continue,
            'W' => 604_800,
            'D' => 86_400,
            'H' => 3600,
            'M' => 60,
            'S' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        number.clear();
    }
    number.is_empty().then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
