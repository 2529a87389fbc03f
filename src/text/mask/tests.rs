//! What is masked, however a stream is cut.

use proptest::prelude::*;

use super::*;

/// Tokens of every well-known form. No real one.
const TOKENS: [&str; 11] = [
    "sk-proj-Ab3dEf6hIj9lMn0pQr",
    "sk-abcdefghijkl1234",
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github_pat_11ABCDEFG0_abcdefghijklmnop",
    "xoxb-123456789012-abcdefABCDEF",
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-abcdEFGH1234ijklMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
    "Bearer abcdef123456",
    "bearer AbCdEfGhIjKlMnOpQrStUvWx",
    KEY,
];
const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
    MIIEowIBAAKCAQEAy8Dbv8prpJ/0kKhlGeJYozo2t60EG8L0561g13R29LvMR5hy\n\
    vGZlGJpmn65+A4xHXInJYiPuKzrKUnApeLZ+vw1HocOAZtWK0z3r26uA8kQYOKX9\n\
    Qt/DbCdvsF9wF8gRK0ptx9M6R13NvBxvVQ==\n-----END RSA PRIVATE KEY-----";
const VALUE: &str = "correct horse \"battery\" staple";

fn mask(values: &[&str], patterns: &[&str]) -> Arc<SecretMask> {
    let owned = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    Arc::new(SecretMask::new(&owned(values), &owned(patterns)).expect("the patterns are valid"))
}

fn in_pieces(mask: &Arc<SecretMask>, pieces: &[&[u8]]) -> String {
    let mut stream = StreamMask::new(mask.clone());
    let mut seen: Vec<u8> = Vec::new();
    for piece in pieces {
        seen.extend_from_slice(&stream.push(piece));
        assert!(stream.held.len() <= HELD_MAX);
    }
    seen.extend(stream.finish());
    lossy(seen)
}

#[test]
fn well_known_tokens_are_masked_wherever_a_stream_is_cut() {
    let mask = mask(&[], &[]);
    for token in TOKENS {
        let text = format!("the token is {token}, or \"{token}\"\nand that is all");
        let expected = "the token is [masked], or \"[masked]\"\nand that is all";
        assert_eq!(mask.text(&text), expected);
        for cut in 0..text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(in_pieces(&mask, &[one, two]), expected, "{token} at {cut}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(in_pieces(&mask, &bytes), expected);
    }
}

#[test]
fn a_token_after_a_colour_code_is_masked_wherever_a_stream_is_cut() {
    let mask = mask(&[], &[]);
    for token in TOKENS {
        let text = format!("\u{1b}[1;31m{token}\u{1b}[0m and \u{1b}[32mgood\u{1b}[0m\n");
        let expected = mask.text(&text).into_owned();
        let end = "[masked]\u{1b}[0m and \u{1b}[32mgood\u{1b}[0m\n";
        assert!(expected.ends_with(end), "{expected}");
        for cut in 0..text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(in_pieces(&mask, &[one, two]), expected, "{token} at {cut}");
        }
    }
}

#[test]
fn a_secret_with_colours_in_it_is_masked_and_the_colours_are_gone() {
    let mask = mask(&["hunter2-superlong"], &[]);
    let marked = "token=\u{1b}[01;31m\u{1b}[Khunter\u{1b}[m\u{1b}[K2-superlong\n";
    assert_eq!(mask.text(marked), "token=[masked]\n");
    assert_eq!(in_pieces(&mask, &[marked.as_bytes()]), "token=[masked]\n");
    let other = "\u{1b}[31mred\u{1b}[0m\n";
    assert_eq!(mask.text(other), other);
}

#[test]
fn values_are_masked_as_they_are_and_inside_json() {
    let mask = mask(
        &[VALUE, "hunter2hunter2", "hunter2hunter2more", "short"],
        &[],
    );
    let json = serde_json::json!({ "password": VALUE }).to_string();
    let text = format!("{json} {VALUE} hunter2hunter2 hunter2hunter2more short");
    let expected = r#"{"password":"[masked]"} [masked] [masked] [masked] short"#;
    assert_eq!(mask.text(&text), expected);
    for size in 1..text.len() {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(in_pieces(&mask, &pieces), expected, "{size}");
    }
}

#[test]
fn patterns_of_the_user_are_masked_too() {
    let mask = mask(&[], &["acme-[0-9]+", r"(?i)pin:\s*\d{4}"]);
    let text = "acme-12345 and PIN: \n 0000 and acme-x";
    let expected = "[masked] and [masked] and acme-x";
    assert_eq!(mask.text(text), expected);
    for size in 1..text.len() {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(in_pieces(&mask, &pieces), expected, "{size}");
    }
}

#[test]
fn ordinary_text_is_passed_on_at_once() {
    let mask = mask(&["hunter2hunter2"], &[]);
    for text in [
        "task-list-of-the-whole-project: 12 tests\n",
        "a bearer of bad news, Bearer authentication\n",
        "- one\n- two\nsk-learn\n.sk-fading-circle .sk-circle12:before\n",
        "# Heading\n\n-----\n",
        "gho_something_long_here ghs_total_number_of_items ASIAPACIFICREGION xoxb-hugsandkisses\n",
    ] {
        let mut stream = StreamMask::new(mask.clone());
        let passed = stream.push(text.as_bytes());
        assert!(
            matches!(passed, Cow::Borrowed(all) if all == text.as_bytes()),
            "{text}"
        );
    }
}

#[test]
fn a_key_without_its_end_is_masked_as_far_as_it_goes() {
    let mask = mask(&[], &[]);
    let (cut, _) = KEY.split_at(KEY.len() - 60);
    let cut = cut.replace("Proc-Type: 4,ENCRYPTED\n", "");
    let masked = mask.text(&cut).into_owned();
    assert!(masked.starts_with(MASKED) && masked.len() < 40, "{masked}");
    let source = "const BEGIN: &str = \"-----BEGIN PRIVATE KEY-----\";\nfn main() {}\n".repeat(3);
    assert_eq!(mask.text(&source).matches("fn main() {}").count(), 3);
}

#[test]
fn a_secret_that_is_longer_than_what_is_kept_back_is_masked_whole() {
    let mask = mask(&[], &[]);
    let long = format!("sk-{}", "a1B2".repeat(HELD_MAX));
    let text = format!("before {long} after");
    for size in [1000, 8 * 1024, 64 * 1024, text.len()] {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(in_pieces(&mask, &pieces), "before [masked] after", "{size}");
    }
}

#[test]
fn what_only_might_become_a_secret_is_passed_on_when_it_is_too_long() {
    let mask = mask(&[], &["x[^y]*y"]);
    let text = "x".repeat(4 * HELD_MAX);
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(5000).collect();
    assert_eq!(in_pieces(&mask, &pieces), text);
}

#[test]
fn a_pattern_that_cannot_be_used_is_refused_without_quoting_it() {
    let why = |pattern: &str| check_pattern(pattern).expect_err("it is wrong").to_string();
    assert_eq!(
        why("hunter2("),
        "it is not a regular expression: unclosed group"
    );
    assert_eq!(
        why("x*"),
        "it matches an empty text, so it would mask everything"
    );
    assert!(check_pattern("acme-[0-9]+").is_ok());
}

proptest! {
    #[test]
    fn no_token_is_seen_however_a_stream_is_cut(
        parts in prop::collection::vec((0..TOKENS.len(), "[ a-z\n-]{0,20}"), 1..4),
        sizes in prop::collection::vec(1usize..40, 1..60),
    ) {
        let mask = mask(&[], &[]);
        let text: String = parts.iter().map(|(token, between)| format!("{between} {}\n", TOKENS[*token])).collect();
        let mut rest = text.as_bytes();
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break }
            let (piece, more) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        let seen = in_pieces(&mask, &pieces);
        for token in TOKENS {
            prop_assert!(!seen.contains(token), "{}", seen);
        }
        prop_assert_eq!(seen.matches(MASKED).count(), parts.len());
        prop_assert_eq!(mask.text(&seen), seen.as_str());
    }
}
