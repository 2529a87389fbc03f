//! Translates the output of Claude Code: `claude -p --output-format stream-json --verbose`. Qwen
//! Code uses the same format.
//!
//! The stream has one line per block of a message, and a `result` at the end. With
//! `--include-partial-messages` each block comes in chunks first, and then whole.
//!
//! # Invariants
//! - Text that came in chunks, and the result that repeats the last message, is forwarded once.
//! - Text of a subagent is not part of the answer: a promise in it is not the agent's.

use serde_json::Value;

use super::ToolCallEnd;
use super::{
    ReportedUsage, StreamEnd, StreamOutcome, StreamTranslator, TranslatedOutput, list, number, sum,
    text, tools,
};
use crate::{
    agents::token_counts::TokenCounts,
    engine::{
        conversation::{ContextUsage, StopReason, TokenKinds, ToolStatus, TurnUsage},
        time::TimeSpan,
    },
};

pub(in crate::agents::command) struct ClaudeTranslator {
    before: Option<ReportedUsage>,
    end: StreamEnd,
    /// How many bytes of the current block came in chunks.
    streamed: usize,
    /// Text that is an error if the result says so.
    suspect: Option<String>,
    /// The tokens of the last request.
    context: u64,
    /// The tokens of all messages, if the stream contains them.
    of_messages: u64,
    /// The same by kind. None if a message does not say.
    kinds_of_messages: Option<TokenKinds>,
}

impl ClaudeTranslator {
    pub(in crate::agents::command) fn new(before: Option<ReportedUsage>) -> Self {
        Self {
            before,
            end: StreamEnd::default(),
            streamed: 0,
            suspect: None,
            context: 0,
            of_messages: 0,
            kinds_of_messages: Some(TokenKinds::default()),
        }
    }

    fn system(line: &Value, updates: &mut TranslatedOutput) {
        let (count, attempt, most, wait) = match text(line, "/subtype") {
            Some("init") => return updates.model(text(line, "/model")),
            Some("api_retry") => ("", "/attempt", "/max_retries", "/retry_delay_ms"),
            Some("retry") => ("/data", "/attempt", "/maxRetries", "/delayMs"),
            _ => return,
        };
        // It would try for minutes with a key that is refused.
        if text(line, "/error") == Some("authentication_failed") {
            updates.give_up("authentication failed: its server refuses the login or the key");
        }
        let number = |key: &str| number(line, &format!("{count}{key}"));
        let why = text(line, "/error")
            .map(|error| format!(" ({error})"))
            .unwrap_or_default();
        let wait = TimeSpan(number(wait));
        updates.note(
            "retry",
            &format!(
                "attempt {} of {} failed{why}. Next attempt in {wait}",
                number(attempt),
                number(most)
            ),
        );
    }

    fn assistant(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        let message = line.get("message")?;
        let is_own = is_own(line);
        let is_error = line["is_api_error_message"] == true
            || line.get("error").is_some_and(|error| !error.is_null())
            || text(message, "/model") == Some("<synthetic>");
        for block in list(message, "/content") {
            match text(block, "/type") {
                Some("text") => match text(block, "/text").unwrap_or_default() {
                    words if !is_own => updates.think(words),
                    words if is_error || is_api_error(words) => {
                        self.suspect = Some(words.to_owned());
                    }
                    words => self.say(words, updates),
                },
                Some("thinking") => updates.think(text(block, "/thinking").unwrap_or_default()),
                Some("tool_use" | "server_tool_use") => use_tool(block, updates),
                _ => {}
            }
        }
        let usage = &message["usage"];
        if let Some(tokens) = usage["total_tokens"].as_u64() {
            self.of_messages = self.of_messages.saturating_add(tokens);
            let kinds = self.kinds_of_messages.zip(kinds(usage));
            self.kinds_of_messages = kinds.map(|(before, more)| before.plus(more));
        }
        if is_own && !is_error && usage.is_object() {
            self.context = counted(usage);
        }
        Some(())
    }

    fn say(&mut self, words: &str, updates: &mut TranslatedOutput) {
        match std::mem::take(&mut self.streamed) {
            0 => updates.message(words),
            streamed => {
                updates.say(words.get(streamed..).unwrap_or_default());
                updates.end_message();
            }
        }
    }

    /// A chunk of a block. Skips thoughts and text of subagents, which also come whole later.
    fn piece(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        let event = line.get("event")?;
        if !is_own(line) {
            return Some(());
        }
        match text(event, "/type")? {
            "message_start" | "content_block_start" => {
                self.streamed = 0;
                updates.end_message();
            }
            "content_block_delta" => {
                let words = text(event, "/delta/text").unwrap_or_default();
                self.streamed += words.len();
                updates.say(words);
            }
            _ => {}
        }
        Some(())
    }

    fn result(&mut self, line: &Value, updates: &mut TranslatedOutput) {
        self.count(line, updates);
        let subtype = text(line, "/subtype").unwrap_or_default();
        let words = text(line, "/result").filter(|words| !words.is_empty());
        // Rely on `is_error`: Claude reports a server error with the subtype "success".
        self.end.verdict = if subtype == "error_max_turns" {
            StreamOutcome::Ended(StopReason::MaxTurnRequests)
        } else if line["is_error"] == true || subtype.starts_with("error") {
            StreamOutcome::Failed(self.error(line, words, subtype))
        } else {
            let suspect = self.suspect.take();
            if let Some(words) = suspect.as_deref().or(words).filter(|_| !updates.has_text()) {
                updates.message(words);
            }
            StreamOutcome::Ended(stop_reason(text(line, "/stop_reason")))
        };
        warn_of_denials(line, updates);
    }

    fn error(&mut self, line: &Value, result: Option<&str>, subtype: &str) -> String {
        let errors: Vec<&str> = list(line, "/errors").filter_map(Value::as_str).collect();
        let errors = (!errors.is_empty()).then(|| errors.join("; "));
        let words = result
            .or_else(|| text(line, "/error/message"))
            .map(str::to_owned);
        let words = words
            .or(errors)
            .or_else(|| self.suspect.take())
            .unwrap_or_else(|| subtype.to_owned());
        match number(line, "/api_error_status") {
            status @ 400..600 if !words.contains(&status.to_string()) => {
                format!("{words} (status {status})")
            }
            _ => words,
        }
    }

    fn count(&mut self, line: &Value, updates: &mut TranslatedOutput) {
        let models: Vec<&Value> = line
            .get("modelUsage")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|models| models.values())
            .collect();
        // Qwen Code counts the whole conversation again each time it is resumed, but its counts per
        // message are right.
        let (tokens, kinds) = if self.of_messages > 0 {
            (self.of_messages, self.kinds_of_messages)
        } else {
            (counted(&line["usage"]), kinds(&line["usage"]))
        };
        let cost = line["total_cost_usd"].as_f64();
        self.end.spent = TurnUsage {
            tokens: (!line["usage"].is_null()).then_some(tokens),
            cost,
            token_kinds: kinds.filter(|kinds| kinds.total() == tokens),
            cost_estimated: None,
        };
        if let Some(total) = cost.filter(|_| !models.is_empty()) {
            let counts = [
                "inputTokens",
                "outputTokens",
                "cacheReadInputTokens",
                "cacheCreationInputTokens",
            ];
            let of_model =
                |model: &&Value| sum(counts.iter().map(|key| model[*key].as_u64().unwrap_or(0)));
            let tally = ReportedUsage {
                tokens: sum(models.iter().map(of_model)),
                cost: total,
                ..ReportedUsage::default()
            };
            self.end.spent.cost = cost_of_turn(tokens, tally, self.before);
            self.end.tally = Some(tally);
        }
        let size = models
            .iter()
            .filter_map(|model| model["contextWindow"].as_u64())
            .max();
        if let Some(size) = size.filter(|size| *size > 0 && self.context > 0) {
            updates.used(ContextUsage {
                used: self.context,
                size,
            });
        }
    }
}

impl StreamTranslator for ClaudeTranslator {
    fn line(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        let kind = text(line, "/type")?;
        if let Some(name) = text(line, "/session_id") {
            updates.opened(name);
        }
        match kind {
            "system" => Self::system(line, updates),
            "assistant" => self.assistant(line, updates)?,
            "user" => answer_tools(line, updates),
            "stream_event" => self.piece(line, updates)?,
            "result" => self.result(line, updates),
            _ => return None,
        }
        Some(())
    }

    fn end(self: Box<Self>) -> StreamEnd {
        let complaint = self.suspect.or(self.end.complaint);
        StreamEnd {
            complaint,
            ..self.end
        }
    }
}

/// Whether a line is from the agent itself, not from a subagent.
fn is_own(line: &Value) -> bool {
    line.get("parent_tool_use_id").is_none_or(Value::is_null)
}

/// Qwen Code sends an error as an ordinary message first.
fn is_api_error(words: &str) -> bool {
    words.starts_with("[API Error: ") && words.ends_with(']')
}

fn use_tool(block: &Value, updates: &mut TranslatedOutput) {
    let (Some(id), Some(name)) = (text(block, "/id"), text(block, "/name")) else {
        return;
    };
    let input = &block["input"];
    updates.began(tools::call(id, name, input));
    if let Some(plan) = tools::plan(input) {
        updates.planned(plan);
    }
}

fn answer_tools(line: &Value, updates: &mut TranslatedOutput) {
    for block in list(line, "/message/content") {
        if let (Some("tool_result"), Some(id)) = (text(block, "/type"), text(block, "/tool_use_id"))
        {
            let status = if block["is_error"] == true {
                ToolStatus::Failed
            } else {
                ToolStatus::Completed
            };
            let diff = patch(&line["tool_use_result"]);
            updates.ended(
                id,
                ToolCallEnd {
                    status,
                    output: printed(&block["content"]),
                    diff,
                },
            );
        }
    }
}

/// Accepts text, or blocks of text.
fn printed(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let blocks = content
        .as_array()?
        .iter()
        .map(|block| match text(block, "/text") {
            Some(words) => words.to_owned(),
            None => format!("[{}]", text(block, "/type").unwrap_or("something")),
        });
    Some(blocks.collect::<Vec<_>>().join("\n"))
}

/// The diff of an edit, with its context lines.
fn patch(result: &Value) -> Option<String> {
    let path = text(result, "/filePath")?;
    let hunk = |hunk: &Value| {
        let at = |side: &str| {
            format!(
                "{},{}",
                hunk[format!("{side}Start")],
                hunk[format!("{side}Lines")]
            )
        };
        let lines = list(hunk, "/lines")
            .filter_map(Value::as_str)
            .map(|line| format!("{line}\n"));
        format!(
            "@@ -{} +{} @@\n{}",
            at("old"),
            at("new"),
            lines.collect::<String>()
        )
    };
    let hunks: String = list(result, "/structuredPatch").map(hunk).collect();
    (!hunks.is_empty()).then(|| format!("--- {path}\n+++ {path}\n{hunks}"))
}

fn kinds(usage: &Value) -> Option<TokenKinds> {
    let count = |key: &str| usage[key].as_u64();
    let (input, output) = (count("input_tokens")?, count("output_tokens")?);
    let cache_read = count("cache_read_input_tokens");
    let cache_write = count("cache_creation_input_tokens");
    let Some(total) = count("total_tokens") else {
        return Some(TokenKinds {
            input,
            output,
            cache_read: cache_read.unwrap_or(0),
            cache_write: cache_write.unwrap_or(0),
        });
    };
    let counts = TokenCounts {
        total,
        input,
        output,
        cache_read,
        cache_write,
        thoughts: None,
    };
    counts.kinds()
}

fn counted(usage: &Value) -> u64 {
    // Some forks send the sum, in which cached tokens are part of the input.
    if let Some(total) = usage.get("total_tokens").and_then(Value::as_u64) {
        return total;
    }
    let keys = [
        "/input_tokens",
        "/cache_creation_input_tokens",
        "/cache_read_input_tokens",
        "/output_tokens",
    ];
    sum(keys.iter().map(|key| number(usage, key)))
}

/// The cost of this turn. A resumed conversation continues the count, unless the program was used
/// for another one in between. The token counts, which are also known per turn, show which case it
/// is.
fn cost_of_turn(tokens: u64, now: ReportedUsage, before: Option<ReportedUsage>) -> Option<f64> {
    match before {
        Some(before) if now.tokens >= before.tokens.saturating_add(tokens) => {
            Some((now.cost - before.cost).max(0.0))
        }
        Some(_) => Some(now.cost),
        None => (now.tokens <= tokens).then_some(now.cost),
    }
}

fn stop_reason(reason: Option<&str>) -> StopReason {
    match reason {
        Some("max_tokens") => StopReason::MaxTokens,
        Some("refusal") => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}

/// When unattended, such an agent denies permissions by itself, and its result is often incomplete.
fn warn_of_denials(line: &Value, updates: &mut TranslatedOutput) {
    let mut tools: Vec<&str> = list(line, "/permission_denials")
        .filter_map(|denial| text(denial, "/tool_name"))
        .collect();
    tools.sort_unstable();
    tools.dedup();
    if !tools.is_empty() {
        updates.warn(&format!(
            "the agent has no permission to use {}. Allow it in the agent's own settings, or with an option of its \
             command",
            tools.join(", ")
        ));
    }
}
