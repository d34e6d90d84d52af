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

    /// Whether `len` bytes may leave, less than a full segment: cases 2 to 4 of RFC 9293 section
    /// 3.8.6.2.1. All that is queued is in it if it `drains`. It is `urgent` if a FIN goes with it, the
    /// data is, or the user wants it to leave; `idle`: nothing is outstanding; `max_wnd` is the largest
    /// window that the peer ever offered.
    pub(super) fn lets_leave(
        self,
        len: u64,
        drains: bool,
        urgent: bool,
        idle: bool,
        max_wnd: u64,
    ) -> bool {
        let prompt = idle || !self.nagle;
        (drains && (urgent || (prompt && !self.by_user())))
            || (prompt && max_wnd > 0 && len >= max_wnd / 2)
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
    const MAX_WND: u64 = 10_000;

    #[test]
    fn rfc9293_3_7_4_nagle() {
        let drains = |hold: Hold, urgent, idle| hold.lets_leave(100, true, urgent, idle, MAX_WND);
        assert!(!drains(NAGLE, false, false));
        assert!(drains(PROMPT, false, false));
        assert!(drains(NAGLE, false, true));
        assert!(drains(NAGLE, true, false));
    }

    #[test]
    fn what_the_user_holds_waits_though_nagle_would_not() {
        let corked = Hold {
            corked: true,
            ..PROMPT
        };
        assert!(!corked.lets_leave(100, true, false, true, MAX_WND));
        assert!(corked.lets_leave(100, true, true, true, MAX_WND));
    }

    #[test]
    fn rfc9293_3_8_6_2_1_silly_window() {
        let windowed = |max_wnd| PROMPT.lets_leave(100, false, false, true, max_wnd);
        assert!(!windowed(MAX_WND), "part of the queue in a small window");
        assert!(windowed(200), "half the largest window");
    }
}
