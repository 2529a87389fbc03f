//! Which words messages must not have: they hide the actor, or say in a roundabout way what an
//! ordinary term says.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

/// Words that hide the actor, in messages as in comments.
const HIDES_ACTOR: &str = r"\b(who|whom|whoever|whomever|(some|any|every|no)(body|one))\b";

/// What not to write, and what to write instead.
const BANNED: [(&str, &str); 16] = [
    (
        HIDES_ACTOR,
        "name the user, the agent, the worker or the hook",
    ),
    (r"\ba person\b", "`you` or `the user`"),
    (
        r"\b(go|goes|going|gone|went) on\b",
        "continue, resume or run",
    ),
    (r"\b(held|holds)\b", "pending, contains, keeps or blocked"),
    (
        r"\b(give|gives|given|gave|giving) (\w+ ){0,2}up\b",
        "abort or stop",
    ),
    (r"\baside\b", "name the place"),
    (
        r"\b(is|are|was|were|be) (not )?let\b|\blets\b",
        "allow, or name the actor",
    ),
    (r"\bas usual\b", "default"),
    (r"\b(tells|told)\b", "report, say or send"),
    (
        r"\b(take|takes|taken|taking) (\w+ )?up\b",
        "continue or resume",
    ),
    (
        r"\bas (many|much)( \w+)? again\b|\bin other hands\b",
        "give the number or the owner",
    ),
    (r"\bwhat (is|was|were) (said|told|held)\b", "name the thing"),
    (r"\bit may\b", "name the actor and what it is allowed to do"),
    (
        r"\bis none\b|\bis no (name|key|number|colour|command|range|priority|promise|pattern|regular|verb|time|work)\b",
        "`is not a …`",
    ),
    (
        r"\bsay(s)? (who|so that)\b|\bin the way\b",
        "say what to do",
    ),
    (
        r"\bto be (known|reached|gone)\b",
        "name the actor, or use an imperative",
    ),
];

/// A number that can be 1 before a noun that is always plural.
static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    let nouns = "byte|character|checkpoint|commit|error|file|hook|item|iteration|line|message|process|record|rule|second|\
                 session|task|turn|worker|client|replica";
    Regex::new(&format!(
        r"(^|[^\w.])(1|\{{[a-z_0-9.:]*\}}) ({nouns})(e?s)\b"
    ))
    .expect("a regular expression")
});

static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rule = |(pattern, instead): &(&str, &'static str)| {
        (
            Regex::new(&format!("(?i){pattern}")).expect("a regular expression"),
            *instead,
        )
    };
    BANNED.iter().map(rule).collect()
});

/// A sentence after another one begins with a capital. creel's name and code do not.
static SENTENCES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[a-z)`][.!?] ([a-z]+)(:?)").expect("a regular expression"));

/// Abbreviations, and names of programs and files after which no sentence begins.
const NO_END: [&str; 4] = ["e.g. ", "i.e. ", "etc. ", "vs. "];

/// Verbs that introduce a cause.
static CAUSES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(cannot|could not|failed to|unable to)\b").expect("a regular expression")
});

/// Names in braces are code: `{whose}`.
static HOLES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{[a-z_]+(:[^{}]*)?\}").expect("a regular expression"));

/// Code in a document: blocks, and words in backticks.
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?ms)^ *```.*?^ *```|`[^`\n]*`").expect("a regular expression"));

/// The banned words of a document, with the words around them.
pub fn banned_in_document(text: &str) -> Vec<String> {
    let text = CODE
        .replace_all(text, "``")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let around = |found: regex::Match<'_>| {
        let before = text[..found.start()]
            .char_indices()
            .rev()
            .nth(40)
            .map_or(0, |(at, _)| at);
        let after = text[found.end()..]
            .char_indices()
            .nth(40)
            .map_or(text.len(), |(at, _)| found.end() + at);
        text[before..after].to_owned()
    };
    let found = |(rule, instead): &(Regex, &str)| {
        rule.find_iter(&text)
            .map(|found| format!("… {} …: {instead}", around(found)))
            .collect::<Vec<_>>()
    };
    RULES.iter().flat_map(found).collect()
}

/// Whether a comment hides the actor, by the first rule.
pub fn hides_the_actor(comment: &str) -> bool {
    RULES[0].0.is_match(comment)
}

/// What is wrong with the words of one text.
pub fn mistakes(text: &str) -> Vec<String> {
    let words = HOLES.replace_all(text, "{}");
    let mut found: Vec<String> = RULES
        .iter()
        .filter_map(|(rule, instead)| Some(format!("`{}`: {instead}", rule.find(&words)?.as_str())))
        .collect();
    let parts: Vec<&str> = text.split(": ").map(str::trim).collect();
    let repeats = |pair: &[&str]| pair[0] == pair[1] || pair[0].ends_with(&format!(" {}", pair[1]));
    if parts
        .windows(2)
        .any(|pair| !["", "{}"].contains(&pair[1]) && repeats(pair))
    {
        found.push("it prints a cause twice".to_owned());
    }
    // The pattern of a regular expression is not a sentence.
    if text.contains("_pattern:") || text.contains(".?(") {
        return found;
    }
    if text
        .split(": ")
        .filter(|part| CAUSES.is_match(part))
        .count()
        > 1
    {
        found.push("it names two causes: keep the one that the user can act on".to_owned());
    }
    found.extend(lower_case_sentences(&words));
    found
}

/// Sentences after the first one that begin with a small letter.
fn lower_case_sentences(text: &str) -> Vec<String> {
    let is_one = |found: &regex::Captures<'_>| {
        let before = &text[..found.get(1).map_or(0, |word| word.start())];
        // `auto: …` explains a value.
        &found[1] != "creel"
            && found[2].is_empty()
            && !NO_END.iter().any(|end| before.ends_with(end))
    };
    let found = SENTENCES.captures_iter(text).filter(is_one);
    found
        .map(|found| format!("`{}`: a sentence begins with a capital", &found[1]))
        .collect()
}

/// Whether a text of the screen is a whole sentence that begins with a small letter. Fragments
/// follow other words.
pub fn begins_small(text: &str) -> bool {
    let is_sentence = text.ends_with('.') && !text.ends_with("..") && text.contains(' ');
    is_sentence
        && text.starts_with(|first: char| first.is_lowercase())
        && !text.starts_with("creel ")
}

/// Counts in the texts of one file that are wrong for 1. A file that also has the text for 1 is
/// right.
pub fn wrong_plurals(texts: &[(usize, String)]) -> Vec<(usize, String)> {
    let singular: BTreeSet<&str> = texts
        .iter()
        .flat_map(|(_, text)| text.split("1 ").skip(1))
        .collect();
    let has_singular = |noun: &str| {
        singular.iter().any(|rest| {
            rest.strip_prefix(noun)
                .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })
    };
    let mut found = Vec::new();
    for (line, text) in texts {
        for count in COUNT.captures_iter(text) {
            if &count[2] == "1" || !has_singular(&count[3]) {
                found.push((
                    *line,
                    format!("`{}` is wrong for 1: use `counted`", count[0].trim()),
                ));
            }
        }
    }
    found
}
