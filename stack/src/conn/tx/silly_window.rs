//! Whether a segment shorter than full may leave: Nagle's algorithm and silly-window avoidance
//! at the sender (RFC 9293 sections 3.7.4 and 3.8.6.2.1).

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
    /// A FIN goes with it, or the data is urgent.
    pub(super) final_or_urgent: bool,
    /// The persist timer has overridden the rule.
    pub(super) overridden: bool,
}

/// The four cases of RFC 9293 section 3.8.6.2.1.
pub(super) fn may_leave(f: Facts) -> bool {
    f.len >= f.mss
        || (f.drains && (f.idle || !f.nagle || f.final_or_urgent))
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
        final_or_urgent: false,
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
            final_or_urgent: true,
            ..SMALL
        }));
        assert!(may_leave(Facts {
            len: 1_000,
            drains: false,
            ..SMALL
        }));
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
