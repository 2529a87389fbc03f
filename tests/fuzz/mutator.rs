//! Small changes to an input, all derived from one seed.

/// Random numbers (SplitMix64): the same seed gives the same numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("it is below a size")
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// The longest mutation; otherwise inputs would only grow.
const LONGEST: usize = 64 << 10;

/// Text with a meaning in JSON, YAML, shells, terminals, Markdown or UTF-8.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b" ",
    b"\0",
    b"\"",
    b"'",
    b"`",
    b"\\",
    b"\\n",
    b"\\u0000",
    b"\\ud83d",
    b"\\\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"{}",
    b"[]",
    b":",
    b": ",
    b",",
    b"- ",
    b"#",
    b"# ",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!binary ",
    b"|\n",
    b">-\n",
    b"---\n",
    b"...\n",
    b"%YAML 1.2\n",
    b"null",
    b"true",
    b"false",
    b"~",
    b"```",
    b"```\n",
    b"````\n",
    b"~~~\n",
    b"> ",
    b"<promise>COMPLETE</promise>",
    b"<promise>BLOCKED</promise>",
    b"<verdict>approve</verdict>",
    b"<verdict>block</verdict>",
    b"{\"verdict\":\"approve\"}",
    b"{{error}}",
    b"{{ session }}",
    b"{{",
    b"}}",
    b"$(",
    b")",
    b"${",
    b"}",
    b"$((",
    b"<<E\n",
    b"\nE\n",
    b"\\\n",
    b"$",
    b"*",
    b"?",
    b"\x1b[31m",
    b"\x1b]0;",
    b"\x07",
    b"\x1b\\",
    b"\x1b[2J",
    b"\x08",
    b"\x7f",
    b"\x9b",
    b"\xc2\x9b",
    b"\xff",
    b"\xf0\x9f",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\xe2\x80\xa8",
    b"\xc3\xa4",
    b"\xf0\x9f\x90\x9f",
    b"0",
    b"-1",
    b"1e999",
    b"1e308",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"4294967295",
    b"2147483648",
    b"0.1",
    b"1s",
    b"99999999999h",
    b"10 %",
    b"16 KiB",
    b"9999-12-31T23:59:59Z",
    b"-009999-01-01T00:00:00Z",
    b"session_started",
    b"1970-01-01T00:00:00Z",
];

/// Numbers at which sums and conversions fail.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e308",
    "-1e308",
    "0.5",
    "1e-320",
];

/// The input after a few changes.
pub fn mutate(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        change(random, &mut bytes, other);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len() + 1);
    match random.below(13) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).expect("it is a byte"),
        2 => drop(bytes.drain(at..(at + 1 + random.below(16)).min(bytes.len()).max(at))),
        3 => bytes.truncate(at),
        4 => {
            let piece = bytes[at..(at + random.below(64)).min(bytes.len())].to_vec();
            insert(bytes, at, &piece.repeat(1 + random.below(3)));
        }
        5 => lines(random, bytes),
        6 => {
            let from = random.below(other.len() + 1);
            let to = (from + random.below(200)).min(other.len());
            insert(bytes, at, &other[from..to]);
        }
        7 => {
            // The beginning of one input and the end of another.
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        8 | 9 => number(random, bytes, at),
        10 => replace(random, bytes, at),
        _ => insert(bytes, at, random.pick(PIECES)),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

/// Moves, repeats or removes a line.
fn lines(random: &mut Random, bytes: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    if lines.is_empty() {
        return;
    }
    let (one, two) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(4) {
        0 => lines.swap(one, two),
        1 => drop(lines.remove(one)),
        2 => lines.insert(two, lines[one].clone()),
        _ => lines.truncate(one.max(1)),
    }
    *bytes = lines.concat();
}

/// Replaces the next number.
fn number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..]
        .iter()
        .position(u8::is_ascii_digit)
        .map(|found| at + found)
    else {
        return;
    };
    let length = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    bytes.splice(start..start + length, random.pick(NUMBERS).bytes());
}

/// Replaces the next word or string.
fn replace(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let Some(start) = bytes[at..].iter().position(is_word).map(|found| at + found) else {
        return;
    };
    let length = bytes[start..]
        .iter()
        .take_while(|byte| is_word(byte))
        .count();
    bytes.splice(start..start + length, random.pick(PIECES).iter().copied());
}
