//! When a connection that is passed through, whatever is spoken on it, keeps its server awake.
//!
//! The proxy doesn't know what its bytes mean, only whether any have moved: a connection through which
//! nothing came for a while is most likely a terminal that was left open, or a client that waits for news,
//! and no reason to keep a server awake.

use std::time::Duration;

use nightwatt_energy::time::Mono;

/// What of a connection keeps its server awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepAwake {
    /// That it is open.
    Connection,
    /// Bytes, either way: until none have moved for this long.
    Bytes {
        /// How long.
        quiet: Duration,
    },
}

/// What became due for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// From now on it does not keep its server awake.
    LetGo,
    /// Nothing moved for as long as it is kept: it is to be closed.
    Close,
}

/// One connection, as far as that is decided by what moves through it.
#[derive(Debug, Clone)]
pub struct Activity {
    keep_awake: KeepAwake,
    idle_timeout: Duration,
    moved: Mono,
    keeps: bool,
}

impl Activity {
    /// A connection that was put through just now; it keeps its server awake. It is closed when nothing
    /// moved for `idle_timeout`.
    pub const fn new(keep_awake: KeepAwake, idle_timeout: Duration, now: Mono) -> Self {
        Self { keep_awake, idle_timeout, moved: now, keeps: true }
    }

    /// Bytes moved, either way. True if it had let its server go, and wants it from now on.
    pub fn moved(&mut self, now: Mono) -> bool {
        self.moved = self.moved.max(now);
        !std::mem::replace(&mut self.keeps, true)
    }

    /// Its server was not to be had: it goes on without keeping it.
    pub const fn let_go(&mut self) {
        self.keeps = false;
    }

    /// Does it keep its server awake?
    pub const fn keeps(&self) -> bool {
        self.keeps
    }

    /// What is due by now.
    pub fn tick(&mut self, now: Mono) -> Option<Due> {
        if self.closes_at() <= now {
            return Some(Due::Close);
        }
        if self.lets_go_at() <= now {
            self.keeps = false;
            return Some(Due::LetGo);
        }
        None
    }

    /// When [`tick`](Self::tick) wants to be called next, unless bytes move.
    pub fn next_timer(&self) -> Mono {
        self.closes_at().min(self.lets_go_at())
    }

    fn closes_at(&self) -> Mono {
        self.moved + self.idle_timeout
    }

    fn lets_go_at(&self) -> Mono {
        match self.keep_awake {
            KeepAwake::Bytes { quiet } if self.keeps => self.moved + quiet,
            _ => Mono::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);
    const HOUR: Duration = Duration::from_hours(1);

    fn at(seconds: u64) -> Mono {
        Mono::from_secs(seconds)
    }

    #[test]
    fn a_silent_connection_lets_its_server_go_and_is_closed_much_later() {
        let mut line = Activity::new(KeepAwake::Bytes { quiet: MINUTE }, HOUR, at(10));
        assert_eq!((line.keeps(), line.next_timer()), (true, at(70)));
        assert_eq!(line.tick(at(69)), None);
        assert_eq!(line.tick(at(70)), Some(Due::LetGo));
        assert_eq!((line.keeps(), line.next_timer()), (false, at(3610)));
        assert_eq!(line.tick(at(3609)), None, "let go once");
        assert_eq!(line.tick(at(3610)), Some(Due::Close));
    }

    #[test]
    fn a_byte_keeps_the_server_awake_again_and_says_so_once() {
        let mut line = Activity::new(KeepAwake::Bytes { quiet: MINUTE }, HOUR, at(0));
        assert!(!line.moved(at(30)), "it kept it anyhow");
        assert_eq!(line.tick(at(60)), None, "the minute began anew");
        assert_eq!(line.tick(at(90)), Some(Due::LetGo));
        assert!(line.moved(at(100)));
        assert!(!line.moved(at(101)));
        assert_eq!(line.next_timer(), at(161));
    }

    #[test]
    fn an_open_connection_keeps_its_server_until_it_is_closed_if_so_configured() {
        let mut line = Activity::new(KeepAwake::Connection, HOUR, at(0));
        assert_eq!((line.tick(at(3599)), line.keeps()), (None, true));
        assert_eq!(line.tick(at(3600)), Some(Due::Close));
    }

    #[test]
    fn what_is_quiet_for_longer_than_it_is_kept_is_closed_at_once() {
        let mut line = Activity::new(KeepAwake::Bytes { quiet: HOUR }, MINUTE, at(0));
        assert_eq!(line.next_timer(), at(60));
        assert_eq!(line.tick(at(60)), Some(Due::Close));
    }

    #[test]
    fn a_server_that_was_not_to_be_had_is_not_kept_and_asked_for_with_the_next_byte() {
        let mut line = Activity::new(KeepAwake::Bytes { quiet: MINUTE }, HOUR, at(0));
        line.let_go();
        assert_eq!((line.keeps(), line.next_timer()), (false, at(3600)));
        assert!(line.moved(at(5)));
    }
}
