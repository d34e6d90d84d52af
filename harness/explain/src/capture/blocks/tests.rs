use super::*;

/// Gives a byte at a time, and then what it ends with.
struct Slow<'a>(&'a [u8], Option<io::ErrorKind>);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match (self.0.split_first(), self.1) {
            (Some((first, rest)), _) => {
                (out[0], self.0) = (*first, rest);
                Ok(1)
            }
            (None, Some(kind)) => Err(kind.into()),
            (None, None) => Ok(0),
        }
    }
}

/// What the blocks of `file` say, and how it ends.
fn all(file: &[u8]) -> (Vec<String>, End) {
    let (quick, slow) = (listed(file), listed(Slow(file, None)));
    assert_eq!(quick, slow, "it is not the same a byte at a time");
    quick
}

fn listed(source: impl Read) -> (Vec<String>, End) {
    let mut blocks = Blocks::new(source).unwrap();
    let mut said = Vec::new();
    loop {
        match blocks.next() {
            Ok((length, block)) => said.push(format!("{length} {block:?}")),
            Err(end) => return (said, end),
        }
    }
}

/// Writes words in an order of bytes.
#[derive(Clone, Copy)]
struct Words(Order);

impl Words {
    fn half(self, n: u16) -> [u8; 2] {
        match self.0 {
            Order::Little => n.to_le_bytes(),
            Order::Big => n.to_be_bytes(),
        }
    }

    fn word(self, n: u32) -> [u8; 4] {
        match self.0 {
            Order::Little => n.to_le_bytes(),
            Order::Big => n.to_be_bytes(),
        }
    }

    fn words<const N: usize>(self, all: [u32; N]) -> Vec<u8> {
        all.map(|n| self.word(n)).concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let length = self.word(12 + body.len() as u32);
        [&self.word(kind)[..], &length, body, &length].concat()
    }

    fn section(self) -> Vec<u8> {
        let body = self.words([BYTE_ORDER_MAGIC, 1, u32::MAX, u32::MAX]);
        self.block(SECTION_HEADER, &body)
    }

    fn interface(self, options: &[u8]) -> Vec<u8> {
        let link = [self.half(101), self.half(0)].concat();
        let body = [&link[..], &self.word(0), options].concat();
        self.block(INTERFACE_DESCRIPTION, &body)
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let length = self.half(value.len() as u16);
        let mut option = [&self.half(code)[..], &length, value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn packet(self, bytes: &[u8]) -> Vec<u8> {
        let kept = bytes.len() as u32;
        let mut body = self.words([0, 7, 9, kept, 1_500]);
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(ENHANCED_PACKET, &body)
    }
}

#[test]
fn sections_in_either_order_follow_each_other_and_other_blocks_are_passed_over() {
    let orders = [Order::Little, Order::Big, Order::Little].map(Words);
    let file = orders.map(|w| {
        let resolution = w.option(IF_TSRESOL, &[9]);
        let offset = match w.0 {
            Order::Little => (-5_i64).to_le_bytes(),
            Order::Big => (-5_i64).to_be_bytes(),
        };
        let options = [
            w.option(2, b"eth"),
            resolution,
            w.option(IF_TSOFFSET, &offset),
        ];
        [
            w.section(),
            w.interface(&options.concat()),
            w.block(5, &[0; 8]),
            w.packet(&[1, 2, 3]),
            w.block(SIMPLE_PACKET, &w.word(60)),
        ]
        .concat()
    });
    let (said, end) = all(&file.concat());
    let units = (7_u64 << 32) + 9;
    let section = [
        "28 Section".to_owned(),
        "48 Interface(Described { link: 101, resolution: 1000000000, offset: -5 })".to_owned(),
        "20 Other".to_owned(),
        format!("36 Packet {{ interface: 0, units: {units}, bytes: [1, 2, 3], original: 1500 }}"),
        "16 Untimed".to_owned(),
    ];
    assert_eq!(said, [&section[..], &section, &section].concat());
    assert_eq!(end, End::Complete);
}

#[test]
fn an_obsolete_packet_has_a_short_interface_and_a_count_of_drops() {
    for order in [Order::Little, Order::Big] {
        let w = Words(order);
        let numbers = [w.half(3), w.half(77)];
        let rest = w.words([7, 9, 3, 1_500]);
        let body = [&numbers.concat()[..], &rest, &[1, 2, 3, 0]].concat();
        let (said, end) = all(&[w.section(), w.block(PACKET, &body)].concat());
        let units = (7_u64 << 32) + 9;
        let packet = format!(
            "36 Packet {{ interface: 3, units: {units}, bytes: [1, 2, 3], original: 1500 }}"
        );
        assert_eq!(said, ["28 Section", &packet]);
        assert_eq!(end, End::Complete);
    }
}

#[test]
fn what_comes_behind_the_last_option_is_none() {
    let w = Words(Order::Little);
    let options = [w.option(0, &[]), w.option(IF_TSRESOL, &[9])].concat();
    let (said, _) = all(&[w.section(), w.interface(&options)].concat());
    assert!(said[1].contains("resolution: 1000000,"), "{}", said[1]);
}

#[test]
fn units_of_time_are_powers_of_ten_or_two() {
    let resolutions = [0, 3, 6, 19, 20, 0x80, 0x8a, 0xbf, 0xc0, 0xff];
    let units = [
        1,
        1_000,
        1_000_000,
        10_000_000_000_000_000_000,
        1_000_000,
        1,
        1_024,
        1 << 63,
        1_000_000,
        1_000_000,
    ];
    assert_eq!(resolutions.map(per_second), units);
}

#[test]
fn the_older_format_is_read_in_its_six_forms() {
    for (magic, order, resolution, head) in [
        (0xa1b2_c3d4, Order::Little, 1_000_000, 16),
        (0xa1b2_c3d4, Order::Big, 1_000_000, 16),
        (0xa1b2_3c4d, Order::Little, 1_000_000_000, 16),
        (0xa1b2_3c4d, Order::Big, 1_000_000_000, 16),
        (0xa1b2_cd34, Order::Little, 1_000_000, 24),
        (0xa1b2_cd34, Order::Big, 1_000_000, 24),
    ] {
        let w = Words(order);
        let mut file = w.words([magic, 0, 0, 0, 0, 0xf000_0001]);
        for kept in [3, 0] {
            let mut packet = w.words([2, 5, kept, 1_500, 0, 0]);
            packet.truncate(head);
            packet.resize(head + kept as usize, 8);
            file.extend(packet);
        }
        let (said, end) = all(&file);
        let units = 2 * resolution + 5;
        let packet = |length, bytes| {
            format!(
                "{length} Packet {{ interface: 0, units: {units}, bytes: {bytes}, original: 1500 }}"
            )
        };
        let link = format!("link: 1, resolution: {resolution}, offset: 0");
        let header = format!("24 Interface(Described {{ {link} }})");
        let packets = [packet(head + 3, "[8, 8, 8]"), packet(head, "[]")];
        assert_eq!(said, [&[header][..], &packets].concat());
        assert_eq!(end, End::Complete);
    }
}

#[test]
fn what_breaks_off_is_told_from_what_makes_no_sense() {
    let w = Words(Order::Little);
    let file = [w.section(), w.interface(&[]), w.packet(&[1; 9])].concat();
    let whole = [28, 48, 92].map(|at| at.min(file.len()));
    for cut in 4..file.len() {
        let (said, end) = all(&file[..cut]);
        assert_eq!(said.len(), whole.iter().filter(|at| **at <= cut).count());
        let complete = whole.contains(&cut);
        let expected = if complete {
            End::Complete
        } else {
            End::Truncated
        };
        assert_eq!(end, expected, "{cut}");
    }
    let broken = |at: usize, word: u32| {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        match all(&file) {
            (said, End::Garbled { why }) => (said.len(), why),
            other => panic!("{other:?}"),
        }
    };
    let packet = 48;
    for (at, word, blocks, says) in [
        (packet + 4, 4, 2, "shorter than its own head"),
        (packet + 4, 17 << 20, 2, "more than 16 MiB"),
        (packet + 20, 13, 2, "longer than its block"),
        (packet + 20, u32::MAX, 2, "longer than its block"),
        (file.len() - 4, 0, 2, "another length"),
        (packet, SECTION_HEADER, 2, "no order of bytes"),
        (28, SECTION_HEADER, 1, "no order of bytes"),
    ] {
        let (said, why) = broken(at, word);
        assert!(said == blocks && why.contains(says), "{at}: {said} {why}");
    }
    for kind in [
        SECTION_HEADER,
        INTERFACE_DESCRIPTION,
        PACKET,
        SIMPLE_PACKET,
        ENHANCED_PACKET,
    ] {
        let short = match kind {
            SECTION_HEADER => w.block(kind, &w.word(BYTE_ORDER_MAGIC)),
            _ => w.block(kind, &[]),
        };
        let (said, end) = all(&[w.section(), short].concat());
        assert_eq!(said.len(), 1, "{kind}");
        assert!(
            matches!(&end, End::Garbled { why } if why.contains("too short")),
            "{end:?}"
        );
    }
}

#[test]
fn an_error_of_the_source_ends_what_came_before_it() {
    let w = Words(Order::Big);
    let file = [w.section(), w.interface(&[])].concat();
    let (said, end) = listed(Slow(&file, Some(io::ErrorKind::ConnectionReset)));
    assert_eq!(said.len(), 2);
    let why = io::Error::from(io::ErrorKind::ConnectionReset).to_string();
    assert_eq!(end, End::Failed { why });
    let error = Blocks::new(Slow(&[], Some(io::ErrorKind::ConnectionReset))).err();
    assert!(matches!(error, Some(CaptureError::Io(_))), "{error:?}");
}

#[test]
fn a_block_longer_than_what_is_read_at_once_is_whole() {
    let w = Words(Order::Little);
    let long = vec![7; 3 * BUFFER + 1];
    let file = [w.section(), w.packet(&long), w.packet(&[1])].concat();
    let mut blocks = Blocks::new(&file[..]).unwrap();
    let lengths: Vec<usize> = std::iter::from_fn(|| {
        let (_, block) = blocks.next().ok()?;
        Some(match block {
            Block::Packet { bytes, .. } => bytes.len(),
            _ => 0,
        })
    })
    .collect();
    assert_eq!(lengths, [0, long.len(), 1]);
}
