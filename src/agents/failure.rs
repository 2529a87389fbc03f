//! Finds out why a turn failed from the agent's messages.
//!
//! Owns the kinds of failures (not logged in, too many requests, …) and the advice for each. Does
//! not decide whether a turn failed: the agents do.
//!
//! # Invariants
//! - The message always contains the agent's own words. So a wrong guess leads to wrong advice and
//!   nothing worse.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

use super::usage_limit;
use crate::{
    engine::{
        conversation::{AGENT_NOT_INSTALLED, TurnFailure},
        hooks::claude::FailureCause,
        policy::AgentFacts,
        time::TimeSpan,
    },
    text::telling_line,
};

/// Bytes of the agent's messages that are searched and shown. The end, because the last error is
/// there.
const WORDS_MAX: usize = 4 * 1024;
/// Longer waits are not plausible as a retry time.
const RETRY_MAX: TimeSpan = TimeSpan::secs(40 * 24 * 60 * 60);

/// The cause of a failure, as far as the agent's messages show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Not logged in, or the key is refused.
    Login,
    /// No provider or model is configured.
    Setup,
    /// The conversation no longer fits into the model.
    ContextFull,
    /// The quota is used up.
    Quota,
    /// Nothing is left of what was paid for.
    NoCredit,
    RateLimit,
    /// The server has too much to do, or a gateway does not reach it.
    Overloaded,
    /// The server itself has problems.
    Server,
    Network,
    /// Unknown, or the message needs no advice.
    Other,
}

/// Builds the failure of a turn: what happened, what the agent said about it, and what to do.
pub(super) fn explain(what: &str, text: &str, known: &AgentFacts) -> TurnFailure {
    let sent = end_of(text, WORDS_MAX);
    let text = end_of(&readable(text), WORDS_MAX);
    let happened = match text.as_str() {
        "" => format!("{what} and gave no reason"),
        text => format!("{what}: {}", telling_first(text)),
    };
    let kind = FailureKind::of(&text);
    // What a server says about the wait can be in a part of its error that is not for people.
    let limit = usage_limit::of(&sent, kind, known, &jiff::Zoned::now());
    let retry_after = match kind {
        FailureKind::RateLimit | FailureKind::Overloaded | FailureKind::Server => {
            retry_after(&sent)
        }
        FailureKind::Login
        | FailureKind::Setup
        | FailureKind::ContextFull
        | FailureKind::Quota
        | FailureKind::NoCredit
        | FailureKind::Network
        | FailureKind::Other => None,
    };
    // creel reports separately what it does about a usage limit.
    let message = match kind.advice(known, retry_after).filter(|_| limit.is_none()) {
        Some(advice) => format!("{advice}\n{happened}"),
        None => happened,
    };
    TurnFailure {
        cause: kind.cause(),
        retry_after,
        limit,
        ..TurnFailure::new(message)
    }
}

/// The failure of a scripted agent, without any advice.
pub(super) fn plainly(text: &str) -> TurnFailure {
    let kind = FailureKind::of(text);
    let limit = usage_limit::of(text, kind, &AgentFacts::default(), &jiff::Zoned::now());
    TurnFailure {
        cause: kind.cause(),
        limit,
        ..TurnFailure::new(text)
    }
}

/// Puts the most informative line first: rows and gates show only one line, and agents print
/// warnings and progress before the error.
fn telling_first(text: &str) -> String {
    let is_one_line = text.lines().nth(1).is_none();
    match telling_line(&[text]).filter(|line| !is_one_line && !text.starts_with(line.as_str())) {
        Some(line) => format!("{line}\n{text}"),
        None => text.to_owned(),
    }
}

/// Adds a server error to a timeout, if the agent reported one meanwhile: a longer timeout would
/// not help then.
pub(super) fn after_server_errors(late: TurnFailure, text: &str) -> TurnFailure {
    let reported = end_of(text, WORDS_MAX);
    let Some(line) = reported
        .lines()
        .rev()
        .find(|line| FailureKind::of(line).is_of_server())
    else {
        return late;
    };
    let line = telling_line(&[line]).unwrap_or_default();
    let message = format!(
        "the model's server reported errors while the agent waited: {line}\n{}",
        late.message
    );
    TurnFailure { message, ..late }
}

pub(super) fn not_installed(
    what: &str,
    command: &str,
    text: &str,
    known: &AgentFacts,
) -> TurnFailure {
    let install = known
        .install
        .as_ref()
        .map(|how| format!(" ({how})"))
        .unwrap_or_default();
    let text = end_of(text, WORDS_MAX);
    let text = if text.is_empty() {
        text
    } else {
        format!(": {text}")
    };
    TurnFailure::new(format!(
        "{what}: the program of `{command}` {AGENT_NOT_INSTALLED}. Install it{install}, or change the agent \
         in the config{text}"
    ))
}

/// The HTTP status codes and words that identify a kind of failure.
struct FailurePattern {
    kind: FailureKind,
    states: &'static [&'static str],
    words: &'static [&'static str],
}

/// The order matters: a full conversation is also a bad request, and a used-up quota also comes as
/// 429.
const PATTERNS: [FailurePattern; 10] = [
    FailurePattern {
        kind: FailureKind::ContextFull,
        states: &[],
        words: &[
            r"context.?(length|window|overflow|limit)",
            r"maximum context",
            r"(prompt|input).(is.)?too.long",
            r"token count.{0,40}exceeds|request too large|hit a token limit",
        ],
    },
    FailurePattern {
        kind: FailureKind::Setup,
        states: &[],
        words: &[
            r"configuration value not found|\bno (model|provider) (is |was )?(configured|selected|set)",
            r"\b(model|provider) (is )?not configured",
        ],
    },
    FailurePattern {
        kind: FailureKind::Login,
        states: &["401"],
        words: &[
            r"unauthorized|unauthenticated|not (logged in|authenticated)",
            r"authentication.?(failed|error|required)|(invalid|no|set an|select an?) auth(entication)? method",
            r"(please|must|need to) (log|sign).?in|(log|sign).?in required",
            r"please run\b.*\b(log.?in|auth|setup|configure)",
            r"(invalid|incorrect|missing|no|expired).{0,12}(api.?key|credentials|token\b)",
            r"api.?key.{0,20}(not (set|valid|found|provided)|invalid|missing|required|expired)",
            r"token (has|is) expired",
        ],
    },
    FailurePattern {
        kind: FailureKind::NoCredit,
        states: &["402"],
        words: &[
            r"insufficient.{0,10}(quota|funds|balance|credits?|tokens)|credit balance|credits? (exhausted|depleted)",
            r"billing (details|limit|hard limit|issue|account)|payment required|spending limit|\badd (more )?credits\b",
            r"(out of|no|not enough|ran out of) (more |free )?credits?\b|(no|out of) (premium|paid) requests|premium request allowance",
        ],
    },
    FailurePattern {
        kind: FailureKind::Quota,
        states: &[],
        words: &[
            r"(exceed|exhaust|out of|used|reached).{0,30}quota|quota.{0,20}(exceed|exhaust|reached)|out of (extra )?usage\b",
            r"(hit|reach|exceed)\w*.{0,25}usage limit|usage limit.{0,25}(hit|reach|exceed|reset|will|until)|usage.?limit.?reached",
        ],
    },
    FailurePattern {
        kind: FailureKind::RateLimit,
        states: &["429"],
        words: &[
            r"rate.?limit(s|ed|ing|_error|error)?\b|too many requests|resource.?exhausted|throttled|throttling",
        ],
    },
    FailurePattern {
        kind: FailureKind::Overloaded,
        states: &[
            "502", "503", "504", "520", "521", "522", "523", "524", "529",
        ],
        words: &[
            r"overloaded|high demand|temporarily unavailable|bad gateway|service unavailable|gateway time.?out",
            r"at capacity|upstream request failed|server had an error|request timed out",
        ],
    },
    FailurePattern {
        kind: FailureKind::Server,
        states: &["500"],
        words: &[r"(internal )?server.?error"],
    },
    FailurePattern {
        kind: FailureKind::Network,
        states: &[],
        words: &[
            r"\bE(CONNREFUSED|CONNRESET|TIMEDOUT|NOTFOUND|AI_AGAIN|HOSTUNREACH|NETUNREACH)\b|UND_ERR_(CONNECT_TIMEOUT|SOCKET)",
            r"connection (refused|reset|closed|error|timed out)|network (error|is unreachable)|no route to host",
            r"(could not|couldn't|failed to) (resolve|connect)|error sending request|name resolution|dns error",
            r"name or service not known|failed to lookup address|getaddrinfo|nodename nor servname",
            r"stream disconnected|fetch failed|socket hang up|other side closed|premature close|handshake eof",
            r"unable to connect|no internet connection|server disconnected|apiconnectionerror",
        ],
    },
    FailurePattern {
        kind: FailureKind::RateLimit,
        states: &[],
        words: &[r"retry.after"],
    },
];

impl FailureKind {
    pub(super) fn of(text: &str) -> Self {
        static WORDS: LazyLock<[Regex; PATTERNS.len()]> =
            LazyLock::new(|| PATTERNS.map(|sign| words(&sign.words.join("|"))));
        let text = &without_work(text);
        let mut patterns = PATTERNS.iter().zip(&*WORDS);
        let found =
            patterns.find(|(sign, words)| has_status(text, sign.states) || words.is_match(text));
        match found.map(|(sign, _)| sign.kind) {
            // A quota that resets soon is a rate limit.
            Some(Self::Quota | Self::NoCredit) if retry_after(text).is_some() => Self::RateLimit,
            Some(kind) => kind,
            None => Self::Other,
        }
    }

    /// Whether the agent can only wait for its server.
    const fn is_of_server(self) -> bool {
        match self {
            Self::RateLimit | Self::Overloaded | Self::Server | Self::Network => true,
            Self::Login
            | Self::Setup
            | Self::ContextFull
            | Self::Quota
            | Self::NoCredit
            | Self::Other => false,
        }
    }

    const fn cause(self) -> FailureCause {
        match self {
            Self::Login => FailureCause::AuthenticationFailed,
            Self::ContextFull => FailureCause::InvalidRequest,
            Self::NoCredit => FailureCause::BillingError,
            Self::Quota | Self::RateLimit => FailureCause::RateLimit,
            Self::Overloaded => FailureCause::Overloaded,
            Self::Server => FailureCause::ServerError,
            Self::Network | Self::Setup | Self::Other => FailureCause::Unknown,
        }
    }

    /// The cause and what to do, if known.
    fn advice(self, known: &AgentFacts, retry_after: Option<TimeSpan>) -> Option<String> {
        Some(match self {
            Self::Login => {
                let how = known.login.as_deref().unwrap_or("with its own command, or by setting its key");
                format!("the agent is not logged in, or its key is not valid. Log in ({how}), then resume the session")
            }
            Self::Setup => {
                let how = known.login.as_deref().unwrap_or("with its own command");
                format!("the agent is not set up: it has no provider or no model. Set it up ({how}), then resume the session")
            }
            Self::ContextFull => {
                "the conversation is too long for the model. Set `context: fresh` to start a new conversation each \
                 iteration, or send less at once"
                    .to_owned()
            }
            Self::Quota | Self::NoCredit => {
                "usage limit reached: the agent's account has no quota left. Wait for the reset, or raise the limit"
                    .into()
            }
            Self::RateLimit => match retry_after {
                Some(span) => {
                    format!("the agent's server receives too many requests. It asks for a wait of {span}")
                }
                None => "the agent's server receives too many requests. Wait longer between retries (`retry: { \
                         backoff: … }`)"
                    .into(),
            },
            Self::Overloaded | Self::Server => {
                "the agent's server reports an error, which is usually temporary. Wait longer between retries (`retry: \
                 { backoff: … }`)"
                    .to_owned()
            }
            Self::Network => {
                "the agent's server cannot be reached. Check the network, the proxy and the server address".into()
            }
            Self::Other => return None,
        })
    }
}

/// Whether the conversation cannot be continued: it is full, or the agent does not know it.
pub(super) fn ends_conversation(text: &str) -> bool {
    FailureKind::of(text) == FailureKind::ContextFull || is_unknown_conversation(text)
}

/// Whether the agent does not know the conversation that it was asked to continue.
pub(super) fn is_unknown_conversation(text: &str) -> bool {
    static UNKNOWN: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"no (previous )?(conversation|session|thread|rollout)s?\b.{0,20}found|(conversation|session|thread)\b.{0,60}not found|invalid session identifier",
        )
    });
    UNKNOWN.is_match(text)
}

/// The server's requested wait. The last one in the text counts.
pub(super) fn retry_after(text: &str) -> Option<TimeSpan> {
    const UNIT: &str =
        r"ms|msecs?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?";
    static WAIT: LazyLock<Regex> = LazyLock::new(|| {
        let before = r#"(?:retry[-_ ]?(?:after|delay)(?P<in_ms>[-_ ]?ms)?["']?\s*[:=]?\s*\{?\s*(?:seconds\s*:)?|(?:try|retry|retrying|available|wait|resets?)(?:\s+\w+){0,3}?\s+(?:in|for|after)|resets? (?:in|after)|please wait)(?:\s+(?:about|around|approximately))?"#;
        words(&format!(
            r#"{before}\s*["']?(?P<wait>(?:an?|one|half an)\s+(?:minute|hour|day)\b|\d+(?:\.\d+)?(?:\s*(?:{UNIT})\b(?:(?:\s*,)?(?:\s+and)?\s*\d+(?:\.\d+)?\s*(?:{UNIT})\b)*|(?:{UNIT})(?:\d+(?:\.\d+)?(?:{UNIT}))*\b)?)"#
        ))
    });
    static PART: LazyLock<Regex> =
        LazyLock::new(|| words(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)"));
    let found = WAIT.captures_iter(text).last()?;
    let in_words = found["wait"].to_lowercase();
    if let Some((number, unit)) = in_words
        .rsplit_once(' ')
        .filter(|_| !in_words.starts_with(|c: char| c.is_ascii_digit()))
    {
        let secs = match unit {
            "minute" => 60,
            "hour" => 60 * 60,
            _ => 24 * 60 * 60,
        };
        return Some(TimeSpan::secs(if number.starts_with("half") {
            secs / 2
        } else {
            secs
        }));
    }
    let unsaid = if found.name("in_ms").is_some() {
        1.0
    } else {
        1000.0
    };
    let ms: f64 = PART
        .captures_iter(&found["wait"])
        .map(|part| milliseconds(&part, unsaid))
        .sum();
    let span = TimeSpan::from(std::time::Duration::try_from_secs_f64(ms / 1000.0).ok()?);
    (!span.is_zero() && span <= RETRY_MAX).then_some(span)
}

fn milliseconds(part: &Captures<'_>, unsaid: f64) -> f64 {
    let number: f64 = part["number"].parse().unwrap_or(0.0);
    let unit = part["unit"].to_lowercase();
    let factor = match unit.as_bytes() {
        [b'm', b's', ..] | [b'm', b'i', b'l', ..] => 1.0,
        [b's', ..] => 1000.0,
        [b'm', ..] => 60_000.0,
        [b'h', ..] => 3_600_000.0,
        [b'd', ..] => 86_400_000.0,
        _ => unsaid,
    };
    number * factor
}

/// Whether one of these HTTP status codes is in the text. A line of a stack trace
/// (`client.js:429:13`) does not count.
pub(super) fn has_status(text: &str, states: &[&str]) -> bool {
    static STATUS: LazyLock<Regex> = LazyLock::new(|| {
        let before = r#"(?m:^)[^\w\n]*|\(|(?:status|http(?:/[\d.]+)?|error|code|response|exceeded|exception)["']?\s*[:=-]*\s*\(?["']?"#;
        words(&format!(
            r#"(?:{before}|exception - )(?P<state>[45]\d\d)(?:$|[)"'\],;:}}.]|\s+(?P<word>\w*))"#
        ))
    });
    // `429 passed` and `503 ms` count something.
    const COUNTED: [&str; 16] = [
        "passed", "failed", "tests", "test", "ms", "s", "seconds", "lines", "line", "files",
        "file", "items", "bytes", "total", "of", "warnings",
    ];
    let is_count = |found: &Captures<'_>| {
        let word = found.name("word").map(|word| word.as_str().to_lowercase());
        word.is_some_and(|word| COUNTED.contains(&word.as_str()))
    };
    STATUS
        .captures_iter(text)
        .any(|found| states.contains(&&found["state"]) && !is_count(&found))
}

/// What the agent says about its work is not about its server: names of tests and of files, and
/// lines of test reports.
pub(super) fn without_work(text: &str) -> String {
    static RESULT: LazyLock<Regex> = LazyLock::new(|| {
        words(concat!(
            r"^\s*(test .* \.\.\. |(---|===) |(?-i:FAILED|FAIL|PASS|PASSED|ok|not ok)\b|thread '|> |\+ )",
            r"|^\s*[✓✔√✗✘✕✖×●].*( › |\(\d+ ?m?s\))|\bassert(ion)?(error)?\b",
        ))
    });
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        words(
            r"[\w/.-]*(::|\.(rs|py|[jt]sx?|go|rb|java|php|cs|c|cpp|h)\b)[\w:./-]*|`[^`\n]*`|\btest_\w+|\w+_test\b",
        )
    });
    let lines = text.lines().filter(|line| !RESULT.is_match(line));
    lines
        .map(|line| NAME.replace_all(line, "…"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Extracts the message from an error in JSON or in brackets, because programs often print what
/// their server sent.
pub(super) fn readable(text: &str) -> String {
    let text = text.trim();
    let inner = text
        .strip_prefix("[API Error:")
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text)
        .trim();
    let Some(error) = serde_json::from_str::<Value>(inner)
        .ok()
        .filter(Value::is_object)
    else {
        return inner.to_owned();
    };
    let error = error
        .get("error")
        .filter(|e| e.is_object())
        .unwrap_or(&error);
    let Some(message) = error.get("message").and_then(Value::as_str) else {
        return inner.to_owned();
    };
    let facts = ["code", "status", "type"]
        .iter()
        .filter_map(|key| match error.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        });
    let facts: Vec<String> = facts.collect();
    if facts.is_empty() {
        message.to_owned()
    } else {
        format!("{message} ({})", facts.join(", "))
    }
}

/// The end of a text, from the start of a line if one is near.
pub(super) fn end_of(text: &str, most: usize) -> String {
    let text = text.trim();
    if text.len() <= most {
        return text.to_owned();
    }
    let end = &text[text.ceil_char_boundary(text.len() - most)..];
    let start = end.find('\n').map_or(0, |at| at + 1);
    format!(
        "… {}",
        if start <= end.len() / 2 {
            &end[start..]
        } else {
            end
        }
    )
}

pub(super) fn words(pattern: &str) -> Regex {
    Regex::new(&format!("(?i){pattern}")).expect("the pattern is a regular expression")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_errors_of_real_programs_are_classified() {
        let cases = [
            ("Not logged in · Please run /login", FailureKind::Login),
            ("Invalid API key · Fix external API key", FailureKind::Login),
            ("Invalid auth method selected.", FailureKind::Login),
            (
                "unexpected status 401 Unauthorized: Incorrect API key provided: x, url: http://127.0.0.1:9900/",
                FailureKind::Login,
            ),
            (
                r#"[API Error: {"error":{"code":401,"message":"no","status":"UNAUTHENTICATED"}}]"#,
                FailureKind::Login,
            ),
            (
                "API Error: Request rejected (429) · This request would exceed your rate limit.",
                FailureKind::RateLimit,
            ),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                FailureKind::RateLimit,
            ),
            (
                "Quota exceeded for requests per minute. Please retry in 12.5s.",
                FailureKind::RateLimit,
            ),
            (
                "429 You exceeded your current quota, please check your plan and billing details.",
                FailureKind::NoCredit,
            ),
            ("Credit balance is too low", FailureKind::NoCredit),
            (
                "[API Error: This request would exceed your rate limit.]\nTo raise it, ask for more quota",
                FailureKind::RateLimit,
            ),
            (
                "API Error: 529 Overloaded. This is a server-side issue",
                FailureKind::Overloaded,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                FailureKind::Overloaded,
            ),
            (
                "Prompt is too long · the request is ~250000 tokens (limit 200000)",
                FailureKind::ContextFull,
            ),
            (
                "This model's maximum context length is 200000 tokens.",
                FailureKind::ContextFull,
            ),
            ("connect ECONNREFUSED 127.0.0.1:443", FailureKind::Network),
            (
                "Internal error: Failed to resolve provider: Configuration value not found: GOOSE_PROVIDER",
                FailureKind::Setup,
            ),
            (
                "error: No provider configured. Run 'goose configure' first.",
                FailureKind::Setup,
            ),
            (
                "Model openai/one has hit a token limit!",
                FailureKind::ContextFull,
            ),
            (
                "stream disconnected before completion: stream closed",
                FailureKind::Network,
            ),
            (
                "    at client.js:429:13\n    at client.js:401:5)\n    at x (file:///a.js:500)",
                FailureKind::Other,
            ),
            ("error: 4291 tests failed in 401ms", FailureKind::Other),
            ("broken", FailureKind::Other),
            ("", FailureKind::Other),
        ];
        for (text, kind) in cases {
            assert_eq!(FailureKind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn a_conversation_that_is_full_or_unknown_is_over() {
        for over in [
            "Prompt is too long",
            "No conversation found with session ID: 1",
            "thread 01a1-dd not found",
            "Error resuming session: No previous sessions found for this project.",
            "Error resuming session: Invalid session identifier \"1\".",
        ] {
            assert!(ends_conversation(over), "{over}");
        }
        assert!(!ends_conversation("file not found"));
    }

    #[test]
    fn a_wait_is_read_in_every_wording() {
        let ms = |text: &str| retry_after(text).map(|span| span.0);
        let cases = [
            ("Retry-After: 30", Some(30_000)),
            ("retry after 30", Some(30_000)),
            (r#"{"retry_after": 1.5}"#, Some(1_500)),
            ("retry-after-ms: 250", Some(250)),
            ("Please try again in 20s.", Some(20_000)),
            (
                "Rate limit reached. Please try again in 1m30.5s.",
                Some(90_500),
            ),
            ("try again in 6m0s", Some(360_000)),
            ("please retry in 2 minutes", Some(120_000)),
            ("try again in 1 hour 5 min", Some(3_900_000)),
            ("try again in 450ms", Some(450)),
            (r#""retryDelay": "38s""#, Some(38_000)),
            ("retry_delay { seconds: 7 }", Some(7_000)),
            ("Retrying in 60s (attempt 1/10)", Some(60_000)),
            ("please wait 10 seconds", Some(10_000)),
            ("try again in 5s … try again in 9s", Some(9_000)),
            ("retry-after: 0", None),
            ("Retry-After: 1794722164095", None),
            ("Please try again later.", None),
            ("attempt 3 of 10", None),
        ];
        for (text, wait) in cases {
            assert_eq!(ms(text), wait, "{text}");
        }
    }

    #[test]
    fn a_failure_says_what_happened_why_and_what_to_do() {
        let known = AgentFacts {
            install: Some("npm install -g mine".into()),
            login: Some("mine login".into()),
            ..AgentFacts::default()
        };
        assert_eq!(
            explain("the agent ended with exit 1", "Not logged in", &known).message,
            "the agent is not logged in, or its key is not valid. Log in (mine login), then resume the session\nthe \
             agent ended with exit 1: Not logged in"
        );
        let limited = explain(
            "the turn failed",
            "429: try again in 20s",
            &AgentFacts::default(),
        );
        assert_eq!(
            (limited.message.as_str(), limited.retry_after),
            (
                "the turn failed: 429: try again in 20s",
                Some(TimeSpan::secs(20))
            )
        );
        assert_eq!(
            limited.limit.and_then(|limit| limit.resets_in),
            Some(TimeSpan::secs(20))
        );
        assert_eq!(
            explain("the turn failed", "  broken\n", &known),
            TurnFailure::new("the turn failed: broken")
        );
        assert_eq!(
            explain("the turn failed", "", &known),
            TurnFailure::new("the turn failed and gave no reason")
        );
        assert_eq!(
            not_installed("the agent was not found (exit 127)", "mine -p", "", &known).message,
            "the agent was not found (exit 127): the program of `mine -p` is not installed or not on PATH. Install it \
             (npm install -g mine), or change the agent in the config"
        );
    }

    #[test]
    fn the_line_that_says_why_comes_before_the_noise_around_it() {
        let text = "npm warn deprecated glob@7\n(node:4711) ExperimentalWarning: odd\nError: the model is unknown\n    at run (a.js:3:1)";
        let message = explain("the agent ended with exit 1", text, &AgentFacts::default()).message;
        assert_eq!(
            message,
            format!("the agent ended with exit 1: Error: the model is unknown (a.js:3:1)\n{text}")
        );
        let first = "Error: no\nmore of it";
        assert_eq!(
            explain("it failed", first, &AgentFacts::default()).message,
            format!("it failed: {first}")
        );
    }

    #[test]
    fn a_turn_that_took_too_long_names_the_errors_of_the_server() {
        let late = || TurnFailure::new("too late");
        let text = "request failed: 503 Service Unavailable, retrying\nstill here";
        let expected = "the model's server reported errors while the agent waited: request failed: 503 Service \
                        Unavailable, retrying\ntoo late";
        assert_eq!(after_server_errors(late(), text).message, expected);
        assert_eq!(
            after_server_errors(late(), "reading src/main.rs").message,
            "too late"
        );
    }

    #[test]
    fn words_are_taken_out_of_what_a_server_sent() {
        let sent = r#"[API Error: {"error":{"code":401,"message":"Wrong key","status":"UNAUTHENTICATED"}}]"#;
        assert_eq!(readable(sent), "Wrong key (401, UNAUTHENTICATED)");
        assert_eq!(readable(r#"{"message":"no"}"#), "no");
        assert_eq!(readable("[API Error: Unexpected end]"), "Unexpected end");
        for whole in [r#"{"error":"x"}"#, "[1]", "plain", "{torn"] {
            assert_eq!(readable(whole), whole);
        }
    }

    #[test]
    fn long_text_keeps_its_end() {
        let long: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let end = end_of(&long, 64);
        assert!(
            end.starts_with("… line 99") && end.ends_with("line 999") && end.len() < 70,
            "{end}"
        );
        assert_eq!(end_of(&"é".repeat(100), 11), format!("… {}", "é".repeat(5)));
    }

    proptest! {
        #[test]
        fn any_words_are_explained(text in ".*") {
            let failure = explain("it failed", &text, &AgentFacts::default());
            prop_assert!(failure.message.contains("it failed"));
        }
    }
}
