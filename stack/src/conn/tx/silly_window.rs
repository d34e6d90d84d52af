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
}

/// What decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Bytes that could leave now: min of what is queued and the usable window.
    pub(super) len: u64,
    /// All that is queued is in it.
    pub(super) drains: bool,
    /// Effective segment size.
    pub(super) mss: u64,
    /// The largest window the peer ever offered.
    pub(super) max_wnd: u64,
    /// Nothing is outstanding.
    pub(super) idle: bool,
    /// Nagle's algorithm is on.
    pub(super) nagle: bool,
    /// The user wants it held back ([`Hold::by_user`]).
    pub(super) held: bool,
    /// A FIN goes with it, or the data is urgent, or the user wants it to leave.
    pub(super) urgent: bool,
    /// The persist timer has overridden the rule.
    pub(super) overridden: bool,
}

/// The four cases of RFC 9293 section 3.8.6.2.1.
pub(super) fn may_leave(f: Facts) -> bool {
    f.len >= f.mss
        || (f.drains && (f.urgent || (!f.held && (f.idle || !f.nagle))))
        || ((f.idle || !f.nagle) && f.max_wnd > 0 && f.len >= f.max_wnd / 2)
        || f.overridden
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Facts = Facts {
        len: 100,
        drains: true,
        mss: 1_000,
        max_wnd: 10_000,
        idle: false,
        nagle: true,
        held: false,
        urgent: false,
        overridden: false,
    };

    #[test]
    fn rfc9293_3_7_4_nagle() {
        assert!(!may_leave(SMALL));
        assert!(may_leave(Facts {
            nagle: false,
            ..SMALL
        }));
        assert!(may_leave(Facts {
            idle: true,
            ..SMALL
        }));
        assert!(may_leave(Facts {
            urgent: true,
            ..SMALL
        }));
        assert!(may_leave(Facts {
            len: 1_000,
            drains: false,
            ..SMALL
        }));
    }

    #[test]
    fn what_the_user_holds_waits_though_nagle_would_not() {
        let held = Facts {
            held: true,
            idle: true,
            nagle: false,
            ..SMALL
        };
        assert!(!may_leave(held));
        for leaves in [
            Facts {
                urgent: true,
                ..held
            },
            Facts {
                overridden: true,
                ..held
            },
            Facts { len: 1_000, ..held },
        ] {
            assert!(may_leave(leaves), "{leaves:?}");
        }
    }

    #[test]
    fn rfc9293_3_8_6_2_1_silly_window() {
        let windowed = Facts {
            drains: false,
            idle: true,
            nagle: false,
            ..SMALL
        };
        assert!(!may_leave(windowed), "part of the queue in a small window");
        assert!(
            may_leave(Facts {
                max_wnd: 200,
                ..windowed
            }),
            "half the largest window"
        );
        assert!(may_leave(Facts {
            overridden: true,
            ..windowed
        }));
    }
}
