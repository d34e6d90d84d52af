//! What the user of an endpoint is to be told.

use super::EndpointEvent;
use std::collections::VecDeque;

/// Events, first in, first out. There is hardly ever more than one: that one is at hand, and others
/// are in a box.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// None if there are none.
    first: Option<EndpointEvent>,
    /// How many others there are: the box is elsewhere, and not looked into for nothing.
    waiting: u32,
    /// From the first time on that there were two.
    #[allow(clippy::box_collection)] // One word for what hardly any endpoint has, not four.
    others: Option<Box<VecDeque<EndpointEvent>>>,
}

impl Events {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(super) fn push(&mut self, event: EndpointEvent) {
        if self.first.is_none() {
            self.first = Some(event);
        } else {
            self.others.get_or_insert_default().push_back(event);
            self.waiting += 1;
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<EndpointEvent> {
        let event = self.first.take()?;
        if self.waiting > 0
            && let Some(others) = &mut self.others
        {
            self.first = others.pop_front();
            self.waiting -= 1;
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::Event;
    use crate::endpoint::ConnId;

    #[test]
    fn events_come_in_the_order_in_which_they_went() {
        let event = |slot| EndpointEvent::Conn {
            conn: ConnId {
                slot,
                generation: 0,
            },
            event: Event::Readable,
        };
        let (mut events, mut sent, mut received) = (Events::default(), 0, 0);
        for (push, pop) in [(1, 1), (1, 2), (3, 1), (2, 1), (0, 9), (1, 1), (2, 2)] {
            for _ in 0..push {
                events.push(event(sent));
                sent += 1;
            }
            for _ in 0..pop.min(sent - received) {
                assert_eq!(events.pop(), Some(event(received)));
                received += 1;
            }
            assert_eq!(events.first.is_none(), sent == received);
        }
        assert_eq!((events.pop(), sent), (None, received));
        assert!(size_of::<Events>() <= 32);
    }
}
