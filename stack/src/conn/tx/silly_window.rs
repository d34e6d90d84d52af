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

/// A segment of new data that might leave next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) len: u64,
    /// What it has if it is full.
    pub(super) mss: u64,
    /// All that is queued is in it.
    pub(super) drains: bool,
    /// A FIN goes with it, it is of urgent data, or the user wants it to leave.
    pub(super) urgent: bool,
    /// Nothing is outstanding.
    pub(super) idle: bool,
    /// The largest window that the peer ever offered.
    pub(super) max_wnd: u64,
    /// The persist timer has fired.
    pub(super) overdue: bool,
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

    /// Whether it may leave: the cases of RFC 9293 section 3.8.6.2.1.
    pub(super) fn lets_leave(self, next: Next) -> bool {
        let prompt = next.idle || !self.nagle;
        next.len >= next.mss
            || next.overdue
            || (next.drains && (next.urgent || (prompt && !self.by_user())))
            || (prompt && next.max_wnd > 0 && next.len >= next.max_wnd / 2)
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
    /// Part of the queue, little for the window, while something is outstanding.
    const PART: Next = Next {
        len: 100,
        mss: 1_000,
        drains: false,
        urgent: false,
        idle: false,
        max_wnd: 10_000,
        overdue: false,
    };
    /// All of the queue.
    const LAST: Next = Next {
        drains: true,
        ..PART
    };
    const IDLE: Next = Next { idle: true, ..LAST };
    const URGENT: Next = Next {
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
        let nagle = |next| NAGLE.lets_leave(next);
        let prompt = |next| PROMPT.lets_leave(next);
        assert!(!prompt(PART), "part of the queue in a small window");
        let half = Next {
            max_wnd: 200,
            ..PART
        };
        assert!(prompt(half), "half the largest window");
        assert!(!nagle(half), "... while something is outstanding");
        let full = Next { mss: 100, ..PART };
        assert!(nagle(full), "a full segment");
        let overdue = Next {
            overdue: true,
            ..PART
        };
        assert!(nagle(overdue), "the persist timer overrides the rest");
    }
}
