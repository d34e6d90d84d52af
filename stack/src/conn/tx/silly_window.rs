//! Whether a segment shorter than full may leave: Nagle's algorithm and silly-window avoidance
//! at the sender (RFC 9293 sections 3.7.4 and 3.8.6.2.1), and what the user wants held back.

use narrows_congestion::Duration;

/// What the user holds back leaves after this, or an RTO if that is longer, with nothing in flight
/// (`TCP_CORK` in Linux's tcp(7)).
pub(super) const LONGEST_HOLD: Duration = Duration::from_millis(200);

/// What the last call that queued data said of more to come (`MSG_MORE` in Linux's send(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::conn) enum More {
    /// Nothing.
    No,
    /// More comes: a segment that is not full waits for it, until the next acknowledgement.
    Held,
    /// That has come.
    Released,
}

/// What holds back a segment that is not full, besides the peer's window.
#[derive(Clone, Copy, Debug)]
pub(in crate::conn) struct Hold {
    /// Nagle's algorithm is on.
    pub(in crate::conn) nagle: bool,
    /// The user has corked it (`TCP_CORK`).
    pub(in crate::conn) corked: bool,
    pub(in crate::conn) more: More,
}

/// A segment that would not be full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    pub(super) len: u64,
    /// All that is queued is in it.
    pub(super) drains: bool,
    /// A FIN goes with it, it is of urgent data, or the user wants it to leave.
    pub(super) urgent: bool,
    /// Nothing is outstanding.
    pub(super) idle: bool,
    /// The largest window that the peer ever offered.
    pub(super) max_wnd: u64,
}

impl Hold {
    /// The user wants it held, whatever Nagle's algorithm says.
    pub(super) fn by_user(self) -> bool {
        self.corked || self.more == More::Held
    }

    /// What is queued is all there is for now: its last segment says PSH (RFC 9293 MUST-61).
    pub(in crate::conn) fn pushes(self) -> bool {
        self.more == More::No
    }

    /// What is held because more comes waits no longer: an acknowledgement came, say.
    #[inline]
    pub(in crate::conn) fn release(&mut self) {
        if self.more == More::Held {
            self.more = More::Released;
        }
    }

    /// Whether it may leave: cases 2 to 4 of RFC 9293 section 3.8.6.2.1.
    pub(super) fn lets_leave(self, short: Short) -> bool {
        let prompt = short.idle || !self.nagle;
        (short.drains && (short.urgent || (prompt && !self.by_user())))
            || (prompt && short.max_wnd > 0 && short.len >= short.max_wnd / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAGLE: Hold = Hold {
        nagle: true,
        corked: false,
        more: More::No,
    };
    const PROMPT: Hold = Hold {
        nagle: false,
        ..NAGLE
    };
    /// Part of the queue, small in the window, while something is outstanding.
    const SHORT: Short = Short {
        len: 100,
        drains: false,
        urgent: false,
        idle: false,
        max_wnd: 10_000,
    };
    /// All of the queue.
    const LAST: Short = Short {
        drains: true,
        ..SHORT
    };
    const IDLE: Short = Short { idle: true, ..LAST };
    const URGENT: Short = Short {
        urgent: true,
        ..LAST
    };

    #[test]
    fn rfc9293_3_7_4_nagle() {
        assert!(!NAGLE.lets_leave(LAST));
        assert!(PROMPT.lets_leave(LAST));
        assert!(NAGLE.lets_leave(IDLE));
        assert!(NAGLE.lets_leave(URGENT));
    }

    #[test]
    fn what_the_user_holds_waits_though_nagle_would_not() {
        let corked = Hold {
            corked: true,
            ..PROMPT
        };
        assert!(!corked.lets_leave(IDLE));
        assert!(corked.lets_leave(URGENT));
    }

    #[test]
    fn rfc9293_3_8_6_2_1_silly_window() {
        assert!(
            !PROMPT.lets_leave(SHORT),
            "part of the queue in a small window"
        );
        let half = Short {
            max_wnd: 200,
            ..SHORT
        };
        assert!(PROMPT.lets_leave(half), "half the largest window");
        assert!(!NAGLE.lets_leave(half), "but something is outstanding");
    }
}
