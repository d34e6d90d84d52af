//! A switch: which port leads to which host.
//!
//! Models a store-and-forward switch with output queues and an ideal fabric: a packet is at its
//! output port the moment its last bit is in. Equal paths are chosen by the flow's hash. Leaves
//! out: the fabric, input queues, the tables' size, learning.

/// The ports that lead to one host: a port, or with [`MANY`] a place in `runs`. In one word, so
/// that the tables of many hosts stay in the cache.
type Route = u32;

/// No port leads there.
const NONE: Route = u32::MAX;
/// Set: several lead there.
const MANY: Route = 1 << 31;

/// Forwarding table of a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switch {
    routes: Vec<Route>,
    /// First and number of `choices`.
    runs: Vec<(u32, u32)>,
    choices: Vec<u32>,
}

impl Switch {
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            routes: vec![NONE; hosts],
            runs: Vec::new(),
            choices: Vec::new(),
        }
    }

    /// Packets for `host` leave by one of `ports`.
    pub(crate) fn set_route(&mut self, host: u32, ports: &[u32]) {
        let route = match *ports {
            [] => NONE,
            [port] => port,
            _ => {
                let run = (self.choices.len() as u32, ports.len() as u32);
                self.choices.extend_from_slice(ports);
                self.runs.push(run);
                MANY | (self.runs.len() - 1) as u32
            }
        };
        if let Some(slot) = self.routes.get_mut(host as usize) {
            *slot = route;
        }
    }

    /// The port for a packet to `host` of a flow with this hash.
    #[inline]
    pub(crate) fn route(&self, host: u32, flow: u32) -> Option<u32> {
        let route = *self.routes.get(host as usize)?;
        if route & MANY == 0 {
            return Some(route);
        }
        // Of `NONE` there is no run.
        let &(first, count) = self.runs.get((route & !MANY) as usize)?;
        // High bits of the product: unbiased enough, and no division.
        let nth = ((u64::from(flow) * u64::from(count)) >> 32) as u32;
        self.choices.get((first + nth) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_are_chosen_by_flow() {
        let mut s = Switch::new(3);
        s.set_route(0, &[7]);
        s.set_route(1, &[3, 4, 5]);
        assert_eq!(s.route(0, 99), Some(7));
        let third = u32::MAX / 3;
        assert_eq!(
            [0, third + 1, u32::MAX].map(|f| s.route(1, f)),
            [Some(3), Some(4), Some(5)]
        );
        assert_eq!((s.route(2, 0), s.route(9, 0)), (None, None));
    }
}
