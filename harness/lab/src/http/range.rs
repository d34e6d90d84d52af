//! What a Range header asks for (RFC 9110 section 14.1.2).

/// Of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything: several ranges, or none that we understand.
    Whole,
    /// From the first to the last, both included.
    Bytes(u64, u64),
    /// Nothing that is there.
    Outside,
}

pub(super) fn part(range: &str, len: u64) -> Part {
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let Some((first, last)) = range
        .split_once('=')
        .filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes"))
        .and_then(|(_, set)| set.trim().split_once('-'))
        .filter(|(first, last)| digits(first) && digits(last))
    else {
        return Part::Whole;
    };
    // A number too long for 64 bits is beyond every file.
    let number = |t: &str| t.parse().unwrap_or(u64::MAX);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => Part::Whole,
        (true, false) => match number(last).min(len) {
            0 => Part::Outside,
            n => Part::Bytes(len - n, len - 1),
        },
        (false, open) => {
            let first = number(first);
            let last = if open { u64::MAX } else { number(last) };
            if last < first {
                Part::Whole
            } else if first >= len {
                Part::Outside
            } else {
                Part::Bytes(first, last.min(len - 1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (range, expected) in [
            ("bytes=0-0", Part::Bytes(0, 0)),
            ("bytes=2-5", Part::Bytes(2, 5)),
            ("Bytes=2-5", Part::Bytes(2, 5)),
            ("bytes=5-", Part::Bytes(5, 9)),
            ("bytes=5-99", Part::Bytes(5, 9)),
            ("bytes=-3", Part::Bytes(7, 9)),
            ("bytes=-30", Part::Bytes(0, 9)),
            ("bytes=10-", Part::Outside),
            ("bytes=-0", Part::Outside),
            ("bytes=99999999999999999999-", Part::Outside),
            ("bytes=5-2", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes", Part::Whole),
            ("lines=0-1", Part::Whole),
        ] {
            assert_eq!(part(range, 10), expected, "{range}");
        }
        assert_eq!(part("bytes=0-", 0), Part::Outside);
        assert_eq!(part("bytes=-1", 0), Part::Outside);
    }
}
