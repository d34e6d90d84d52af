//! `struct tcp_info` of Linux as bytes.

/// Name without `tcpi_`, offset, bytes. What this TCP does not know stays zero.
const FIELDS: &[(&str, usize, usize)] = &[
    ("state", 0, 1),
    ("ca_state", 1, 1),
    ("retransmits", 2, 1),
    ("backoff", 4, 1),
    ("options", 5, 1),
    ("rto", 8, 4),
    ("snd_mss", 16, 4),
    ("unacked", 24, 4),
    ("sacked", 28, 4),
    ("lost", 32, 4),
    ("retrans", 36, 4),
    ("last_data_sent", 44, 4),
    ("pmtu", 60, 4),
    ("rtt", 68, 4),
    ("rttvar", 72, 4),
    ("snd_ssthresh", 76, 4),
    ("snd_cwnd", 80, 4),
    ("advmss", 84, 4),
    ("total_retrans", 100, 4),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("segs_out", 136, 4),
    ("segs_in", 140, 4),
    ("notsent_bytes", 144, 4),
    ("min_rtt", 148, 4),
    ("data_segs_in", 152, 4),
    ("data_segs_out", 156, 4),
    ("delivered_ce", 196, 4),
    ("bytes_sent", 200, 8),
    ("bytes_retrans", 208, 8),
    ("rcv_ooopack", 224, 4),
    ("snd_wnd", 228, 4),
];

/// The byte of the two window scales: theirs in the low half, ours in the high one.
const SCALES: usize = 6;

/// Bytes of the structure that are filled in; what a newer one has beyond is zero.
pub const LEN: usize = 248;

/// The structure's bytes. `field` gives the values.
pub fn encode(field: impl Fn(&str) -> Option<i128>) -> [u8; LEN] {
    let mut out = [0; LEN];
    for (name, at, len) in FIELDS {
        let value = field(name).unwrap_or(0);
        let limit = (1i128 << (8 * len)) - 1;
        let bytes = value.clamp(0, limit).to_ne_bytes();
        // The low bytes, whichever end they are at.
        let low = match cfg!(target_endian = "little") {
            true => &bytes[..*len],
            false => &bytes[bytes.len() - len..],
        };
        out[*at..at + len].copy_from_slice(low);
    }
    let scale = |name| field(name).unwrap_or(0).clamp(0, 15) as u8;
    out[SCALES] = scale("snd_wscale") | scale("rcv_wscale") << 4;
    out
}

/// A field of the structure; none if the structure has no such field, or is not that long.
pub fn decode(bytes: &[u8], field: &str) -> Option<i128> {
    match field {
        "snd_wscale" => return bytes.get(SCALES).map(|b| i128::from(b & 0xf)),
        "rcv_wscale" => return bytes.get(SCALES).map(|b| i128::from(b >> 4)),
        _ => {}
    }
    let (_, at, len) = FIELDS.iter().find(|(name, _, _)| *name == field)?;
    Some(match bytes.get(*at..at + len)? {
        [a] => i128::from(*a),
        [a, b, c, d] => i128::from(u32::from_ne_bytes([*a, *b, *c, *d])),
        long => i128::from(u64::from_ne_bytes(long.try_into().ok()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let value = |name: &str| match name {
            "snd_wscale" => 7,
            "rcv_wscale" => 9,
            "state" => 300,
            "bytes_acked" => i128::from(u64::MAX) + 1,
            name => name.len() as i128,
        };
        let bytes = encode(|name| Some(value(name)));
        for (name, _, _) in FIELDS {
            let want = match *name {
                "state" => 255,
                "bytes_acked" => i128::from(u64::MAX),
                name => value(name),
            };
            assert_eq!(decode(&bytes, name), Some(want), "{name}");
        }
        assert_eq!(decode(&bytes, "snd_wscale"), Some(7));
        assert_eq!(decode(&bytes, "rcv_wscale"), Some(9));
        assert_eq!(decode(&bytes, "snd_nxt"), None);
        assert_eq!(decode(&bytes[..100], "snd_wnd"), None);
    }

    #[test]
    fn fields_do_not_overlap() {
        let mut taken = [false; LEN];
        taken[SCALES] = true;
        for (name, at, len) in FIELDS {
            for byte in &mut taken[*at..at + len] {
                assert!(!std::mem::replace(byte, true), "{name}");
            }
        }
    }
}
