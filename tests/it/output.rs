//! Hooks from a job to a result: their input, and what creel keeps of their output.

use std::{os::unix::fs::PermissionsExt, path::Path};

use creel::{
    engine::{
        effect::{HookFacts, HookJob, TaskFacts},
        hooks::{
            point::HookPoint,
            verdict::{HookDecision, RunEnd, RunResult},
        },
        ids::RunId,
        policy::{HookAction, HookSpec},
        time::TimeSpan,
    },
    hooks::{HookWorkspace, run_hook},
    process::{
        output::FILE_CAP,
        run::{OutputStream, ProcessGroup, ProcessObserver},
    },
};
use tokio_util::sync::CancellationToken;

use crate::support::{Memory, eventually, folder, fresh_mark, in_folder};

fn job(point: HookPoint, command: &str) -> HookJob {
    HookJob {
        run: RunId(7),
        point,
        hook: HookSpec::new("checks", HookAction::Command(command.into())),
        output_limit: 16 * 1024,
        facts: HookFacts {
            session: "s".into(),
            ..HookFacts::default()
        },
        clean: None,
    }
}

fn place(dir: &Path) -> HookWorkspace {
    HookWorkspace {
        cwd: dir.into(),
        session_dir: dir.join("session"),
        session_id: "id-1".into(),
        journal: dir.join("session/journal.jsonl"),
        mark: fresh_mark(),
    }
}

async fn result(job: &HookJob, dir: &Path) -> RunResult {
    run_hook(
        job,
        &place(dir),
        &mut Memory::default(),
        &CancellationToken::new(),
    )
    .await
}

/// Counts, and stores nothing.
#[derive(Default)]
struct Count(u64);

impl ProcessObserver for Count {
    fn started(&mut self, _: ProcessGroup) {}

    fn output(&mut self, _: OutputStream, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }
}

#[tokio::test]
async fn a_flood_is_bounded_in_memory_and_on_disk() {
    let dir = folder();
    let job = job(
        HookPoint::Stop,
        "echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last",
    );
    let mut count = Count::default();
    let got = run_hook(
        &job,
        &place(dir.path()),
        &mut count,
        &CancellationToken::new(),
    )
    .await;
    assert_eq!((&got.end, count.0), (&RunEnd::Exit(0), 200_000_012));
    assert!(got.stdout.len() <= 16 * 1024 && got.stdout.len() > 15 * 1024);
    assert!(got.stdout.starts_with("first\n") && got.stdout.ends_with("x\nlast\n"));
    assert!(got.stdout.contains(&format!(
        "[… {} bytes left out; session/outputs/run-7.log has only the first 64 MiB …]",
        got.omitted_bytes
    )));
    assert_eq!(got.file.as_deref(), Some("outputs/run-7.log"));
    let file = in_folder(&dir, "session/outputs/run-7.log");
    let about = std::fs::metadata(&file).expect("the file");
    assert_eq!(
        (about.len(), about.permissions().mode() & 0o777),
        (FILE_CAP, 0o600)
    );
}

#[tokio::test]
async fn omitted_output_is_in_the_file() {
    let dir = folder();
    let job = job(HookPoint::Stop, "seq 1 20000");
    let got = result(&job, dir.path()).await;
    let whole =
        std::fs::read_to_string(in_folder(&dir, "session/outputs/run-7.log")).expect("the file");
    let all: Vec<String> = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(whole, all.concat());
    assert!(
        got.stdout
            .contains("bytes left out; all of it: session/outputs/run-7.log …]\n")
    );
    let shown = got
        .stdout
        .lines()
        .filter(|l| !l.starts_with('['))
        .map(|l| l.len() as u64 + 1)
        .sum::<u64>();
    assert_eq!(shown + got.omitted_bytes, whole.len() as u64);
}

#[tokio::test]
async fn a_silent_hook_has_no_file() {
    let dir = folder();
    let got = result(&job(HookPoint::Stop, "true"), dir.path()).await;
    assert_eq!((got.end, got.file), (RunEnd::Exit(0), None));
    assert!(!in_folder(&dir, "session/outputs").exists());
}

#[tokio::test]
async fn binary_output_is_text_and_within_the_limit() {
    let dir = folder();
    let got = result(
        &job(
            HookPoint::Stop,
            "head -c 100000 /dev/urandom; head -c 100000 /dev/urandom >&2",
        ),
        dir.path(),
    )
    .await;
    assert!(got.stdout.len() + got.stderr.len() <= 16 * 1024);
    assert!(
        got.stdout.contains(char::REPLACEMENT_CHARACTER)
            && got.stderr.contains(char::REPLACEMENT_CHARACTER)
    );
}

#[tokio::test]
async fn output_is_shown_before_the_end() {
    let dir = folder();
    let mut memory = Memory::default();
    let seen = memory.clone();
    let (job, place, cancel) = (
        job(
            HookPoint::Stop,
            "echo early; while ! test -e go; do sleep 0.01; done",
        ),
        place(dir.path()),
        CancellationToken::new(),
    );
    let (got, ()) = tokio::join!(run_hook(&job, &place, &mut memory, &cancel), async {
        eventually("live output", || seen.stdout() == "early\n").await;
        std::fs::write(in_folder(&dir, "go"), "").expect("a file");
    });
    assert_eq!(got.end, RunEnd::Exit(0));
}

#[tokio::test]
async fn a_cancelled_hook_is_cut_and_a_late_one_timed_out() {
    let dir = folder();
    let cancel = CancellationToken::new();
    let mut memory = Memory::default();
    let seen = memory.clone();
    let (slow, place) = (
        job(HookPoint::Stop, "echo begun; sleep 1000"),
        place(dir.path()),
    );
    let (got, ()) = tokio::join!(run_hook(&slow, &place, &mut memory, &cancel), async {
        eventually("it runs", || !seen.stdout().is_empty()).await;
        cancel.cancel();
    });
    assert_eq!((got.end, got.stdout.as_str()), (RunEnd::Cut, "begun\n"));
    let mut late = slow.clone();
    late.hook.timeout = TimeSpan::secs(3);
    let got = result(&late, dir.path()).await;
    assert_eq!(
        (got.end, got.stdout.as_str()),
        (RunEnd::TimedOut, "begun\n")
    );
}

#[tokio::test]
async fn a_json_answer_counts_only_with_exit_0() {
    let dir = folder();
    let answer = r#"echo '{"decision":"deny","reason":"red"}'"#;
    let reply = result(&job(HookPoint::Stop, answer), dir.path())
        .await
        .reply
        .expect("an answer");
    assert_eq!(
        (reply.decision, reply.reason.as_deref()),
        (Some(HookDecision::Deny), Some("red"))
    );
    assert_eq!(
        result(
            &job(HookPoint::Stop, &format!("{answer}; exit 1")),
            dir.path()
        )
        .await
        .reply,
        None
    );
    assert_eq!(
        result(&job(HookPoint::Stop, "echo plain"), dir.path())
            .await
            .reply,
        None
    );
}

#[tokio::test]
async fn a_too_long_reply_is_not_lost() {
    let dir = folder();
    let text = "head -c 5000000 /dev/zero | tr '\\0' x";
    for long in [
        format!(r#"printf '{{"decision":"block","reason":"'; {text}; echo '"}}'"#),
        format!(r#"printf '{{"reason":"'; {text}; echo '","decision":"block"}}'"#),
        format!(r#"printf '{{"log":["'; {text}; echo '"],"continue":false}}'"#),
    ] {
        let reply = result(&job(HookPoint::Stop, &long), dir.path())
            .await
            .reply
            .expect("a reply");
        assert!(
            reply.unreadable
                && reply
                    .problem
                    .as_deref()
                    .is_some_and(|text| text.contains("too long")),
            "{reply:?}"
        );
    }
    let report = format!(r#"printf '{{"tests":["'; {text}; echo '"]}}'"#);
    assert_eq!(
        result(&job(HookPoint::Stop, &report), dir.path())
            .await
            .reply,
        None
    );
    let plain = "printf '{ '; head -c 2000000 /dev/zero | tr '\\0' x";
    assert_eq!(
        result(&job(HookPoint::Stop, plain), dir.path()).await.reply,
        None
    );
}

#[tokio::test]
async fn a_long_json_answer_is_read_whatever_the_limit_is() {
    let dir = folder();
    let mut job = job(
        HookPoint::Stop,
        r#"printf '{"decision":"block","reason":"'; head -c 500000 /dev/zero | tr '\0' x; echo '"}'"#,
    );
    job.output_limit = 1024;
    let got = result(&job, dir.path()).await;
    assert!(got.stdout.len() <= 1024);
    let reply = got.reply.expect("an answer");
    assert_eq!(reply.decision, Some(HookDecision::Block));
    // The agent gets no more of it than of any other text.
    let reason = reply.reason.expect("a reason");
    assert!(
        reason.len() <= 1024 && reason.starts_with("xxx") && reason.contains("outputs/run-"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_hook_gets_the_values_of_its_point() {
    let dir = folder();
    let mut job = job(
        HookPoint::OnTaskComplete,
        "printf '%s|' {{session}} {{iteration}} '{{task_id}}' \"{{task_content}}\" \"$CREEL_TASK_CONTENT\" \"$CREEL_HOOK\" \
         \"$CREEL_POINT\" \"${CREEL_ERROR-unset}\" \"${CREEL_ATTEMPT-unset}\"; echo; cat",
    );
    let task = TaskFacts {
        id: "t-1".into(),
        content: "it's $(touch pwned) \"done\"\n".into(),
    };
    job.facts = HookFacts {
        session: "s".into(),
        iteration: Some(4),
        attempt: Some(2),
        task: Some(task.clone()),
        error: Some("not offered here".into()),
        agent_output: Some("ok".into()),
        ..HookFacts::default()
    };
    let got = result(&job, dir.path()).await;
    let content = &task.content;
    let expected = format!("s|4|t-1|{content}|{content}|checks|on_task_complete|unset|unset|\n");
    let (line, input) = got.stdout.split_at(expected.len());
    assert_eq!(line, expected);
    assert!(!in_folder(&dir, "pwned").exists());
    let input: serde_json::Value = serde_json::from_str(input).expect("one JSON object");
    let cwd = dir.path().to_string_lossy();
    assert_eq!(
        input,
        serde_json::json!({
            "session": "s", "session_id": "id-1", "hook_event_name": "on_task_complete", "hook": "checks", "cwd": cwd,
            "iteration": 4, "attempt": 2, "stop_hook_active": true, "transcript_path": format!("{cwd}/session/journal.jsonl"),
            "task": { "id": "t-1", "content": content }, "error": "not offered here", "agent_output": "ok",
        })
    );
}

#[tokio::test]
async fn a_hook_runs_even_if_a_value_is_too_long_or_has_a_nul() {
    let dir = folder();
    let mut job = job(
        HookPoint::OnError,
        "printf %s {{error}} | wc -c; printf %s {{error}} | tail -c 3; wc -c >&2",
    );
    job.facts.error = Some(format!("a\0{}", "x".repeat(300_000)));
    let got = result(&job, dir.path()).await;
    assert_eq!(got.stdout, format!("{}\n…", 96 * 1024 + 3));
    assert!(
        got.stderr.trim().parse::<u32>().expect("a number") > 300_000,
        "standard input has all of it"
    );
}

#[tokio::test]
async fn a_hook_that_cannot_start_ends_as_spawn_failed() {
    let dir = folder();
    let mut builtin = job(HookPoint::BeforeSubmit, "");
    builtin.hook.action = HookAction::Builtin("sing".into());
    let end = result(&builtin, dir.path()).await.end;
    assert_eq!(
        end,
        RunEnd::SpawnFailed("unknown built-in hook `sing`".into())
    );
    let end = result(&job(HookPoint::OnError, "echo `cat {{error}}`"), dir.path())
        .await
        .end;
    assert!(matches!(end, RunEnd::SpawnFailed(why) if why.contains("$CREEL_ERROR")));
}

#[tokio::test]
async fn an_automation_hook_reads_the_event_and_the_graph_and_its_whole_answer_is_kept() {
    let dir = folder();
    let goal = "x".repeat(9_000);
    let command = format!(
        "read line; printf '[{{\"type\":\"create_task\",\"payload\":{{\"goal\":\"{goal}\"}}}}]'; printf '%s' \"$line\" >&2"
    );
    let mut job = job(HookPoint::Automation, &command);
    job.facts.event = Some(serde_json::json!({ "type": "task_completed", "nodeId": "a" }));
    job.facts.graph = Some(serde_json::json!({ "tasks": [], "edges": [] }));
    job.output_limit = 4_096;
    let got = result(&job, dir.path()).await;
    let answer: serde_json::Value =
        serde_json::from_str(&got.answer.expect("an answer")).expect("JSON");
    assert_eq!(answer[0]["payload"]["goal"], goal);
    assert_eq!((got.end, got.reply), (RunEnd::Exit(0), None));
    let told: serde_json::Value = serde_json::from_str(&got.stderr).expect("JSON");
    assert_eq!(
        (&told["event"]["nodeId"], &told["graph"]["tasks"]),
        (&"a".into(), &serde_json::json!([]))
    );
    assert_eq!(told["hook_event_name"], "automation");
}

#[tokio::test]
async fn the_output_of_an_earlier_step_is_data_for_a_later_one() {
    let dir = folder();
    let mut job = job(
        HookPoint::Automation,
        "printf %s {{steps.build-all.stdout}}",
    );
    let said = "it's $(touch pwned) \"done\"";
    job.facts.values = vec![("steps.build-all.stdout".into(), said.into())];
    assert_eq!(result(&job, dir.path()).await.stdout, said);
    assert!(!in_folder(&dir, "pwned").exists());
}
