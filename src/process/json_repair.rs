//! Repairs JSON that other programs print.

/// Removes unpaired surrogates from a line. JavaScript programs count in UTF-16, and text that they
/// cut can end with half a pair, which other programs cannot parse.
pub fn mended(line: &str) -> String {
    const ESCAPE: usize = "\\u0000".len();
    let unit = |at: usize| match line.get(at..at + ESCAPE)?.strip_prefix("\\u") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => None,
    };
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    while let Some(found) = line[at..].find('\\').map(|i| at + i) {
        out.push_str(&line[at..found]);
        let taken = match (unit(found), unit(found + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                out.push(char::REPLACEMENT_CHARACTER);
                at = found + ESCAPE;
                continue;
            }
            // The backslash and the character after it.
            _ => 1 + line[found + 1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&line[found..found + taken]);
        at = found + taken;
    }
    out + &line[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_halves_are_replaced() {
        assert_eq!(mended(r#"{"a":"x\ud83d"}"#), "{\"a\":\"x\u{fffd}\"}");
        for whole in [r#""\ud83d\ude00 \\ud83d \u00e9""#, "€\\", "", "\\u12"] {
            assert_eq!(mended(whole), whole);
        }
    }
}
