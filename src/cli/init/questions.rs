//! The three questions of `creel init`.
//!
//! Owns the wording of the questions and the meaning of the answers. Does not write anything.

use std::io::{self, BufRead, IsTerminal as _, Write};

use crate::{
    cli::{
        error::{CliError, CliResult},
        init::{InitChoices, config_text::on_limit_name},
    },
    config::known_agents::KnownAgents,
    engine::{nearest_name::nearest, policy::RetryLimitPolicy},
    present::text::plain,
};

/// Whether the user can answer.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for the agent, the check command and the action at the retry limit. Enter chooses the default.
pub(super) fn ask(known: &KnownAgents, installed: &[&str], defaults: InitChoices) -> CliResult<InitChoices> {
    let mut asking = InitPrompt { answers: io::stdin().lock(), screen: io::stderr() };
    let agent = asking.agent(known, installed, defaults.agent);
    let check = agent.and_then(|agent| Ok((agent, asking.check(defaults.check)?)));
    let all = check.and_then(|(agent, check)| Ok(InitChoices { agent, check, on_limit: asking.limit()? }));
    all.map_err(|error| CliError::failed(format!("cannot read the answer: {error}; creel wrote nothing")))
}

struct InitPrompt<R, W> {
    answers: R,
    screen: W,
}

impl<R: BufRead, W: Write> InitPrompt<R, W> {
    fn agent(
        &mut self,
        known: &KnownAgents,
        installed: &[&str],
        default: Option<String>,
    ) -> io::Result<Option<String>> {
        let there = if installed.is_empty() { "none".to_owned() } else { installed.join(", ") };
        self.say(&format!("Which agent should do the work? Installed: {there}. `creel agents` lists all."))?;
        loop {
            let answer = self.question(default.as_deref().unwrap_or("decide later"))?;
            if answer.is_empty() {
                return Ok(default);
            }
            if known.named(&answer).is_some() {
                return Ok(Some(answer));
            }
            let hint = nearest(&answer, known.names()).map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
            self.say(&format!("creel does not know the agent {}.{hint}", plain(&answer)))?;
        }
    }

    fn check(&mut self, default: Option<String>) -> io::Result<Option<String>> {
        self.say(
            "Which command checks the work after each turn? The agent gets the output of a failure. `none`: no check.",
        )?;
        let answer = self.question(default.as_deref().unwrap_or("none"))?;
        Ok(match answer.as_str() {
            "" => default,
            "none" | "-" => None,
            _ => Some(answer),
        })
    }

    fn limit(&mut self) -> io::Result<RetryLimitPolicy> {
        self.say(
            "What should happen when the check still fails after 5 retries and you are not there? complete: accept the \
             turn and continue; escalate: stop and wait for you; abort: end the session.",
        )?;
        let all = [RetryLimitPolicy::Complete, RetryLimitPolicy::Escalate, RetryLimitPolicy::Abort];
        loop {
            let answer = self.question(on_limit_name(RetryLimitPolicy::Complete))?;
            if answer.is_empty() {
                return Ok(RetryLimitPolicy::Complete);
            }
            // A prefix of the name is enough.
            if let Some(chosen) = all.into_iter().find(|one| on_limit_name(*one).starts_with(&answer)) {
                return Ok(chosen);
            }
            self.say("Answer complete, escalate or abort.")?;
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.screen, "{text}")
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
        let mut asking = InitPrompt { answers: answers.as_bytes(), screen: &mut screen };
        let (known, defaults) = (KnownAgents::built_in(), ["claude", "codex"]);
        let agent = asking.agent(&known, &defaults, Some("claude".into())).expect("an answer");
        let check = asking.check(Some("cargo test".into())).expect("an answer");
        let on_limit = asking.limit().expect("an answer");
        (InitChoices { agent, check, on_limit }, String::from_utf8(screen).expect("text"))
    }

    fn choices(agent: &str, check: Option<&str>, on_limit: RetryLimitPolicy) -> InitChoices {
        InitChoices { agent: Some(agent.into()), check: check.map(str::to_owned), on_limit }
    }

    #[test]
    fn enter_takes_the_default_and_so_does_the_end_of_the_input() {
        let defaults = choices("claude", Some("cargo test"), RetryLimitPolicy::Complete);
        assert_eq!(asked("\n\n\n").0, defaults);
        assert_eq!(asked("").0, defaults);
    }

    #[test]
    fn answers_count_and_what_is_not_understood_is_asked_again() {
        let (given, screen) = asked("cluade\n codex \nmake check\nperhaps\nesc\n");
        assert_eq!(given, choices("codex", Some("make check"), RetryLimitPolicy::Escalate));
        assert!(screen.contains("does not know the agent cluade. Did you mean claude?"), "{screen}");
        assert!(screen.contains("Answer complete, escalate or abort."), "{screen}");
        assert_eq!(asked("\nnone\na\n").0, choices("claude", None, RetryLimitPolicy::Abort));
    }
}
