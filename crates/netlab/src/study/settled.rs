//! Counters that have come to rest.

use std::time::Duration;

use nightwatt_clock::meter::monotonic;

use super::Error;
use super::lab::Lab;
use nightwatt_measure::counters::Network;

/// Between two looks; longer by as much as the link takes.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks, of which the last counts in any case. A full queue is empty by then, of all but very slow links.
const LOOKS: u32 = 20;

impl Lab<'_> {
    /// The networks of both ends once nothing is under way between them, as far as that comes.
    pub(super) fn settled(&self, delay: Duration) -> Result<[Network; 2], Error> {
        let is_shared = self.ends.are_apart();
        settled(
            || self.networks(),
            |now, before| is_same(now, before, is_shared),
            || self.wait(monotonic() + PAUSE + delay),
        )
    }
}

/// Asking other ends comes by their networks as well (`is_shared`): of those it is what their cards count.
fn is_same(now: &[Network; 2], before: &[Network; 2], is_shared: bool) -> bool {
    let cards = |of: &[Network; 2]| of.each_ref().map(Network::of_card);
    if is_shared { cards(now) == cards(before) } else { now == before }
}

/// Looks until two looks in a row see the same, but not for ever; gives what the last one saw.
fn settled<T>(
    look: impl Fn() -> Result<T, Error>,
    is_same: impl Fn(&T, &T) -> bool,
    pause: impl Fn() -> Result<(), Error>,
) -> Result<T, Error> {
    let mut before = look()?;
    for _ in 1..LOOKS {
        pause()?;
        let now = look()?;
        if is_same(&now, &before) {
            return Ok(now);
        }
        before = now;
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Looks at a counter that keeps counting for this many looks.
    fn looked(goes_on: u32) -> (u32, u32) {
        let (looks, pauses) = (Cell::new(0), Cell::new(0));
        let count = |of: &Cell<u32>| of.replace(of.get() + 1);
        let seen = settled(
            || Ok(count(&looks).min(goes_on)),
            |now, before| now == before,
            || {
                count(&pauses);
                Ok(())
            },
        );
        assert_eq!(pauses.get() + 1, looks.get(), "one between each two");
        (seen.unwrap(), looks.get())
    }

    #[test]
    fn counters_that_go_on_are_read_until_they_rest_and_not_for_ever() {
        assert_eq!(looked(0), (0, 2), "at rest: seen twice");
        assert_eq!(looked(3), (3, 5));
        assert_eq!(looked(u32::MAX), (LOOKS - 1, LOOKS));
    }

    #[test]
    fn a_network_that_others_use_rests_when_its_card_does() {
        let network = |frames: u64, segments: u64| Network {
            received_frames: frames,
            protocols: [("Tcp.InSegs".to_owned(), segments)].into(),
            ..Network::default()
        };
        let before = [network(7, 7), network(5, 5)];
        let not_yet_taken = [network(7, 7), network(5, 6)];
        assert!(is_same(&before, &before, false));
        assert!(!is_same(&not_yet_taken, &before, false), "TCP has not taken all that came");
        assert!(is_same(&not_yet_taken, &before, true), "that was an answer to us");
        assert!(!is_same(&[network(7, 7), network(6, 6)], &before, true));
    }
}
