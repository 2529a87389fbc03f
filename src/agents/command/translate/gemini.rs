//! Translates the output of Gemini CLI (`gemini --output-format stream-json`) and of opencode
//! (`opencode run --format json`).
//!
//! Gemini's stream has text in chunks, tool calls with their results, and a `result` at the end. It
//! contains no thoughts and no costs.
//!
//! opencode's stream is a list of steps, each with whole texts, finished tool calls and usage.
//! There is no last line: the reason of the last step says how it ended.

use serde_json::Value;

use super::{
    StreamEnd, StreamOutcome, StreamTranslator, ToolCallEnd, TranslatedOutput, number, sum, text,
    tools,
};
use crate::{
    agents::token_counts::TokenCounts,
    engine::conversation::{StopReason, TokenKinds, ToolStatus, TurnUsage},
};

#[derive(Default)]
pub(in crate::agents::command) struct GeminiTranslator {
    end: StreamEnd,
}

impl GeminiTranslator {
    fn message(line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        // Gemini repeats the prompt, which is not part of the answer.
        if text(line, "/role")? == "assistant" {
            let words = text(line, "/content")?;
            if line["delta"] == true {
                updates.say(words);
            } else {
                updates.message(words);
            }
        }
        Some(())
    }

    fn error(&mut self, line: &Value, updates: &mut TranslatedOutput) {
        let words = text(line, "/message").unwrap_or("it gave no reason");
        match text(line, "/severity") {
            Some("error") => self.end.complaint = Some(words.to_owned()),
            _ => updates.quote(words),
        }
    }

    fn result(&mut self, line: &Value) {
        let failed = text(line, "/status") == Some("error");
        self.end.verdict = if failed {
            let words = text(line, "/error/message")
                .or(self.end.complaint.as_deref())
                .unwrap_or("it gave no reason");
            StreamOutcome::Failed(words.to_owned())
        } else {
            StreamOutcome::Ended(StopReason::EndTurn)
        };
        let stats = &line["stats"];
        self.end.spent.tokens = stats["total_tokens"].as_u64();
        self.end.spent.token_kinds = gemini_kinds(stats);
    }
}

impl StreamTranslator for GeminiTranslator {
    fn line(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        match text(line, "/type")? {
            "init" => {
                updates.opened(text(line, "/session_id")?);
                updates.model(text(line, "/model"));
            }
            "message" => Self::message(line, updates)?,
            "tool_use" => {
                let input = &line["parameters"];
                updates.began(tools::call(
                    text(line, "/tool_id")?,
                    text(line, "/tool_name")?,
                    input,
                ));
                if let Some(plan) = tools::plan(input) {
                    updates.planned(plan);
                }
            }
            "tool_result" => {
                let failed = text(line, "/status") == Some("error");
                let status = if failed {
                    ToolStatus::Failed
                } else {
                    ToolStatus::Completed
                };
                let output = text(line, "/output")
                    .or_else(|| text(line, "/error/message"))
                    .map(str::to_owned);
                updates.ended(
                    text(line, "/tool_id")?,
                    ToolCallEnd {
                        status,
                        output,
                        diff: None,
                    },
                );
            }
            "error" => self.error(line, updates),
            "result" => self.result(line),
            _ => return None,
        }
        Some(())
    }

    fn end(self: Box<Self>) -> StreamEnd {
        self.end
    }
}

/// Cached tokens are a part of the input. Thoughts are only a part of the total, and cost as much as
/// output.
fn gemini_kinds(stats: &Value) -> Option<TokenKinds> {
    let count = |key: &str| stats[key].as_u64();
    let (input, cache_read) = (count("input_tokens")?, count("cached")?);
    let output = count("total_tokens")?.checked_sub(input)?;
    Some(TokenKinds {
        input: input.checked_sub(cache_read)?,
        output,
        cache_read,
        cache_write: 0,
    })
    .filter(|_| count("output_tokens").is_some_and(|answer| answer <= output))
}

/// After this many empty steps in a row, opencode would produce empty steps forever.
const EMPTY_STEPS: u32 = 10;

#[derive(Default)]
pub(in crate::agents::command) struct OpencodeTranslator {
    end: StreamEnd,
    /// How many of the last steps were empty.
    empty: u32,
    /// What all steps so far used.
    counted: Option<TurnUsage>,
}

impl OpencodeTranslator {
    fn step_finished(&mut self, part: &Value, updates: &mut TranslatedOutput) {
        let tokens = tokens(part);
        // A sum that lacks a step is not known.
        let before = self.counted.unwrap_or(TurnUsage {
            tokens: Some(0),
            cost: Some(0.0),
            token_kinds: Some(TokenKinds::default()),
            cost_estimated: None,
        });
        let spent = TurnUsage {
            tokens: before.tokens.map(|before| before.saturating_add(tokens)),
            cost: before
                .cost
                .zip(part["cost"].as_f64())
                .map(|(one, other)| one + other),
            token_kinds: before
                .token_kinds
                .zip(opencode_kinds(part, tokens))
                .map(|(one, other)| one.plus(other)),
            cost_estimated: None,
        };
        self.counted = Some(spent);
        self.end.spent = spent;
        self.end.verdict = match text(part, "/reason") {
            Some("stop") => StreamOutcome::Ended(StopReason::EndTurn),
            Some("length") => StreamOutcome::Ended(StopReason::MaxTokens),
            Some("content-filter") => StreamOutcome::Ended(StopReason::Refusal),
            _ => StreamOutcome::Unsaid,
        };
        self.empty = if tokens == 0 { self.empty + 1 } else { 0 };
        if self.empty >= EMPTY_STEPS {
            updates.give_up(
                "its server keeps sending empty answers. Check the server address and the model",
            );
        }
    }

    fn tool(&mut self, part: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        self.empty = 0;
        let state = part.get("state")?;
        let input = &state["input"];
        let mut call = tools::call(text(part, "/callID")?, text(part, "/tool")?, input);
        if call.diff.is_none() {
            call.diff = text(state, "/metadata/diff").map(str::to_owned);
        }
        // opencode reports a failed command as a completed tool, so check the exit code.
        let exit = state
            .pointer("/metadata/exit")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let failed = text(state, "/status") == Some("error") || exit != 0;
        let status = if failed {
            ToolStatus::Failed
        } else {
            ToolStatus::Completed
        };
        let output = text(state, "/output")
            .or_else(|| text(state, "/error"))
            .map(str::to_owned);
        updates.happened(
            call,
            ToolCallEnd {
                status,
                output,
                diff: None,
            },
        );
        if let Some(plan) = tools::plan(input) {
            updates.planned(plan);
        }
        Some(())
    }

    fn error(&mut self, error: &Value) {
        let name = text(error, "/name").unwrap_or("an error");
        let mut words = text(error, "/data/message")
            .map_or_else(|| name.to_owned(), |words| format!("{name}: {words}"));
        if let Some(status) = error.pointer("/data/statusCode").and_then(Value::as_u64) {
            words += &format!(" (status {status})");
        }
        if let Some(wait) = text(error, "/data/responseHeaders/retry-after") {
            words += &format!(" (retry-after: {wait})");
        }
        self.end.verdict = StreamOutcome::Failed(words.clone());
        self.end.complaint = Some(words);
    }
}

impl StreamTranslator for OpencodeTranslator {
    fn line(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        let kind = text(line, "/type")?;
        if let Some(name) = text(line, "/sessionID") {
            updates.opened(name);
        }
        match kind {
            "step_start" => {}
            "text" => {
                self.empty = 0;
                updates.message(text(line, "/part/text")?);
            }
            "reasoning" => updates.think(text(line, "/part/text")?),
            "tool_use" => self.tool(line.get("part")?, updates)?,
            "step_finish" => self.step_finished(line.get("part")?, updates),
            "error" => self.error(line.get("error")?),
            _ => return None,
        }
        Some(())
    }

    fn end(self: Box<Self>) -> StreamEnd {
        self.end
    }
}

fn opencode_kinds(part: &Value, total: u64) -> Option<TokenKinds> {
    let count = |key: &str| {
        part.pointer(&format!("/tokens{key}"))
            .and_then(Value::as_u64)
    };
    let counts = TokenCounts {
        total,
        input: count("/input")?,
        output: count("/output")?,
        cache_read: Some(count("/cache/read").unwrap_or(0)),
        cache_write: count("/cache/write"),
        thoughts: count("/reasoning"),
    };
    counts.kinds()
}

fn tokens(part: &Value) -> u64 {
    if let Some(total) = part.pointer("/tokens/total").and_then(Value::as_u64) {
        return total;
    }
    let keys = [
        "/input",
        "/output",
        "/reasoning",
        "/cache/read",
        "/cache/write",
    ];
    sum(keys
        .iter()
        .map(|key| number(part, &format!("/tokens{key}"))))
}
