//! Finds tags that an agent writes in its own words: used for promises and for verdicts of
//! gatekeepers.
//!
//! Owns which parts of a message count. Does not know what a tag means: see `engine::stop::context`
//! and `engine::submit::review`.
//!
//! # Invariants
//! - A tag in a fenced block, in inline code, in a quotation, in the middle of a line, or repeated
//!   from the prompt never counts.

/// Pairs of quotation marks. A straight single mark is also an apostrophe, so it only counts next
/// to the tag.
const QUOTES: [(char, char); 5] = [('"', '"'), ('“', '”'), ('‘', '’'), ('«', '»'), ('„', '“')];

/// Which spellings of a tag count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetterCase {
    Exact,
    Any,
}

/// The lines of a message that are neither in a fenced block nor in a block quotation.
#[derive(Debug)]
pub(crate) struct UnquotedText<'a> {
    lines: Vec<UnquotedLine<'a>>,
    prompt: &'a str,
}

/// One line, as written and with its inline code masked.
#[derive(Debug)]
struct UnquotedLine<'a> {
    written: &'a str,
    shown: String,
}

impl<'a> UnquotedText<'a> {
    /// Reads a message that answers this prompt.
    pub(crate) fn of(message: &'a str, prompt: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut paragraph: Vec<&str> = Vec::new();
        let mut fence: Option<&str> = None;
        for line in message.lines() {
            let before = fence;
            fence = fence_after(before, line);
            let is_own = before.is_none() && fence.is_none() && !line.trim_start().starts_with('>');
            // Inline code can span lines, but never paragraphs.
            if !is_own || line.trim().is_empty() {
                lines.extend(without_code(std::mem::take(&mut paragraph)));
            }
            if is_own {
                paragraph.push(line);
            }
        }
        lines.extend(without_code(paragraph));
        Self { lines, prompt }
    }

    /// Whether the agent writes this tag at the beginning or the end of a line.
    pub(crate) fn say(&self, tag: &str, case: LetterCase) -> bool {
        let says = |line: &UnquotedLine<'_>| match case {
            LetterCase::Exact => has_tag(&line.shown, tag),
            LetterCase::Any => has_tag(&line.shown.to_ascii_lowercase(), &tag.to_ascii_lowercase()),
        };
        self.lines
            .iter()
            .enumerate()
            .any(|(nth, line)| says(line) && !self.is_repeated(nth, tag))
    }

    /// The lines as the agent wrote them, without those that begin with inline code.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a str> {
        let own = self
            .lines
            .iter()
            .filter(|line| !line.shown.trim_start().starts_with('`'));
        own.map(|line| line.written)
    }

    /// Whether the agent only repeats its prompt: the same line, if the line contains more than the
    /// tag; otherwise the same two consecutive lines.
    fn is_repeated(&self, nth: usize, tag: &str) -> bool {
        let line = self.lines[nth].written.trim();
        if !line.eq_ignore_ascii_case(tag) {
            return self.prompt.lines().any(|known| known.trim() == line);
        }
        let before = self.lines[..nth]
            .iter()
            .rev()
            .map(|line| line.written.trim())
            .find(|line| !line.is_empty());
        let Some(before) = before else { return false };
        let known: Vec<&str> = self
            .prompt
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        known.windows(2).any(|pair| pair == [before, line])
    }
}

/// The fence of the code block that a text ends in, if any.
pub(crate) fn open_fence(text: &str) -> Option<&str> {
    text.lines().fold(None, fence_after)
}

/// The fence that is open after a line.
pub(crate) fn fence_after<'a>(open: Option<&'a str>, line: &'a str) -> Option<&'a str> {
    let text = line.trim_start();
    let Some(open) = open else {
        return fence_mark(past_list_marks(text));
    };
    // Only a fence that is at least as long, with nothing after it, ends a block.
    let closes = fence_mark(text)
        .is_some_and(|mark| mark.starts_with(open) && text[mark.len()..].trim().is_empty());
    (!closes).then_some(open)
}

/// A block can begin in the first line of a list item.
fn past_list_marks(mut text: &str) -> &str {
    loop {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let rest = if digits > 0 {
            text[digits..].strip_prefix(['.', ')'])
        } else {
            text.strip_prefix(['-', '*', '+'])
        };
        let Some(rest) = rest.filter(|rest| rest.starts_with([' ', '\t'])) else {
            return text;
        };
        text = rest.trim_start();
    }
}

/// The fence that a line begins with.
fn fence_mark(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.len() - text.trim_start_matches(mark).len();
    // A line with further backticks after the first three is inline code.
    let opens = length >= 3 && !(mark == '`' && text[length..].contains('`'));
    opens.then(|| &text[..length])
}

/// The lines of a paragraph, with backticks in place of every character of inline code.
fn without_code(paragraph: Vec<&str>) -> Vec<UnquotedLine<'_>> {
    let text = paragraph.join("\n");
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('`') {
        shown.push_str(&rest[..at]);
        let opened = &rest[at..];
        let mark = backticks(opened);
        let inside = &opened[mark..];
        let code = closing(inside, mark).map_or("", |end| &opened[..mark + end + mark]);
        let code = if code.is_empty() {
            &opened[..mark]
        } else {
            code
        };
        shown.extend(code.chars().map(|c| if c == '\n' { c } else { '`' }));
        rest = &opened[code.len()..];
    }
    shown.push_str(rest);
    let shown = shown.split('\n').map(str::to_owned);
    paragraph
        .into_iter()
        .zip(shown)
        .map(|(written, shown)| UnquotedLine { written, shown })
        .collect()
}

/// How many backticks a text begins with.
fn backticks(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}

/// The position of exactly that many backticks, which end a piece of inline code.
fn closing(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = text[at..].find('`') {
        let run = backticks(&text[at + next..]);
        if run == length {
            return Some(at + next);
        }
        at += next + run;
    }
    None
}

/// Whether a line begins or ends with the tag, outside of quotation marks.
fn has_tag(line: &str, tag: &str) -> bool {
    line.match_indices(tag).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + tag.len()..]);
        let in_single_marks = before.ends_with('\'') && after.starts_with('\'');
        let is_quoted = in_single_marks
            || QUOTES
                .into_iter()
                .any(|pair| is_between(before, after, pair));
        !is_quoted && (is_start(before) || is_end(after))
    })
}

/// Whether nothing but a list marker, a heading marker and emphasis precedes the tag.
fn is_start(before: &str) -> bool {
    past_list_marks(before.trim_start())
        .chars()
        .all(|c| c.is_whitespace() || matches!(c, '*' | '_' | '#' | '('))
}

/// Whether nothing but emphasis and punctuation follows the tag.
fn is_end(after: &str) -> bool {
    let is_dress = |c| matches!(c, '*' | '_' | '.' | ',' | ';' | ':' | '!' | '?' | '…' | ')');
    after.chars().all(|c| c.is_whitespace() || is_dress(c))
}

/// Whether a quotation that was opened before the tag is closed after it.
fn is_between(before: &str, after: &str, (open, close): (char, char)) -> bool {
    let is_open = if open == close {
        before.matches(open).count() % 2 == 1
    } else {
        before
            .rfind(open)
            .is_some_and(|at| !before[at + open.len_utf8()..].contains(close))
    };
    is_open && after.contains(close)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "<tag>";

    fn is_made(message: &str) -> bool {
        UnquotedText::of(message, "").say(TAG, LetterCase::Exact)
    }

    #[test]
    fn a_tag_counts_at_the_beginning_or_the_end_of_a_line() {
        for message in [
            "<tag>",
            "Done: <tag>",
            "Done.\n**<tag>**.",
            "Done (<tag>)!",
            "<tag> and now?",
            "- <tag>: there are no tests",
            "2) _<tag>_, since it is done",
            "## <tag> with words",
            "`ls` ran.\n<tag>",
            "a ` that nothing closes <tag>",
            "a ` that another paragraph closes\n\n<tag>\n\nnamely `",
            "He said \"no\" and I say <tag>",
            "say <tag> later\r\n<tag>\r\n",
        ] {
            assert!(is_made(message), "{message}");
        }
    }

    #[test]
    fn a_tag_in_the_middle_of_a_line_does_not_count() {
        for message in [
            "It's <tag>, isn't it",
            "I'll say <tag> when the tests pass",
            "- not <tag> yet",
            "~~<tag>~~",
            "| <tag> | done |",
            "`x` <tag> `y`",
            "<tab> <tag> </tab>",
        ] {
            assert!(!is_made(message), "{message}");
        }
    }

    #[test]
    fn a_tag_counts_in_any_letter_case_only_where_that_is_asked_for() {
        let own = UnquotedText::of("É. <TaG>", "");
        assert!(own.say(TAG, LetterCase::Any) && !own.say(TAG, LetterCase::Exact));
    }

    #[test]
    fn a_tag_in_code_does_not_count() {
        for message in [
            "```\n<tag>\n```",
            "~~~~ text\n```\n<tag>\n~~~\n~~~~",
            "```\n<tag>\nnothing closes the block",
            "- ```\n  <tag>\n  ```",
            "1. like so: \n2. ~~~\n<tag>\n~~~",
            "`<tag>`",
            "``<tag> ` ``",
            "code `over\n<tag>\ntwo` lines",
        ] {
            assert!(!is_made(message), "{message}");
        }
    }

    #[test]
    fn a_tag_in_a_quotation_does_not_count() {
        for message in [
            "> <tag>",
            ">> <tag>",
            "\"<tag>\"",
            "'<tag>'",
            "“say <tag> now”",
            "\"please say <tag> now\"",
            "« <tag> »",
        ] {
            assert!(!is_made(message), "{message}");
        }
    }

    #[test]
    fn a_tag_repeated_from_the_prompt_does_not_count() {
        let prompt = "End with one line:\n<tag>\nThen say <tag> aloud.";
        let says = |message: &str| UnquotedText::of(message, prompt).say(TAG, LetterCase::Exact);
        assert!(!says("You told me:\nEnd with one line:\n\n<tag>"));
        assert!(!says("Then say <tag> aloud."));
        assert!(says("Fine.\n<tag>"));
    }
}
