//! The three questions of `creel init`.
//!
//! Owns the wording of the questions and the meaning of the answers. Does not write anything.

use std::io::{self, BufRead, IsTerminal as _, Write};

use crate::{
    cli::{
        error::{CliError, CliResult},
        init::{InitChoices, on_limit_name},
    },
    config::agents::KnownAgents,
    engine::policy::RetryLimitPolicy,
    present::text::plain,
    text::nearest,
};

/// Whether the user can answer.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for the agent, the check command and the action at the retry limit. Enter chooses the
/// default.
pub(super) fn ask(
    known: &KnownAgents,
    installed: &[&str],
    defaults: InitChoices,
) -> CliResult<InitChoices> {
    let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns.max(20)));
    let mut asking = InitPrompt {
        answers: io::stdin().lock(),
        screen: io::stderr(),
        width,
    };
    let agent = asking.agent(known, installed, defaults.agent);
    let checks = agent.and_then(|agent| Ok((agent, asking.checks(defaults.checks)?)));
    let all = checks.and_then(|(agent, checks)| {
        Ok(InitChoices {
            agent,
            checks,
            on_limit: asking.limit()?,
        })
    });
    all.map_err(|error| {
        CliError::failed(format!(
            "cannot read the answer: {error}; creel wrote nothing"
        ))
    })
}

struct InitPrompt<R, W> {
    answers: R,
    screen: W,
    /// In columns.
    width: usize,
}

impl<R: BufRead, W: Write> InitPrompt<R, W> {
    fn agent(
        &mut self,
        known: &KnownAgents,
        installed: &[&str],
        default: Option<String>,
    ) -> io::Result<Option<String>> {
        let there = if installed.is_empty() {
            "none".to_owned()
        } else {
            installed.join(", ")
        };
        self.say(&format!(
            "Which agent should do the work? Installed: {there}. `creel agents` lists all."
        ))?;
        loop {
            let answer = self.question(default.as_deref().unwrap_or("decide later"))?;
            if answer.is_empty() {
                return Ok(default);
            }
            if known.named(&answer).is_some() {
                return Ok(Some(answer));
            }
            let hint = nearest(&answer, known.names())
                .map(|near| format!(" Did you mean {near}?"))
                .unwrap_or_default();
            self.say(&format!(
                "creel does not know the agent {}.{hint}",
                plain(&answer)
            ))?;
        }
    }

    fn checks(&mut self, default: Vec<String>) -> io::Result<Vec<String>> {
        if default.is_empty() {
            self.say("creel found no tests here. Without a check, it cannot tell whether the work is done.")?;
        }
        self.say(
            "Which command checks the work after each turn? The agent gets the output of a failure. `none`: no check.",
        )?;
        let offered = if default.is_empty() {
            "none".to_owned()
        } else {
            default.join("; ")
        };
        let answer = self.question(&offered)?;
        Ok(match answer.as_str() {
            "" => default,
            "none" | "-" => Vec::new(),
            _ => vec![answer],
        })
    }

    fn limit(&mut self) -> io::Result<RetryLimitPolicy> {
        self.say(
            "What should happen when the check still fails after 5 retries and you are not there? complete: accept the \
             turn and continue; escalate: stop and wait for you; abort: end the session.",
        )?;
        let all = [
            RetryLimitPolicy::Complete,
            RetryLimitPolicy::Escalate,
            RetryLimitPolicy::Abort,
        ];
        loop {
            let answer = self.question(on_limit_name(RetryLimitPolicy::Complete))?;
            if answer.is_empty() {
                return Ok(RetryLimitPolicy::Complete);
            }
            // A prefix of the name is enough.
            if let Some(chosen) = all
                .into_iter()
                .find(|one| on_limit_name(*one).starts_with(&answer))
            {
                return Ok(chosen);
            }
            self.say("Answer complete, escalate or abort.")?;
        }
    }

    /// Prints a text whose lines end between words.
    fn say(&mut self, text: &str) -> io::Result<()> {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > self.width {
                writeln!(self.screen, "{line}")?;
                line.clear();
            }
            let space = if line.is_empty() { "" } else { " " };
            line = format!("{line}{space}{word}");
        }
        writeln!(self.screen, "{line}")
    }

    /// One line of an answer, trimmed. Empty for the default, also at the end of the input.
    fn question(&mut self, default: &str) -> io::Result<String> {
        write!(self.screen, "  [{}] ", plain(default))?;
        self.screen.flush()?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            writeln!(self.screen)?;
        }
        Ok(answer.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(answers: &str) -> (InitChoices, String) {
        let mut screen = Vec::new();
        let mut asking = InitPrompt {
            answers: answers.as_bytes(),
            screen: &mut screen,
            width: 60,
        };
        let (known, defaults) = (KnownAgents::built_in(), ["claude", "codex"]);
        let agent = asking
            .agent(&known, &defaults, Some("claude".into()))
            .expect("an answer");
        let checks = asking
            .checks(vec!["cargo test".into(), "cd web && npm test".into()])
            .expect("an answer");
        let on_limit = asking.limit().expect("an answer");
        (
            InitChoices {
                agent,
                checks,
                on_limit,
            },
            String::from_utf8(screen).expect("text"),
        )
    }

    fn choices(agent: &str, checks: &[&str], on_limit: RetryLimitPolicy) -> InitChoices {
        InitChoices {
            agent: Some(agent.into()),
            checks: checks.iter().map(|&check| check.to_owned()).collect(),
            on_limit,
        }
    }

    #[test]
    fn enter_takes_the_default_and_so_does_the_end_of_the_input() {
        let defaults = choices(
            "claude",
            &["cargo test", "cd web && npm test"],
            RetryLimitPolicy::Complete,
        );
        assert_eq!(asked("\n\n\n").0, defaults);
        assert_eq!(asked("").0, defaults);
    }

    #[test]
    fn answers_count_and_what_is_not_understood_is_asked_again() {
        let (given, screen) = asked("cluade\n codex \nmake check\nperhaps\nesc\n");
        assert_eq!(
            given,
            choices("codex", &["make check"], RetryLimitPolicy::Escalate)
        );
        assert!(
            screen.contains("does not know the agent cluade. Did you mean claude?"),
            "{screen}"
        );
        assert!(
            screen.contains("Answer complete, escalate or abort."),
            "{screen}"
        );
        assert!(
            screen.contains("after each turn? The agent\ngets the output"),
            "lines end between words: {screen}"
        );
        assert_eq!(
            asked("\nnone\na\n").0,
            choices("claude", &[], RetryLimitPolicy::Abort)
        );
    }
}
