//! The output of a command agent, in every format.

use std::sync::LazyLock;

use creel::{
    agents::{
        AgentHistory, AgentObserver, AgentWorkspace, BoxFuture, PermissionRequest,
        command::CommandAgent,
    },
    engine::{
        conversation::AgentUpdate,
        policy::{AgentFacts, AgentSpec, OutputFormat},
        time::TimeSpan,
    },
    process::run::ProcessGroup,
};

use super::{FOLDER, block_on, class};

const FORMATS: [OutputFormat; 5] = [
    OutputFormat::Text,
    OutputFormat::Claude,
    OutputFormat::Codex,
    OutputFormat::Gemini,
    OutputFormat::Opencode,
];

/// Splitting the output anywhere makes no difference. Text has no escape sequences, and is not
/// longer than the output.
pub fn run(input: &[u8]) -> String {
    // Compiling their patterns takes longer than reading an input.
    static AGENTS: LazyLock<[(OutputFormat, CommandAgent); 5]> =
        LazyLock::new(|| FORMATS.map(|it| (it, agent(it))));
    let classes = AGENTS.each_ref().map(|(format, agent)| {
        let (whole, ended) = read(agent, &[input]);
        // A carriage return deletes the line so far, unless creel has already passed it on.
        if !input.contains(&b'\r') {
            let (one, two) = input.split_at(input.len() / 2);
            let (cut, ended_cut) = read(agent, &[one, two]);
            assert_eq!(
                (&whole, &ended),
                (&cut, &ended_cut),
                "{format:?}: the cut changes the meaning"
            );
        }
        let length: usize = whole.iter().filter_map(said).map(str::len).sum();
        // An incomplete character becomes a replacement character of three bytes.
        assert!(
            length <= 3 * input.len() + 4,
            "{format:?}: {length} bytes are said of {}",
            input.len()
        );
        if *format == OutputFormat::Text {
            let clean = whole
                .iter()
                .filter_map(said)
                .all(|text| !text.contains('\u{1b}'));
            assert!(clean, "an escape sequence is left in the text");
        }
        let kinds = whole
            .iter()
            .take(3)
            .map(|update| class(&format!("{update:?}")))
            .collect::<Vec<_>>();
        format!("{} {}", class(&ended), kinds.join(" "))
    });
    classes.join(" · ")
}

fn said(update: &AgentUpdate) -> Option<&str> {
    if let AgentUpdate::Message(text) = update {
        Some(text)
    } else {
        None
    }
}

fn agent(format: OutputFormat) -> CommandAgent {
    let known = AgentFacts {
        error_pattern: Some("(?i)^error: .*".into()),
        ..AgentFacts::default()
    };
    let spec = AgentSpec::Command {
        command: "agent".into(),
        continue_command: None,
        format,
        tty: false,
        known,
    };
    let place = AgentWorkspace {
        cwd: FOLDER.path().into(),
        session: "s".into(),
        session_dir: FOLDER.path().into(),
        mark: "m".into(),
        guard: std::sync::Arc::default(),
        goal: String::new(),
        creel: None,
        variables: None,
        has_tool_hooks: false,
        prices: None,
    };
    CommandAgent::new(&spec, place, AgentHistory::default()).expect("the command is plain")
}

/// The updates, with adjacent text joined, and how the turn ends.
fn read(agent: &CommandAgent, pieces: &[&[u8]]) -> (Vec<AgentUpdate>, String) {
    let mut heard = Heard::default();
    let ended = block_on(agent.read_output(pieces, &mut heard)).map_err(|mut failure| {
        // The wait until a time of day shrinks while the test runs.
        if let Some(limit) = &mut failure.limit {
            limit.resets_in = limit.resets_in.map(|_| TimeSpan::default());
        }
        failure
    });
    (heard.0, format!("{ended:?}"))
}

#[derive(Default)]
struct Heard(Vec<AgentUpdate>);

impl AgentObserver for Heard {
    fn update(&mut self, update: AgentUpdate) -> BoxFuture<'_, ()> {
        match (self.0.last_mut(), update) {
            (Some(AgentUpdate::Message(before)), AgentUpdate::Message(text)) => {
                before.push_str(&text);
            }
            (_, update) => self.0.push(update),
        }
        Box::pin(std::future::ready(()))
    }

    fn permission(&mut self, _: PermissionRequest) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn process(&mut self, _: ProcessGroup) {}
}
