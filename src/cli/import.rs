//! `creel import`: creates tasks from the files of other tools; also the tasks of `creel run --tasks`.
//!
//! # Invariants
//! - Nothing is created before the whole file is known to be valid.
//! - A file that is imported again creates only the tasks that are not there yet.

use std::path::{Path, PathBuf};

use clap::{Args, builder::NonEmptyStringValueParser};
use serde_json::{Value, json};

use crate::{
    cli::{
        arguments::{ConfigArgs, SessionArgs},
        error::{self, CliError, CliResult, print, say},
        target::{Project, ask, given, other_answer, reply_to, running_if_any, sessions_of},
        task::{
            self, QueueArgs,
            queue::{self, QueueConnection},
        },
    },
    config::{Settings, paths::in_words},
    engine::{
        input::SessionCommand,
        tasks::{
            command::{NewTask, TaskChanges, TaskCommand},
            graph::{TaskDescriptionChanges, TaskGraph},
        },
    },
    present::text::{counted, plain_line},
    protocol::{ReplyData, SessionQuery},
    runtime::now,
    task_files::{
        TaskFile, TaskFormat,
        import_plan::{ImportPlan, ImportedTask, PresentTask, SkipReason},
        some_ids,
    },
};

/// The longest goal in a line, in characters.
const GOAL: usize = 80;
/// The reasons to skip a task, in the order in which they are listed.
const REASONS: [SkipReason; 4] = [
    SkipReason::Present,
    SkipReason::Done,
    SkipReason::Deferred,
    SkipReason::WaitsForDeferred,
];

/// What to import.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The file, or `-` for standard input: a Markdown checklist or plan, a prd.json, the output of
    /// `gh issue list --json number,title,body,labels,state,url`, beads, or creel's own JSON.
    pub file: PathBuf,
    /// What the file is. Default: creel finds out.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<TaskFormat>,
    /// The type of the tasks, one of the config's `task_types`. Default: the one in the file.
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = NonEmptyStringValueParser::new())]
    pub kind: Option<String>,
    /// Create nothing; print what would be created.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Where to.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Where the tasks go.
enum ImportTarget<'a> {
    Session(&'a SessionArgs),
    /// A session that hands them over to its queue.
    SessionForQueue(&'a SessionArgs, &'a QueueArgs),
    Queue(Box<QueueConnection>, Option<Box<Settings>>),
    /// A session that does not exist yet.
    New,
}

pub(super) fn import(args: &ImportArgs) -> CliResult {
    let (text, name) = read_text(&args.file, &args.session.config)?;
    let mut file = parse(&text, &name, args.format)?;
    if let Some(kind) = &args.kind {
        for task in &mut file.tasks {
            task.task.kind = Some(kind.clone());
        }
    }
    let mut target = ImportTarget::of(args)?;
    let plan = ImportPlan::of(&file, &name, &target.present()?).map_err(cannot(&name))?;
    let names: Vec<Option<String>> = if args.dry_run {
        let planned = |task: &ImportedTask| task.task.id.clone();
        plan.tasks.iter().map(planned).collect()
    } else {
        target.create(&plan)?.into_iter().map(Some).collect()
    };
    if args.json {
        return error::json(&as_json(args, &file, &name, &plan, &names));
    }
    print(&listed(&plan, &names))?;
    say_plan(
        &file,
        &name,
        &plan,
        if args.dry_run {
            "would import"
        } else {
            "imported"
        },
    );
    Ok(0)
}

/// The tasks of a file, for a session that has none yet.
pub(super) fn tasks_for_new_session(path: &Path, config: &ConfigArgs) -> CliResult<TaskGraph> {
    if path == Path::new("-") {
        return Err(CliError::usage(
            "`creel run` cannot read tasks from standard input\n  write them to a file, or add them to a running session with \
             `creel import -`",
        ));
    }
    let (text, name) = read_text(path, config)?;
    let file = parse(&text, &name, None)?;
    let plan = ImportPlan::of(&file, &name, &[]).map_err(cannot(&name))?;
    say_plan(&file, &name, &plan, "took over");
    if plan.tasks.is_empty() {
        return Err(CliError::usage(format!(
            "{name} has no open tasks, so there is nothing to work on"
        )));
    }
    let own = |mut task: NewTask| {
        task.queue = None;
        task
    };
    Ok(TaskGraph::of_new(
        plan.into_new_tasks().into_iter().map(own),
        now(),
    ))
}

/// The text of a file, and how the file is named in labels: by its path in the project.
pub(super) fn read_text(path: &Path, config: &ConfigArgs) -> CliResult<(String, String)> {
    if path == Path::new("-") {
        return Ok((given("-")?, "stdin".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        CliError::usage(format!(
            "cannot read {}: {}\n  name a file with tasks, or `-` for standard input",
            path.display(),
            in_words(&error)
        ))
    })?;
    let (root, _) = sessions_of(config)?;
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let within = whole.strip_prefix(&root).unwrap_or(&whole);
    Ok((text, within.to_string_lossy().into_owned()))
}

pub(super) fn parse(text: &str, name: &str, format: Option<TaskFormat>) -> CliResult<TaskFile> {
    TaskFile::read(text, format).map_err(cannot(name))
}

/// Names the file in an error of its content.
fn cannot<E: std::fmt::Display>(name: &str) -> impl Fn(E) -> CliError {
    move |error| CliError::usage(format!("cannot use {name}: {error}"))
}

impl<'a> ImportTarget<'a> {
    fn of(args: &'a ImportArgs) -> CliResult<Self> {
        let ImportArgs { session, queue, .. } = args;
        match (queue.is_meant(), queue::is_of_session(session)) {
            (true, true) => {
                queue::refuse_name(queue)?;
                Ok(Self::SessionForQueue(session, queue))
            }
            (true, false) => {
                let project = Project::load(&session.config).ok();
                let settings = project.map(|project| Box::new(project.settings));
                let connection = QueueConnection::open(session, queue)?;
                Ok(Self::Queue(Box::new(connection), settings))
            }
            (false, _) if session.nats.url.is_some() || running_if_any(session)?.is_some() => {
                Ok(Self::Session(session))
            }
            (false, _) if args.dry_run => Ok(Self::New),
            (false, _) => {
                let (file, root) = (args.file.display(), sessions_of(&session.config)?.0);
                Err(CliError::usage(format!(
                    "no session is running in {}\n  start one with these tasks: `creel run --tasks {file}`, \
                     or add the tasks to the queue with --queue",
                    root.display()
                )))
            }
        }
    }

    /// The tasks that are there already.
    fn present(&self) -> CliResult<Vec<PresentTask>> {
        match self {
            Self::Session(session) | Self::SessionForQueue(session, _) => {
                let Some(ReplyData::Tasks(tasks)) = reply_to(session, SessionQuery::TaskList)?
                else {
                    return Err(other_answer());
                };
                let present = tasks.into_iter().map(|task| PresentTask {
                    name: task.id,
                    goal: task.goal,
                    labels: task.labels,
                });
                Ok(present.collect())
            }
            Self::Queue(queue, _) => {
                let own = queue.all()?.into_iter().map(|task| task.order);
                let present =
                    own.filter(|order| order.session.is_none())
                        .map(|order| PresentTask {
                            labels: order.labels.clone(),
                            goal: order.goal.clone(),
                            name: order.id,
                        });
                Ok(present.collect())
            }
            Self::New => Ok(Vec::new()),
        }
    }

    /// Creates the tasks, and returns their names in the same order.
    fn create(&mut self, plan: &ImportPlan) -> CliResult<Vec<String>> {
        let mut names = plan.names.clone();
        let mut created = Vec::new();
        for task in &plan.tasks {
            let name = self.add(task.named(&names)).map_err(|error| {
                let (done, left) = (created.len(), plan.tasks.len() - created.len());
                error.with(|why| {
                    let (done, left) = (counted(done, "task"), counted(left, "task"));
                    format!("{why}\n  imported {done}; {left} left: import the file again")
                })
            })?;
            names.insert(task.id.clone(), name.clone());
            created.push(name);
        }
        let (Self::Session(session) | Self::SessionForQueue(session, _)) = self else {
            return Ok(created);
        };
        // A task waits for its parts, so it comes after them.
        for (task, name) in plan.tasks.iter().zip(&created) {
            let parent = task
                .task
                .parent
                .as_ref()
                .and_then(|parent| names.get(parent));
            if let Some(parent) = parent {
                set_parent(session, name, parent)?;
            }
        }
        Ok(created)
    }

    fn add(&mut self, mut new: NewTask) -> CliResult<String> {
        // Parents are set when all tasks are there.
        new.parent = None;
        match self {
            Self::Session(session) => {
                new.queue = None;
                task::add_to_session(session, new)
            }
            Self::SessionForQueue(session, queue) => {
                new.queue = Some(new.queue.unwrap_or_default());
                queue::add_by_session(session, queue, new)
            }
            Self::Queue(queue, settings) => queue.add_new(new, settings.as_deref()),
            Self::New => Ok(new.id.unwrap_or_default()),
        }
    }
}

fn set_parent(session: &SessionArgs, id: &str, parent: &str) -> CliResult<()> {
    let changes = TaskChanges {
        description: TaskDescriptionChanges {
            parent: Some(parent.to_owned()),
            ..TaskDescriptionChanges::default()
        },
        ..TaskChanges::default()
    };
    let task = TaskCommand::Update {
        id: id.to_owned(),
        changes,
    };
    ask(session, SessionCommand::Task { task }).map(drop)
}

/// Says what was taken over, and what was not and why.
fn say_plan(file: &TaskFile, name: &str, plan: &ImportPlan, did: &str) {
    let TaskFile { format, note, .. } = file;
    let all = counted(plan.tasks.len(), "task");
    say(&format!("creel: {did} {all} from {name}, {format}"));
    if let Some(note) = note.filter(|_| plan.tasks.len() > 1) {
        say(&format!("  {note}"));
    }
    for reason in REASONS {
        let skipped = plan.skipped_for(reason);
        if !skipped.is_empty() {
            let (count, ids) = (skipped.len(), some_ids(&skipped));
            say(&format!("  skipped {count}, {}: {ids}", reason.in_words()));
        }
    }
}

/// A line for each task: its name, and what it is about.
fn listed(plan: &ImportPlan, names: &[Option<String>]) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "(a number)".to_owned());
    let names: Vec<String> = names.iter().map(name).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let line = |(task, name): (&ImportedTask, &String)| {
        format!("{name:width$}  {}\n", plain_line(&task.task.goal, GOAL))
    };
    plan.tasks.iter().zip(&names).map(line).collect()
}

fn as_json(
    args: &ImportArgs,
    file: &TaskFile,
    name: &str,
    plan: &ImportPlan,
    names: &[Option<String>],
) -> Value {
    let imported = plan.tasks.iter().zip(names).map(|(task, name)| {
        json!({
            "id": task.id,
            "task": name,
            "goal": task.task.goal,
            "depends_on": task.task.dependencies,
            "source": task.source,
        })
    });
    let skipped = plan.skipped.iter().map(|skipped| {
        json!({
            "id": skipped.id,
            "reason": skipped.reason.name(),
            "task": plan.names.get(&skipped.id),
        })
    });
    let format = clap::ValueEnum::to_possible_value(&file.format);
    json!({
        "file": name,
        "format": format.map(|format| format.get_name().to_owned()),
        "dry_run": args.dry_run,
        "imported": imported.collect::<Vec<_>>(),
        "skipped": skipped.collect::<Vec<_>>(),
    })
}
