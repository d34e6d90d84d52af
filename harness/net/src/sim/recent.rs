//! What was asked for last, not to ask for it again.

/// Numbers that are remembered.
const PLACES: usize = 4;

/// The last few numbers.
#[derive(Debug)]
pub(crate) struct Recent {
    last: [u32; PLACES],
    next: usize,
}

impl Recent {
    /// Nothing yet. There is no number `u32::MAX`.
    pub(crate) const fn new() -> Self {
        Self {
            last: [u32::MAX; PLACES],
            next: 0,
        }
    }

    /// Whether `number` is not among them; now it is.
    #[inline]
    pub(crate) fn is_news(&mut self, number: u32) -> bool {
        let news = self.last.iter().all(|&n| n != number);
        if news {
            self.last[self.next] = number;
        }
        // What is asked for again and again stays.
        if self.last[self.next] == number {
            self.next = (self.next + 1) % PLACES;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_news_until_others_push_it_out() {
        let mut recent = Recent::new();
        for n in [7, 0, 1, 2] {
            assert!(recent.is_news(n));
        }
        assert!([1, 2, 0].into_iter().all(|n| !recent.is_news(n)));
        assert!(recent.is_news(3));
        assert!(recent.is_news(7) && !recent.is_news(3));
    }

    #[test]
    fn what_is_asked_for_again_stays() {
        let mut recent = Recent::new();
        assert!(recent.is_news(7));
        for n in 10..100 {
            assert!(recent.is_news(n) && !recent.is_news(7), "{n}");
        }
    }
}
