//! `creel demo`: a built-in session in a temporary folder, at a pace that a viewer can follow.
//!
//! A session like any other: the engine, the runtime and the hooks are the real ones, and the agent
//! follows a script. The pace comes from the script and the hooks: see
//! [`crate::process::playback_pace`].

use std::{fs, path::PathBuf};

use clap::Args;

use crate::{
    cli::{
        arguments::{DetachArgs, OutputArgs},
        error::{CliError, CliResult, say},
        launch::surface::SessionSurface,
        verb_outcome::{FolderRetention, NewSession, SweepScope, VerbOutcome},
    },
    config::{self, HintMode, SessionServers, UiSettings},
    engine::{tasks::graph::TaskGraph, time::TimeSpan},
    journal::SessionsDir,
    process::playback_pace::{PaceFile, PlaybackMode, PlaybackPace},
    runtime::now,
};

/// Which demo.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The scenario: `tests` (they fail twice, then pass), `limit` (retry limit), `permission`
    /// (requests).
    pub scenario: Option<String>,
    /// Play it without pauses, for tests.
    #[arg(long)]
    pub fast: bool,
    /// Keep the demo's folder.
    #[arg(long)]
    pub keep: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A built-in scenario: the files of its project, including the config and the agent's script.
struct DemoScenario {
    name: &'static str,
    about: &'static str,
    files: &'static [(&'static str, &'static str)],
}

const SCENARIOS: [DemoScenario; 3] = [
    DemoScenario {
        name: "tests",
        about: "tests fail twice, then pass; the session sends a report at the end",
        files: &[
            (
                "creel.yaml",
                include_str!("../../assets/demo/tests/creel.yaml"),
            ),
            (
                "demo/scenario.yaml",
                include_str!("../../assets/demo/tests/scenario.yaml"),
            ),
            ("demo/pace.sh", include_str!("../../assets/demo/pace.sh")),
            (
                "run-tests.sh",
                include_str!("../../assets/demo/tests/run-tests.sh"),
            ),
        ],
    },
    DemoScenario {
        name: "limit",
        about: "a check that the agent cannot satisfy, up to the retry limit",
        files: &[
            (
                "creel.yaml",
                include_str!("../../assets/demo/limit/creel.yaml"),
            ),
            (
                "scenario.yaml",
                include_str!("../../assets/demo/limit/scenario.yaml"),
            ),
        ],
    },
    DemoScenario {
        name: "permission",
        about: "an agent that asks for permission to change one file and remove another",
        files: &[
            (
                "creel.yaml",
                include_str!("../../assets/demo/permission/creel.yaml"),
            ),
            (
                "scenario.yaml",
                include_str!("../../assets/demo/permission/scenario.yaml"),
            ),
            (
                "greeting.txt",
                include_str!("../../assets/demo/permission/greeting.txt"),
            ),
            (
                "notes.txt",
                include_str!("../../assets/demo/permission/notes.txt"),
            ),
        ],
    },
];

/// The session of a demo, and its folder.
pub(crate) struct DemoSession {
    pub(crate) start: NewSession,
    pub(crate) folder: DemoDir,
}

pub(super) fn demo(args: &DemoArgs) -> CliResult<VerbOutcome> {
    let wanted = args.scenario.as_deref().unwrap_or(SCENARIOS[0].name);
    let Some(scenario) = SCENARIOS.iter().find(|scenario| scenario.name == wanted) else {
        let list: String = SCENARIOS
            .iter()
            .map(|known| format!("\n  {:10} {}", known.name, known.about))
            .collect();
        return Err(CliError::usage(format!(
            "unknown scenario `{wanted}`; choose one of:{list}"
        )));
    };
    let afterwards = if args.keep {
        FolderRetention::Stays
    } else {
        FolderRetention::GoesAway
    };
    let folder = DemoDir::make(scenario, afterwards)?;
    let settings = config::load(&folder.path.join("creel.yaml"), None)?;
    let mut plan = settings.plan(config::PlanRequest::default())?;
    let pace = PlaybackPace {
        mode: if args.fast {
            PlaybackMode::Fast
        } else {
            PlaybackMode::Play
        },
        skips: 0,
    };
    if args.fast {
        // A gate that answers itself is part of the pace.
        plan.gates.timeout = TimeSpan::default();
    }
    let session = SessionsDir::of(&folder.path).folder("demo");
    PaceFile::of_session(&session.path)
        .write(pace)
        .map_err(|error| {
            CliError::failed(format!("cannot write into the demo's folder: {error}"))
        })?;
    let ui = UiSettings {
        hints: HintMode::Always,
        ..settings.ui
    };
    let surface = match SessionSurface::chosen(args.output, DetachArgs::default(), ui) {
        SessionSurface::Screen(ui) => SessionSurface::Demo(ui, pace),
        other @ (SessionSurface::Demo(..)
        | SessionSurface::Printed(..)
        | SessionSurface::Nowhere) => other,
    };
    let start = NewSession {
        root: folder.path.clone(),
        folder: session,
        turn: None,
        plan,
        prompt: settings.prompt.clone().unwrap_or_default(),
        tasks: TaskGraph::default(),
        first: None,
        only_pipeline: None,
        order: None,
        worktree: None,
        servers: SessionServers::default(),
        surface,
        afterwards,
        sweep: SweepScope::Session,
    };
    Ok(VerbOutcome::RunDemo(Box::new(DemoSession {
        start,
        folder,
    })))
}

/// The folder of a demo. It is removed when this is dropped, unless the user keeps it.
pub(crate) struct DemoDir {
    path: PathBuf,
    afterwards: FolderRetention,
    kept: bool,
}

impl DemoDir {
    fn make(scenario: &DemoScenario, afterwards: FolderRetention) -> CliResult<Self> {
        let path =
            std::env::temp_dir().join(format!("creel-demo-{:x}-{:x}", now().0, std::process::id()));
        let failed = |error| {
            CliError::failed(format!(
                "cannot create the demo's folder {}: {error}",
                path.display()
            ))
        };
        fs::create_dir(&path).map_err(failed)?;
        for (name, text) in scenario.files {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap_or(&path)).map_err(failed)?;
            fs::write(file, text).map_err(failed)?;
        }
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self {
            path,
            afterwards,
            kept: false,
        })
    }

    /// After the demo: removes the folder, or tells the user where it is.
    pub(crate) fn close(mut self) {
        if self.afterwards == FolderRetention::Stays {
            self.kept = true;
            say(&format!(
                "creel: the demo's folder is {}; explore it with `creel show demo`",
                self.path.display()
            ));
        }
    }
}

impl Drop for DemoDir {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
