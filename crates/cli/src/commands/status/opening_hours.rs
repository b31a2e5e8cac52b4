//! Hours of `awake` in `nightwatt status`.

use nightwatt_gateway::status::OpeningHoursStatus;

use super::row;
use crate::figures::seconds;

/// A row about the hours in which it is awake, if it has such.
pub(super) fn rows(text: &mut String, it: &OpeningHoursStatus) {
    if let Some(words) = words(it) {
        row(text, "awake hours", &words);
    }
}

fn words(it: &OpeningHoursStatus) -> Option<String> {
    let wakes_in = it.awake_hours_in_s.map(seconds);
    if it.awake_hours_suspended {
        return Some(match wakes_in {
            Some(time) => format!("suspended by `nightwatt sleep`; they count again in {time}"),
            None => "suspended by `nightwatt sleep`, until something else wakes it".to_owned(),
        });
    }
    let end = it.awake_hours_end_in_s.map(|time| format!("they end in {}", seconds(time)));
    let end = end.or_else(|| it.awake_hours_endless.then(|| "always".to_owned()));
    match (end, wakes_in) {
        (Some(end), Some(time)) => Some(format!("{end}; it is woken again in {time}")),
        (None, Some(time)) => Some(format!("it is woken for the next ones in {time}")),
        (end, None) => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_has_the_next_hours_or_the_end_of_those_of_now() {
        let none = OpeningHoursStatus::default();
        assert_eq!(words(&none), None);
        let of = |it| {
            let mut text = String::new();
            rows(&mut text, &it);
            text
        };
        // 20 h less a minute.
        let closed = OpeningHoursStatus { awake_hours_in_s: Some(71_940.0), ..none };
        assert_eq!(of(closed), "  awake hours   it is woken for the next ones in 19h59m\n");
        let open = OpeningHoursStatus { awake_hours_end_in_s: Some(7200.0), ..none };
        assert_eq!(of(open), "  awake hours   they end in 2h\n");
        let gone = OpeningHoursStatus { awake_hours_in_s: Some(90.0), ..open };
        assert_eq!(of(gone), "  awake hours   they end in 2h; it is woken again in 1m30s\n");
        let always = OpeningHoursStatus { awake_hours_endless: true, ..none };
        assert_eq!(of(always), "  awake hours   always\n");
    }

    #[test]
    fn after_an_order_to_sleep_the_row_has_when_they_count_again() {
        let suspended = OpeningHoursStatus {
            awake_hours_suspended: true,
            awake_hours_endless: true,
            ..OpeningHoursStatus::default()
        };
        let until_midnight = OpeningHoursStatus { awake_hours_in_s: Some(36_000.0), ..suspended };
        assert_eq!(
            words(&until_midnight).as_deref(),
            Some("suspended by `nightwatt sleep`; they count again in 10h")
        );
        assert_eq!(
            words(&suspended).as_deref(),
            Some("suspended by `nightwatt sleep`, until something else wakes it")
        );
    }
}
