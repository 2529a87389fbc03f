//! Replaces secrets in what hooks and agents print.
//!
//! Owns the forms of well-known tokens, and the search in a text or a stream. Does not know the
//! secrets of this process: see [`crate::process::secrets`].
//!
//! # Invariants
//! - Where a stream is cut does not matter: what may be the beginning of a secret is kept back until
//!   the next piece, or the end. A secret with colours in it is found only within a piece.
//! - At most [`HELD_MAX`] bytes are kept back. A secret that is longer than that is masked whole; what
//!   only might have become one is passed on.
//! - Masking a masked text changes nothing.

use std::{borrow::Cow, mem, sync::Arc};

use super::plain::plain_text;
use regex_automata::{
    Anchored, Input, MatchKind,
    hybrid::dfa::{Cache, DFA},
    meta::Regex,
    util::syntax,
};

/// What stands in place of a secret.
pub const MASKED: &str = "[masked]";
/// How a colour code begins.
const ESCAPE: u8 = 0x1b;
/// Bytes of a stream that are kept back at most.
const HELD_MAX: usize = 32 * 1024;
/// Bytes at the end of a piece that are searched for the beginning of a secret at most.
const SEARCHED_MAX: usize = 1024;
/// Bytes at the end of a piece that are searched at least: the first line of a key is shorter.
const SEARCHED_MIN: usize = 96;
/// Steps of that search. What takes longer counts as a beginning.
const STEPS_MAX: usize = 256 * 1024;

/// Shorter values of variables are not secrets: they would be found in ordinary words.
pub const VALUE_MIN: usize = 8;

/// The forms of well-known tokens, each at the beginning of a word, after a colour code or after a line
/// break in JSON. Bytes, not characters: output need not be text.
const FORMS: [&str; 9] = [
    // `sk-fading-circle` is a name in a style sheet.
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])sk-(?:[a-z_-]*[A-Z0-9][A-Za-z0-9_-]{8,}|[a-z0-9]{12,}[A-Za-z0-9_-]*)",
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])gh[oprsu]_[A-Za-z0-9]{16,}",
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])github_pat_[A-Za-z0-9_]{16,}",
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])xox[a-z]-[A-Za-z-]*[0-9][A-Za-z0-9-]{8,}",
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])A[KS]IA[A-Z0-9]{16,}",
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])glpat-[A-Za-z0-9_.-]{12,}",
    // A JSON Web Token: two JSON objects and a signature.
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])eyJ[A-Za-z0-9_-]{4,}\.eyJ[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*)?",
    // A word after `Bearer` is a token if it has a digit or is long.
    r"(?-u)(?:\b|\x1b\[[0-9;:]*m|\\[bfnrt])[Bb]earer[ \t]+(?:[A-Za-z._~+/=-]*[0-9][A-Za-z0-9._~+/=-]{3,}|[A-Za-z0-9._~+/=-]{20,})",
    // A block, or what there is of it: lines of its letters after its first line.
    concat!(
        "(?-u)-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----",
        "(?:(?:-{0,4}[^-])*-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----",
        "|(?:[^A-Za-z0-9+/=-]{0,8}[A-Za-z0-9+/=]{16,})*)",
    ),
];

/// Finds secrets.
#[derive(Debug)]
pub struct SecretMask {
    whole: Regex,
    /// Tells whether a text may be the beginning of a secret.
    begun: DFA,
    /// The bytes with which a secret can begin: in front of a word, and inside of one. Most bytes of
    /// an output are inside of a word, where few secrets begin.
    first: Box<[[bool; 256]; 2]>,
    /// How far back from its end a piece is searched for a beginning.
    reach: SearchReach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchReach {
    /// The last two words, or so many bytes: a value can be long, or have spaces.
    Words { at_least: usize },
    /// The user's own patterns can match anything.
    Everything,
}

/// Why a pattern of the user cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MaskError {
    #[error("it is not a regular expression{0}")]
    Invalid(String),
    #[error("it matches an empty text, so it would mask everything")]
    Empty,
    #[error("together with the other patterns it is too large")]
    TooLarge,
}

/// Whether a pattern of the user can be used.
pub fn check_pattern(pattern: &str) -> Result<(), MaskError> {
    // The whole message quotes the pattern, which can contain a secret.
    let invalid = |error: regex::Error| {
        let why = error.to_string();
        let reason = why
            .lines()
            .last()
            .and_then(|line| line.strip_prefix("error: "));
        MaskError::Invalid(reason.map(|it| format!(": {it}")).unwrap_or_default())
    };
    let regex = regex::bytes::Regex::new(pattern).map_err(invalid)?;
    if regex.is_match(b"") {
        return Err(MaskError::Empty);
    }
    Ok(())
}

impl SecretMask {
    /// Finds these values and patterns, and well-known tokens. `values` shorter than
    /// [`VALUE_MIN`] do not count.
    pub fn new(values: &[String], patterns: &[String]) -> Result<Self, MaskError> {
        let mut forms: Vec<String> = values.iter().flat_map(|value| spellings(value)).collect();
        let needs_more =
            |text: &&String| text.len() > SEARCHED_MAX || text.contains(char::is_whitespace);
        let longest = forms.iter().filter(needs_more).map(String::len).max();
        let reach = if patterns.is_empty() {
            SearchReach::Words {
                at_least: longest.unwrap_or(0).clamp(SEARCHED_MIN, HELD_MAX),
            }
        } else {
            SearchReach::Everything
        };
        // Of two values that begin alike, the longer one counts.
        forms.sort_by_key(|value| std::cmp::Reverse(value.len()));
        forms.dedup();
        let mut all: Vec<String> = forms.iter().map(|value| regex::escape(value)).collect();
        all.extend(FORMS.iter().map(|form| (*form).to_owned()));
        all.extend(patterns.iter().cloned());
        Self::of(&all, reach)
    }

    fn of(all: &[String], reach: SearchReach) -> Result<Self, MaskError> {
        let bytes = syntax::Config::new().utf8(false);
        let whole = Regex::builder()
            .syntax(bytes)
            .configure(Regex::config().utf8_empty(false))
            .build_many(all)
            .map_err(|_| MaskError::TooLarge)?;
        let begun = DFA::builder()
            .syntax(bytes)
            .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
            .configure(
                DFA::config()
                    .match_kind(MatchKind::LeftmostFirst)
                    .unicode_word_boundary(true)
                    .skip_cache_capacity_check(true),
            )
            .build_many(all)
            .map_err(|_| MaskError::TooLarge)?;
        let mut mask = Self {
            whole,
            begun,
            first: Box::new([[true; 256]; 2]),
            reach,
        };
        // What a pattern of the user can begin with may depend on what is before it.
        if reach != SearchReach::Everything {
            let mut cache = mask.begun.create_cache();
            let mut first = Box::new([[false; 256]; 2]);
            for byte in 0..=u8::MAX {
                for (before, begins) in [b' ', b'x'].into_iter().zip(first.iter_mut()) {
                    let mut steps = STEPS_MAX;
                    begins[usize::from(byte)] =
                        mask.may_grow(&mut cache, &[before, byte], 1, &mut steps);
                }
            }
            mask.first = first;
        }
        Ok(mask)
    }

    /// The text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(masked) => Cow::Owned(lossy(masked)),
        }
    }

    /// The output without secrets.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.also_behind_codes(self.only_bytes(bytes))
    }

    fn only_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut masked = MaskedCopy::default();
        for found in self.whole.find_iter(bytes) {
            masked.replace(bytes, found.range());
        }
        masked.until(bytes, bytes.len())
    }

    /// A secret with colours in it is found without them. Then the output loses all of its colours.
    fn also_behind_codes<'a>(&self, masked: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if !masked.contains(&ESCAPE) {
            return masked;
        }
        let plain = plain_text(&String::from_utf8_lossy(&masked));
        match self.only_bytes(plain.as_bytes()) {
            Cow::Borrowed(_) => masked,
            Cow::Owned(found) => Cow::Owned(found),
        }
    }

    /// The beginning of a piece in which nothing can become a secret any more, without secrets,
    /// and its length in the piece.
    fn settled<'a>(
        &self,
        cache: &mut Cache,
        piece: &'a [u8],
        held: usize,
    ) -> (Cow<'a, [u8]>, usize) {
        let mut end = self.beginning(cache, piece, held);
        let mut masked = MaskedCopy::default();
        for found in self.whole.find_iter(piece) {
            if found.start() >= end {
                break;
            }
            let mut steps = STEPS_MAX;
            if found.end() > end || self.may_grow(cache, piece, found.start(), &mut steps) {
                end = found.start();
                break;
            }
            masked.replace(piece, found.range());
        }
        (self.also_behind_codes(masked.until(piece, end)), end)
    }

    /// Where the last part of a piece begins that may be the beginning of a secret; its length if
    /// there is none. `held` is how many bytes at its start may be one already.
    fn beginning(&self, cache: &mut Cache, piece: &[u8], held: usize) -> usize {
        let mut steps = STEPS_MAX;
        (0..usize::from(held > 0))
            .chain(self.first_to_look_at(piece)..piece.len())
            .find(|at| {
                let is_inside = *at > 0 && is_word(piece[*at - 1]);
                self.first[usize::from(is_inside)][usize::from(piece[*at])]
                    && self.may_grow(cache, piece, *at, &mut steps)
            })
            .unwrap_or(piece.len())
    }

    fn first_to_look_at(&self, piece: &[u8]) -> usize {
        let recent = piece.len().saturating_sub(SEARCHED_MAX);
        let SearchReach::Words { at_least } = self.reach else {
            return recent;
        };
        let word = |text: &[u8]| {
            let space = text.iter().rposition(u8::is_ascii_whitespace);
            space.map_or(0, |space| space + 1)
        };
        let tail = &piece[recent..];
        let last = word(tail);
        let before = word(tail[..last].trim_ascii_end());
        (recent + before).min(piece.len().saturating_sub(at_least))
    }

    /// Whether what begins there may become a secret, or a longer one, with more output.
    fn may_grow(&self, cache: &mut Cache, piece: &[u8], at: usize, steps: &mut usize) -> bool {
        let input = Input::new(piece).range(at..).anchored(Anchored::Yes);
        let Ok(mut state) = self.begun.start_state_forward(cache, &input) else {
            return true;
        };
        for byte in &piece[at..] {
            *steps = steps.saturating_sub(1);
            state = match self.begun.next_state(cache, state, *byte) {
                Ok(state) if *steps > 0 => state,
                Ok(_) | Err(_) => return true,
            };
            if state.is_dead() {
                return false;
            }
            if state.is_quit() {
                return true;
            }
        }
        true
    }
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The forms in which a value can be printed: as it is, and inside JSON.
fn spellings(value: &str) -> Vec<String> {
    let value = value.trim();
    if value.len() < VALUE_MIN {
        return Vec::new();
    }
    let quoted = serde_json::Value::from(value).to_string();
    vec![value.to_owned(), quoted[1..quoted.len() - 1].to_owned()]
}

/// A copy that is made only if something is replaced.
#[derive(Debug, Default)]
struct MaskedCopy {
    copy: Vec<u8>,
    /// How much of the original it covers.
    covered: usize,
}

impl MaskedCopy {
    fn replace(&mut self, original: &[u8], secret: std::ops::Range<usize>) {
        if secret.is_empty() {
            return;
        }
        self.copy
            .extend_from_slice(&original[self.covered..secret.start]);
        self.copy.extend_from_slice(MASKED.as_bytes());
        self.covered = secret.end;
    }

    fn until(mut self, original: &[u8], end: usize) -> Cow<'_, [u8]> {
        if self.covered == 0 {
            return Cow::Borrowed(&original[..end]);
        }
        self.copy.extend_from_slice(&original[self.covered..end]);
        Cow::Owned(self.copy)
    }
}

/// Masks a stream that comes in pieces.
#[derive(Debug)]
pub struct StreamMask {
    mask: Arc<SecretMask>,
    cache: Option<Box<Cache>>,
    /// What may be the beginning of a secret.
    held: Vec<u8>,
}

impl StreamMask {
    pub const fn new(mask: Arc<SecretMask>) -> Self {
        Self {
            mask,
            cache: None,
            held: Vec::new(),
        }
    }

    /// What is known to be no part of a secret so far.
    pub fn push<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        let Self { mask, cache, held } = self;
        let cache = cache.get_or_insert_with(|| Box::new(mask.begun.create_cache()));
        if held.is_empty() {
            let (masked, end) = mask.settled(cache, piece, 0);
            held.extend_from_slice(&piece[end..]);
            if held.len() <= HELD_MAX {
                return masked;
            }
            let masked = masked.into_owned();
            return Cow::Owned([masked, self.relieve()].concat());
        }
        let before = held.len();
        held.extend_from_slice(piece);
        let all = mem::take(held);
        let (masked, end) = mask.settled(cache, &all, before);
        held.extend_from_slice(&all[end..]);
        let masked = masked.into_owned();
        Cow::Owned([masked, self.relieve()].concat())
    }

    /// Like [`Self::push`], for pieces that are text.
    pub fn push_text(&mut self, piece: &str) -> String {
        lossy(self.push(piece.as_bytes()).into_owned())
    }

    /// The rest, at the end of the stream. What comes after it is another stream.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = mem::take(&mut self.held);
        self.mask.bytes(&held).into_owned()
    }

    /// Like [`Self::finish`], for pieces that are text.
    pub fn finish_text(&mut self) -> String {
        lossy(self.finish())
    }

    /// What [`Self::finish`] would return.
    pub fn rest(&self) -> Cow<'_, [u8]> {
        self.mask.bytes(&self.held)
    }

    /// Passes on what is too long to be kept back. The middle of a secret is dropped: it is masked in
    /// any case.
    fn relieve(&mut self) -> Vec<u8> {
        let too_many = self.held.len().saturating_sub(HELD_MAX);
        if too_many == 0 {
            return Vec::new();
        }
        let first = self.mask.whole.find(&self.held);
        if first.is_some_and(|found| found.range() == (0..self.held.len())) {
            self.held.drain(HELD_MAX / 2..HELD_MAX / 2 + too_many);
            return Vec::new();
        }
        let mut masked = MaskedCopy::default();
        let mut end = too_many + HELD_MAX / 2;
        for found in self.mask.whole.find_iter(&self.held) {
            if found.start() >= end {
                break;
            }
            if found.end() == self.held.len() {
                end = found.start();
                break;
            }
            masked.replace(&self.held, found.range());
            end = end.max(found.end());
        }
        let passed = masked.until(&self.held, end).into_owned();
        self.held.drain(..end);
        passed
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
