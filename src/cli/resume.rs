//! `creel resume`: prepares a session that stopped or was killed for going on.

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, DetachArgs, OutputArgs, iteration_count, session_name},
        error::{CliError, CliResult, say},
        gate,
        launch::{
            readiness,
            session_end::ExitCodeSource,
            shared_folder::{FolderRequest, FolderUse},
            surface::{self, SessionSurface},
            trust_prompt::{self, TrustFlag},
            worktree,
        },
        target::{self, Project, given, remote_sessions::on_command_line},
        verb_outcome::{ResumedSession, SweepScope, VerbOutcome},
    },
    config::Settings,
    engine::{
        event::UserPresence, gate::kind::GateChoice, input::Input, session::event::ResumeAnswer,
    },
    journal::{self, Journal, SessionDir, SessionsDir},
    present::usage,
    protocol::process_origin,
    runtime::clock,
};

/// Which session to go on with.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The session. Default: the latest one that can be resumed.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// A new limit of iterations.
    #[arg(short = 'n', long, value_name = "N", value_parser = iteration_count, allow_negative_numbers = true)]
    pub max_iterations: Option<u32>,
    /// Send the agent this checkpoint; `creel checkpoint list` shows them.
    #[arg(long, value_name = "N")]
    pub checkpoint: Option<u32>,
    /// Answer the gate at which the session stopped; TEXT is the message for `send`.
    #[arg(long, num_args = 1..=2, value_names = ["CHOICE", "TEXT"], conflicts_with = "checkpoint")]
    pub answer: Vec<String>,
    /// Resume even if another session works in this folder: both agents change the same files.
    #[arg(long)]
    pub force: bool,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Publish records to this NATS server, and receive commands from it. Default: `nats:` of the
    /// config.
    #[arg(long = "nats", value_name = "URL")]
    pub nats: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether to show it.
    #[command(flatten)]
    pub detach: DetachArgs,
    /// Trust the session's hooks and agent, and remember this.
    #[arg(long)]
    pub trust: bool,
}

impl ResumeArgs {
    fn answer(&self) -> CliResult<Option<ResumeAnswer>> {
        let Some(word) = self.answer.first() else {
            return Ok(None);
        };
        if process_origin::of_this_process().is_some() {
            let why =
                "agents and hooks cannot answer gates; run `creel resume` in your own terminal";
            return Err(CliError::failed(why));
        }
        let choice = gate::choice(word)
            .map_err(|error| CliError::usage(format!("`--answer {word}`: {error}")))?;
        let text = self.answer.get(1).map(|text| given(text)).transpose()?;
        Ok(Some(ResumeAnswer { choice, text }))
    }
}

pub(super) fn resume(args: &ResumeArgs) -> CliResult<VerbOutcome> {
    let (root, sessions) = target::sessions_of(&args.config)?;
    let folder = match &args.session {
        Some(name) => sessions.folder(name),
        None => latest_unfinished(&sessions, args.max_iterations)?,
    };
    if !folder.exists() {
        return Err(target::missing(&folder));
    }
    let answer = args.answer()?;
    let opened = Journal::open(&folder)?;
    let began = &opened.state.began;
    let is_settled = args.force || args.detach.background || began.worktree.is_some();
    let cwd = if is_settled {
        root.clone()
    } else {
        worktree::folder_of(&folder, began)?
    };
    let place = FolderRequest {
        cwd: &cwd,
        sessions: &sessions,
        resumed: Some(&folder.name),
    };
    let folder_use = if is_settled {
        FolderUse::Shared
    } else {
        place.decide(args.output)?
    };
    trust_prompt::require_session(&root, &began.plan, TrustFlag::given(args.trust))?;
    let turn = if folder_use == FolderUse::Alone {
        place.claim()?
    } else {
        None
    };
    if args.detach.detach && !args.detach.background {
        // Unlocks the journal for the process in the background.
        drop(opened);
        let named: &[&str] = if args.session.is_some() {
            &[]
        } else {
            &[&folder.name]
        };
        let text = answer.and_then(|answer| answer.text).unwrap_or_default();
        return surface::start_detached(&folder, named, &text).map(VerbOutcome::Done);
    }
    let root = worktree::folder_of(&folder, began)?;
    let project = Project::load(&args.config).ok();
    let ui = project
        .as_ref()
        .map_or_else(|| Settings::default().ui, |project| project.settings.ui);
    let mut servers = project.map(Project::trusted_servers).unwrap_or_default();
    servers.nats = on_command_line(args.nats.as_deref(), servers.nats)?;
    let surface = SessionSurface::chosen(args.output, args.detach, ui);
    let input = Input::Resume {
        presence: surface.presence(),
        max_iterations: args.max_iterations,
        checkpoint: args.checkpoint,
        answer: answer.clone(),
    };
    if began.only_pipeline.is_none() {
        readiness::require_agent(&root, &began.plan, readiness::RESUME_LATER)?;
        let disables = answer.is_some_and(|answer| answer.choice == GateChoice::Disable);
        let asked = opened
            .state
            .ending
            .as_ref()
            .and_then(|ending| ending.asked.as_ref())
            .filter(|_| disables);
        let hook = asked.and_then(|asked| asked.gate.subject.hook());
        let checks = readiness::checks_of_session(&opened.state);
        let checks = checks.filter(|check| Some(check.name.as_str()) != hook);
        readiness::require_checks(&root, checks, readiness::ANOTHER_CHECK_LATER)?;
    }
    let hold = opened
        .state
        .limits
        .hold
        .as_ref()
        .filter(|hold| !hold.waits_for_user);
    if let Some(hold) = hold.filter(|_| surface.presence() == UserPresence::Unattended) {
        say(&format!(
            "creel: {}",
            usage::waiting(hold, clock::wall_clock())
        ));
    }
    let exit_code = began
        .only_pipeline
        .map_or(ExitCodeSource::Session, ExitCodeSource::Pipeline);
    let sweep = SweepScope::Project;
    let resumed = ResumedSession {
        root,
        folder,
        turn,
        opened,
        input,
        exit_code,
        servers,
        surface,
        sweep,
    };
    Ok(VerbOutcome::ResumeSession(Box::new(resumed)))
}

/// The latest session that can be resumed. Self-driven ones come last, since they only wait for
/// their agent.
fn latest_unfinished(sessions: &SessionsDir, max_iterations: Option<u32>) -> CliResult<SessionDir> {
    let cannot_list = |error| CliError::failed(format!("cannot list the sessions: {error}"));
    let latest = sessions.latest().map_err(cannot_list)?;
    if let Some(latest) =
        latest.filter(|folder| resumable(folder, max_iterations) == Some(Resumable::Now))
    {
        return Ok(latest);
    }
    let mut waits = None;
    for folder in sessions
        .unfinished(max_iterations.is_some())
        .map_err(cannot_list)?
    {
        match resumable(&folder, max_iterations) {
            Some(Resumable::Now) => return Ok(folder),
            Some(Resumable::ByItsAgent) => waits = waits.or(Some(folder)),
            None => {}
        }
    }
    waits.ok_or_else(|| {
        CliError::usage(if sessions.has_any() {
            "no session to resume: each one here is complete, running or at its limit; list them with `creel sessions`"
        } else {
            "no sessions in this project; start one with `creel run`"
        })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resumable {
    Now,
    /// It is self-driven.
    ByItsAgent,
}

fn resumable(folder: &SessionDir, max_iterations: Option<u32>) -> Option<Resumable> {
    if journal::running(folder).is_some() {
        return None;
    }
    let state = journal::fold(&folder.journal()).ok()?;
    if state.refuse_resume(max_iterations).is_some() {
        return None;
    }
    Some(if state.plan().is_led_from_outside() {
        Resumable::ByItsAgent
    } else {
        Resumable::Now
    })
}
