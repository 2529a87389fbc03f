//! Rust source as tokens, as far as the house rules need it: words, signs and brackets, without
//! comments, strings and unit tests. It is not a parser. It sees the same paths however they are
//! written.

use std::{collections::BTreeMap, ops::Range};

/// A word, a sign, or `"` for any string or character literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
    /// A literal as the source writes it, with its quotes.
    pub literal: Option<&'a str>,
}

/// The tokens of a file, without items that only tests use.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    without_tests(&all_tokens(source))
}

/// The texts of a file's string literals and their lines, without items that only tests use. Lines
/// that `\` continues are joined.
pub fn texts(source: &str) -> Vec<(usize, String)> {
    let literals = tokens(source)
        .into_iter()
        .filter_map(|token| Some((token.line, token.literal?)));
    literals
        .map(|(line, literal)| {
            let body = literal
                .trim_start_matches(['b', 'c', 'r', '#'])
                .trim_end_matches('#')
                .trim_matches('"');
            let mut lines = body.split("\\\n");
            let first = lines.next().unwrap_or_default().to_owned();
            (
                line,
                lines.fold(first, |text, next| text + next.trim_start()),
            )
        })
        .collect()
}

fn all_tokens(source: &str) -> Vec<Token<'_>> {
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < source.len() {
        let length = length_of_next(&source[at..]);
        let text = &source[at..at + length];
        if let Some(shown) = shown(text) {
            found.push(Token {
                text: shown,
                line,
                literal: (shown == "\"").then_some(text),
            });
        }
        line += text.matches('\n').count();
        at += length;
    }
    found
}

/// The token that a piece of source counts as. None for whitespace, comments and lifetimes.
fn shown(text: &str) -> Option<&str> {
    let first = text.chars().next()?;
    let is_comment = text.starts_with("//") || text.starts_with("/*");
    let is_lifetime = first == '\'' && (text.len() == 1 || !text.ends_with('\''));
    match first {
        _ if first.is_whitespace() || is_comment || is_lifetime => None,
        _ if text.len() > 1 && text.ends_with(['"', '\'']) => Some("\""),
        'r' | 'b' | 'c' if text.contains('"') => Some("\""),
        _ => Some(text.strip_prefix("r#").unwrap_or(text)),
    }
}

fn length_of_next(rest: &str) -> usize {
    let first = rest.chars().next().expect("there is more");
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return length_of_comment(rest);
    }
    let prefix = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    if prefix <= 2
        && rest[prefix..].starts_with(['"', '#'])
        && let Some(length) = length_of_text(rest, prefix)
    {
        return length;
    }
    match first {
        '\'' => length_of_character(rest),
        _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        _ => ["::", "=>", "->", "..="]
            .iter()
            .find(|sign| rest.starts_with(**sign))
            .map_or(first.len_utf8(), |s| s.len()),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn length_of_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of `"…"`, `r#"…"#` and the like, after `prefix` letters. None if it is something
/// else.
fn length_of_text(rest: &str, prefix: usize) -> Option<usize> {
    let fences = rest[prefix..].chars().take_while(|c| *c == '#').count();
    let body = rest[prefix + fences..].strip_prefix('"')?;
    let start = rest.len() - body.len();
    if rest[..prefix].contains('r') {
        let end = format!("\"{}", "#".repeat(fences));
        return Some(
            body.find(&end)
                .map_or(rest.len(), |at| start + at + end.len()),
        );
    }
    let mut escaped = false;
    let end = body.char_indices().find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    (fences == 0).then(|| end.map_or(rest.len(), |(at, _)| start + at + 1))
}

/// The length of a character literal, or of a lifetime, which begins the same way.
fn length_of_character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, _))) => rest[at + 1..]
            .find('\'')
            .map_or(rest.len(), |end| at + 1 + end + 1),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1),
    }
}

/// Where the bracket at `open` is closed.
pub fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len().saturating_sub(1)
}

/// Whether these tokens are at `at`.
pub fn stands(tokens: &[Token<'_>], at: usize, words: &[&str]) -> bool {
    words
        .iter()
        .enumerate()
        .all(|(n, word)| tokens.get(at + n).is_some_and(|token| token.text == *word))
}

/// The tokens of the item at `at`, with its attributes.
pub fn item(tokens: &[Token<'_>], at: usize) -> Range<usize> {
    let mut here = at;
    while stands(tokens, here, &["#", "["]) {
        here = closing(tokens, here + 1) + 1;
    }
    if stands(tokens, here, &["pub"]) {
        here += 1;
        if stands(tokens, here, &["("]) {
            here = closing(tokens, here) + 1;
        }
    }
    // These contain braces, and end with a semicolon.
    let is_flat = tokens
        .get(here)
        .is_some_and(|token| ["use", "static", "type", "extern"].contains(&token.text));
    while let Some(token) = tokens.get(here) {
        match token.text {
            ";" => return at..here + 1,
            "{" if !is_flat => return at..closing(tokens, here) + 1,
            "(" | "[" | "{" => here = closing(tokens, here),
            _ => {}
        }
        here += 1;
    }
    at..tokens.len()
}

fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if stands(tokens, at, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            at = item(tokens, at).end;
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// A path in a file, written in full: renamed imports have their original names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath<'a> {
    pub words: Vec<&'a str>,
    pub line: usize,
}

/// All paths of at least two words in a file, and all imports.
pub fn paths<'a>(tokens: &[Token<'a>]) -> Vec<NamedPath<'a>> {
    let (mut found, mut names, mut plain) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].text == "use" {
            // `use<…>` in a type is about lifetimes.
            let end = at
                + tokens[at..]
                    .iter()
                    .position(|token| token.text == ";")
                    .unwrap_or(tokens.len() - at);
            if !stands(tokens, at + 1, &["<"]) {
                imports(&tokens[at + 1..end], &[], &mut found, &mut names);
                at = end;
            }
        } else if stands(tokens, at, &["extern", "crate"]) {
            plain.push(NamedPath {
                words: tokens.get(at + 2).map(|t| t.text).into_iter().collect(),
                line: tokens[at].line,
            });
            at += 2;
        } else if tokens[at].text.starts_with(is_word) && stands(tokens, at + 1, &["::"]) {
            let line = tokens[at].line;
            let mut words = vec![tokens[at].text];
            while stands(tokens, at + 1, &["::"])
                && tokens
                    .get(at + 2)
                    .is_some_and(|t| t.text.starts_with(is_word))
            {
                words.push(tokens[at + 2].text);
                at += 2;
            }
            plain.push(NamedPath { words, line });
        }
        at += 1;
    }
    for path in plain.iter_mut().chain(&mut found) {
        // Imports can build on each other, but never in more steps than there are names.
        for _ in 0..names.len() {
            let Some(whole) = names
                .get(path.words[0])
                .filter(|whole: &&Vec<&str>| whole[0] != path.words[0])
            else {
                break;
            };
            path.words.splice(..1, whole.iter().copied());
        }
    }
    found.extend(plain.into_iter().filter(|path| !path.words.is_empty()));
    found
}

/// Reads one level of an import: `a::b`, `a as b`, `a::{…}`, `self`, `*`.
fn imports<'a>(
    tokens: &[Token<'a>],
    before: &[&'a str],
    found: &mut Vec<NamedPath<'a>>,
    names: &mut BTreeMap<&'a str, Vec<&'a str>>,
) {
    let mut words = before.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => {}
            "{" => {
                let end = closing(tokens, at);
                let mut start = at + 1;
                for here in at + 1..=end {
                    let inner = &tokens[start..here];
                    let depth: i32 = inner
                        .iter()
                        .map(|t| i32::from(t.text == "{") - i32::from(t.text == "}"))
                        .sum();
                    if depth == 0 && (here == end || tokens[here].text == ",") {
                        if !inner.is_empty() {
                            imports(inner, &words, found, names);
                        }
                        start = here + 1;
                    }
                }
                return;
            }
            "as" => {
                let own = tokens.get(at + 1).map_or("_", |token| token.text);
                names.insert(own, words.clone());
                found.push(NamedPath {
                    words,
                    line: token.line,
                });
                return;
            }
            "self" if !words.is_empty() => {}
            word => words.push(word),
        }
        at += 1;
    }
    let line = tokens.first().map_or(0, |token| token.line);
    if let Some(last) = words.last() {
        names.insert(last, words.clone());
    }
    found.push(NamedPath { words, line });
}

/// A `match`: the patterns of its arms, without their guards.
pub struct MatchBlock<'a> {
    pub line: usize,
    pub at: usize,
    pub arms: Vec<MatchArm<'a>>,
}

pub struct MatchArm<'a> {
    pub pattern: Vec<&'a str>,
    pub guarded: bool,
}

/// All matches of a file.
pub fn matches<'a>(tokens: &[Token<'a>]) -> Vec<MatchBlock<'a>> {
    let begins = (0..tokens.len())
        .filter(|at| tokens[*at].text == "match" && !stands(tokens, at + 1, &["!"]));
    begins.filter_map(|at| block(tokens, at)).collect()
}

fn block<'a>(tokens: &[Token<'a>], at: usize) -> Option<MatchBlock<'a>> {
    let mut open = at + 1;
    while tokens.get(open)?.text != "{" {
        if [";", "}", ",", "=>"].contains(&tokens[open].text) {
            return None;
        }
        open = if ["(", "["].contains(&tokens[open].text) {
            closing(tokens, open) + 1
        } else {
            open + 1
        };
    }
    let end = closing(tokens, open);
    let (mut arms, mut here) = (Vec::new(), open + 1);
    while here < end {
        while stands(tokens, here, &["#", "["]) {
            here = closing(tokens, here + 1) + 1;
        }
        let (mut pattern, mut guarded) = (Vec::new(), false);
        while here < end && tokens[here].text != "=>" {
            guarded |= tokens[here].text == "if";
            let next = if ["(", "[", "{"].contains(&tokens[here].text) {
                closing(tokens, here)
            } else {
                here
            };
            pattern.extend(
                tokens[here..=next]
                    .iter()
                    .filter(|_| !guarded)
                    .map(|token| token.text),
            );
            here = next + 1;
        }
        arms.push(MatchArm { pattern, guarded });
        here += 1;
        if stands(tokens, here, &["{"]) {
            here = closing(tokens, here) + 1;
            here += usize::from(stands(tokens, here, &[","]));
        } else {
            while here < end && tokens[here].text != "," {
                here = if ["(", "[", "{"].contains(&tokens[here].text) {
                    closing(tokens, here)
                } else {
                    here
                } + 1;
            }
            here += 1;
        }
    }
    Some(MatchBlock {
        line: tokens[at].line,
        at,
        arms,
    })
}
