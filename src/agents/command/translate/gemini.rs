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
use crate::engine::conversation::{StopReason, ToolStatus, TurnUsage};

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
        self.end.spent.tokens = line.pointer("/stats/total_tokens").and_then(Value::as_u64);
    }
}

impl StreamTranslator for GeminiTranslator {
    fn line(&mut self, line: &Value, updates: &mut TranslatedOutput) -> Option<()> {
        match text(line, "/type")? {
            "init" => updates.opened(text(line, "/session_id")?),
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

/// After this many empty steps in a row, opencode would produce empty steps forever.
const EMPTY_STEPS: u32 = 10;

#[derive(Default)]
pub(in crate::agents::command) struct OpencodeTranslator {
    end: StreamEnd,
    /// How many of the last steps were empty.
    empty: u32,
}

impl OpencodeTranslator {
    fn step_finished(&mut self, part: &Value, updates: &mut TranslatedOutput) {
        let tokens = tokens(part);
        let spent = &mut self.end.spent;
        *spent = TurnUsage {
            tokens: Some(spent.tokens.unwrap_or(0).saturating_add(tokens)),
            cost: Some(spent.cost.unwrap_or(0.0) + part["cost"].as_f64().unwrap_or(0.0)),
        };
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
