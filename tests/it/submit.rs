//! Submitting and merging as a user does it: real repositories, a bare remote, a `gh` that records
//! its calls, and scripted agents.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{
    project::{Ran, lines},
    repo::Repo,
};

/// The agent commits a file and completes; it repairs what a check reports, as scripted.
const PLAY: &str = "\
turns:
  - say: 'All done. <promise>COMPLETE</promise>'
    run: 'printf \"b\\n\" > b.txt && git add b.txt && git commit --quiet -m \"add b\"'
";

/// A repository with a config that git ignores.
struct Site {
    repo: Repo,
}

impl Site {
    fn new(config: &str) -> Self {
        Self::at(Repo::with_gh(), config)
    }

    fn at(repo: Repo, config: &str) -> Self {
        fs::write(
            repo.work.join(".git/info/exclude"),
            "creel.yaml\n*.play\n.creel/\n",
        )
        .expect("a file");
        let site = Self { repo };
        site.write("own.play", PLAY);
        let agents = "agent: own\nprompt: Add the file b\nagents:\n  own: { script: own.play }\n";
        site.write("creel.yaml", &format!("{agents}{config}"));
        site
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.repo.work.join(name), text).expect("a file");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_creel"));
        command
            .args(args)
            .current_dir(&self.repo.work)
            .envs(self.repo.env())
            .env("XDG_STATE_HOME", self.repo.at("state"))
            .env("XDG_CONFIG_HOME", self.repo.at("config"))
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("CREEL_SESSION")
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null());
        command
    }

    fn creel(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().expect("creel starts"))
    }

    /// A trusted session named `s`.
    fn run(&self, more: &[&str]) -> Ran {
        let args = [&["run", "--headless", "--trust", "-s", "s"], more].concat();
        self.creel(&args)
    }

    fn records_of(&self, session: &str) -> Vec<Value> {
        let journal = self
            .repo
            .work
            .join(".creel/sessions")
            .join(session)
            .join("journal.jsonl");
        lines(&fs::read_to_string(journal).expect("a journal"))
    }

    fn kind(&self, kind: &str) -> Vec<Value> {
        self.records_of("s")
            .into_iter()
            .filter(|record| record["kind"] == kind)
            .collect()
    }

    /// The hooks that ran at the points of a pipeline, each with its verdict.
    fn ran(&self) -> Vec<String> {
        let told = |record: &Value| {
            let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
            (text("point").contains("_submit") || text("point").contains("_merge"))
                .then(|| format!("{} {}", text("hook"), text("verdict")))
        };
        self.kind("hook_finished").iter().filter_map(told).collect()
    }

    fn outcome(&self) -> Value {
        self.kind("pipeline_ended").pop().unwrap_or_default()
    }
}

#[test]
fn without_hooks_in_the_config_a_pull_request_is_opened() {
    let site = Site::new("submit: true\n");
    let ran = site.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(site.ran(), ["create_pr pass"]);
    assert_eq!(
        site.outcome()["pull_request"],
        "https://forge.example/pull/7"
    );
    assert_eq!(
        site.repo.gh_called(["pr", "create"])[0][2],
        "--title=Add the file b"
    );
    assert_eq!(site.repo.on_remote("work"), Some(site.repo.here("work")));
    assert!(
        ran.out.contains("✓ Submit done") && ran.out.contains("https://forge.example/pull/7"),
        "{}",
        ran.out
    );
}

#[test]
fn the_text_of_a_pull_request_is_the_goal_and_the_report() {
    let site = Site::new("submit: true\nchecks: ['test -s b.txt']\n");
    let ran = site.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let body = fs::read_to_string(site.repo.at("gh/body")).expect("a body");
    let (goal, report) = body.split_once("## Report of creel").expect("a report");
    assert!(goal.contains("Add the file b"), "{body}");
    assert!(
        report.contains("**✓ Verified: <code>test -s b&#46;txt</code> passed"),
        "{body}"
    );
    assert!(!report.contains("### Goal") && body.trim_end().ends_with("<!-- creel: end -->"));
}

#[test]
fn nothing_leaves_the_machine_unless_the_config_says_so() {
    let site = Site::new("");
    assert_eq!(site.run(&[]).code, 0);
    assert_eq!((site.ran(), site.repo.on_remote("work")), (vec![], None));
    // Requested afterwards, it does.
    let ran = site.creel(&["submit", "s", "--headless"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(site.ran(), ["create_pr pass"]);
    assert_eq!(site.kind("session_ended").len(), 2);
    assert_eq!(site.kind("session_ended")[1]["outcome"], "complete");
}

#[test]
fn the_card_counts_only_the_time_in_which_the_session_ran() {
    let site = Site::new("");
    assert_eq!(site.run(&[]).code, 0);
    // The session ended a year ago.
    let journal = site.repo.work.join(".creel/sessions/s/journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    let (_, rest) = text.split_once("\"at\":\"").expect("a time");
    let year = rest[..4].parse::<u32>().expect("a year");
    let earlier = text.replace(
        &format!("\"at\":\"{year}-"),
        &format!("\"at\":\"{}-", year - 1),
    );
    fs::write(&journal, earlier).expect("a journal");
    let ran = site.creel(&["submit", "s", "--headless"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let shown = site.creel(&["show", "s"]).out;
    let took = shown
        .lines()
        .find(|line| line.starts_with("  took  "))
        .expect("a time");
    assert!(
        took.contains("s · ") && !took.contains('h') && !took.contains('m'),
        "{took}"
    );
}

#[test]
fn the_card_suggests_a_submit_only_where_one_can_work() {
    let next = |site: &Site| {
        let shown = site.run(&[]).out;
        shown
            .lines()
            .find(|line| line.starts_with("  next  "))
            .expect("a next command")
            .trim()
            .to_owned()
    };
    let (with, without) = (
        "next          creel show s · creel submit s",
        "next          creel show s",
    );
    assert_eq!(next(&Site::new("")), with);
    assert_eq!(
        next(&Site::at(
            Repo::new(),
            "submit: { pr_command: 'echo {{branch}}' }\n"
        )),
        with,
        "no `gh` is needed"
    );
    // There is nothing to push to.
    let site = Site::new("");
    site.repo.git(&["remote", "remove", "origin"]);
    assert_eq!(next(&site), without);
    // The commands of this config need no remote.
    let site = Site::new("hooks: { before_submit: [{ command: 'true' }] }\n");
    site.repo.git(&["remote", "remove", "origin"]);
    assert_eq!(next(&site), with);
    assert_eq!(
        next(&Site::new("hooks: { before_submit: [] }\n")),
        without,
        "a submit would do nothing"
    );
}

#[test]
fn the_work_is_rebased_and_then_a_pull_request_is_opened() {
    let site = Site::new("submit: true\nhooks: { before_submit: [rebase_on_main, create_pr] }\n");
    let moved = site.repo.elsewhere("main", "c.txt", "c\n");
    assert_eq!(site.run(&[]).code, 0);
    assert_eq!(site.ran(), ["rebase_on_main pass", "create_pr pass"]);
    assert_eq!(
        site.repo.git(&["merge-base", "work", &moved]),
        moved,
        "it stands on what came from elsewhere"
    );
    assert_eq!(site.repo.on_remote("work"), Some(site.repo.here("work")));
}

#[test]
fn what_the_checks_saw_has_to_be_in_the_commit_also_in_a_subfolder() {
    for folder in ["", "app"] {
        let config = "submit: true\nchecks: ['test -s new/c.txt']\n";
        let site = Site::new(config);
        site.write(
            "own.play",
            "\
turns:
  - say: 'All done. <promise>COMPLETE</promise>'
    run: 'mkdir new; echo c > new/c.txt; git commit --quiet --allow-empty -m \"forgets c\"'
  - when: 'while it is not committed'
    say: 'Committed.'
    run: 'git add new; git commit --quiet -m \"c, too\"'
",
        );
        // Nothing that no turn has changed is in the way.
        site.write("a.txt", "the user works on it\n");
        let place = site.repo.work.join(folder);
        if !folder.is_empty() {
            fs::create_dir(&place).expect("a folder");
            for file in ["creel.yaml", "own.play"] {
                fs::rename(site.repo.work.join(file), place.join(file)).expect("a file");
            }
        }
        let args = ["run", "--headless", "--trust", "-s", "s"];
        let ran = Ran::of(
            &site
                .command(&args)
                .current_dir(&place)
                .output()
                .expect("creel starts"),
        );
        assert_eq!(ran.code, 0, "{folder}: {}{}", ran.out, ran.err);
        let file = format!(
            "work:{}",
            place
                .join("new/c.txt")
                .strip_prefix(&site.repo.work)
                .expect("below")
                .display()
        );
        assert_eq!(site.repo.git(&["show", &file]), "c", "{folder}");
        assert_eq!(site.repo.on_remote("work"), Some(site.repo.here("work")));
    }
}

#[test]
fn a_conflict_goes_to_the_agent_and_then_every_check_runs_again() {
    let site = Site::new("submit: true\nhooks: { before_submit: [rebase_on_main, create_pr] }\n");
    site.write(
        "own.play",
        "\
turns:
  - say: 'Done. <promise>COMPLETE</promise>'
    run: 'printf \"mine\\n\" > a.txt && git commit --quiet -a -m mine'
  - when: 'rebase_on_main'
    say: 'Resolved.'
    run: 'git fetch --quiet; git rebase --quiet origin/main; printf \"both\\n\" > a.txt; git add a.txt; GIT_EDITOR=true git rebase --continue'
",
    );
    let theirs = site.repo.elsewhere("main", "a.txt", "theirs\n");
    let ran = site.run(&[]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(
        site.ran(),
        [
            "rebase_on_main block",
            "rebase_on_main pass",
            "create_pr pass"
        ]
    );
    let counted = site.kind("remediation_counted");
    assert_eq!(
        (counted.len(), &counted[0]["used"], &counted[0]["limit"]),
        (1, &1.into(), &1.into())
    );
    let prompt = site.kind("prompt_sent").pop().expect("a prompt");
    assert_eq!(prompt["reason"], "remediation");
    assert!(
        prompt["text"]
            .as_str()
            .is_some_and(|text| text.contains("a.txt")),
        "{prompt}"
    );
    assert_eq!(site.repo.git(&["merge-base", "work", &theirs]), theirs);
    assert_eq!(site.repo.git(&["show", "work:a.txt"]), "both");
}

#[test]
fn a_failed_repair_waits_for_the_user_and_the_work_stays() {
    let site = Site::new("submit: true\nhooks: { before_submit: [rebase_on_main, create_pr] }\n");
    site.write(
        "own.play",
        "turns:\n  - say: '<promise>COMPLETE</promise>'\n    run: 'printf \"mine\\n\" > a.txt && git commit --quiet -a -m mine'\notherwise: { say: 'I cannot.' }\n",
    );
    site.repo.elsewhere("main", "a.txt", "theirs\n");
    let ran = site.run(&[]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert_eq!(site.ran(), ["rebase_on_main block", "rebase_on_main block"]);
    assert_eq!(
        (&site.outcome()["outcome"], &site.outcome()["by"]),
        (&"failed".into(), &"policy".into())
    );
    assert_eq!(site.repo.git(&["show", "work:a.txt"]), "mine");
    site.repo.is_clean();
    assert_eq!(site.repo.on_remote("work"), None);
    // The user resolves it; then it is submitted.
    site.repo.try_git(&site.repo.work, &["fetch", "--quiet"]);
    site.repo
        .git(&["rebase", "--quiet", "-X", "theirs", "origin/main"]);
    let again = site.creel(&["resume", "s", "--headless"]);
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    assert_eq!(site.repo.on_remote("work"), Some(site.repo.here("work")));
    assert_eq!(site.kind("iteration_started").len(), 1);
}

const TYPES: &str = "\
submit: true
hooks: { before_submit: [rebase_on_main, create_pr] }
task_types:
  hotfix:
    hooks: { before_submit: [{ command: 'test -f b.txt', name: there }, create_pr] }
    agents: [own]
  product:
    agents: { implementer: [another] }
";

#[test]
fn typed_work_goes_through_the_hooks_of_its_type() {
    let site = Site::new(TYPES);
    assert_eq!(site.run(&["-t", "hotfix"]).code, 0);
    assert_eq!(site.ran(), ["there pass", "create_pr pass"]);
    let untyped = Site::new(TYPES);
    assert_eq!(untyped.run(&[]).code, 0);
    assert_eq!(untyped.ran(), ["rebase_on_main pass", "create_pr pass"]);
}

#[test]
fn an_agent_not_allowed_for_a_type_is_refused_before_anything_runs() {
    let site = Site::new(TYPES);
    let ran = site.run(&["-t", "product", "-a", "own"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains(
            "`own` may not work on tasks of type `product`. Agents for this type: `another`"
        ),
        "{}",
        ran.err
    );
    let missing = site.run(&["-t", "product"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing
            .err
            .contains("none of the agents for tasks of type `product` is installed"),
        "{}",
        missing.err
    );
    assert!(!site.repo.work.join(".creel/sessions/s").exists());
    let unknown = site.run(&["-t", "hotfx"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.contains("did you mean `hotfix`?"),
        "{}",
        unknown.err
    );
}

#[test]
fn check_shows_what_would_run_and_where_it_is_configured() {
    let site = Site::new(TYPES);
    let ran = site.creel(&["check", "-t", "hotfix"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains(
            "1. there: test -f b.txt  [timeout 1 min]  creel.yaml:9 (task type `hotfix`)"
        ),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("merge_pr (built in)"), "{}", ran.out);
    let json: Value = serde_json::from_str(&site.creel(&["check", "--json"]).out).expect("JSON");
    assert_eq!(json["hooks"]["before_submit"][0]["line"], 6);
    assert_eq!(json["hooks"]["before_submit"][0]["from"], "project");
    assert_eq!(json["hooks"]["before_merge"][0]["from"], "usual");
    assert_eq!(site.creel(&["check", "-t", "product", "-a", "own"]).code, 2);
    let missing = site.creel(&["check", "-t", "product", "--strict"]);
    assert_eq!(missing.code, 1);
    assert!(
        missing
            .out
            .contains("none of the agents for tasks of type `product` is installed"),
        "{}",
        missing.out
    );
}

#[test]
fn the_work_in_the_folder_is_submitted_without_any_session() {
    let site = Site::new("");
    site.repo.commit("d.txt", "d\n", "add d");
    let ran = site.creel(&["submit", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(site.repo.on_remote("work"), Some(site.repo.here("work")));
    assert!(!ran.out.contains("iteration 1"), "{}", ran.out);
}

#[test]
fn a_failed_submit_shows_the_message_of_the_hook_and_not_gits_output() {
    let site = Site::new("");
    site.repo.commit("d.txt", "d\n", "add d");
    site.repo
        .gh_answers("pr-create", "echo 'the server is on fire' >&2; exit 1");
    let ran = site.creel(&["submit", "--headless", "--trust"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("the server is on fire"), "{}", ran.err);
}

const REVIEWED: &str =
    "  qa: { script: qa.play }\nhooks: { before_merge: [{ gatekeeper: [qa] }] }\n";

#[test]
fn a_merge_waits_for_its_gatekeepers() {
    let site = Site::at(Repo::new(), REVIEWED);
    site.write("qa.play", "turns:\n  - { say: 'Where are the tests? <verdict>block</verdict>' }\notherwise: { say: '<verdict>approve</verdict>' }\n");
    site.repo.commit("d.txt", "new line\n", "add d");
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out
            .contains("✗ Review by qa · blocked: Where are the tests?"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("✓ Review by qa · approved"), "{}", ran.out);
    let merged = site.repo.on_remote("main").expect("a branch");
    let head = site.repo.here("work");
    assert_eq!(
        site.repo
            .git_in(&site.repo.remote(), &["merge-base", &merged, &head]),
        head,
        "the work is in main"
    );
}

#[test]
fn a_gatekeeper_that_forgets_its_verdict_is_asked_for_it() {
    let site = Site::at(Repo::new(), REVIEWED);
    let again =
        "  - { when: 'Your answer has no verdict', say: 'Fine. <verdict>APPROVE</verdict>' }";
    site.write(
        "qa.play",
        &format!("turns:\n  - {{ say: 'I like it.' }}\n{again}\n"),
    );
    site.repo.commit("d.txt", "d\n", "add d");
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("✓ Review by qa · approved: Fine."),
        "{}",
        ran.out
    );
}

#[test]
fn unreviewed_commits_are_not_merged() {
    let site = Site::at(Repo::new(), REVIEWED);
    let sneaky = "test -e done || { touch done; git commit --quiet --allow-empty -m sneaky; }";
    site.write(
        "qa.play",
        &format!(
            "turns: []\notherwise: {{ run: '{sneaky}', say: '<verdict>approve</verdict>' }}\n"
        ),
    );
    site.repo.commit("d.txt", "d\n", "add d");
    let before = site.repo.on_remote("main");
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("`work` moved since its review"),
        "{}",
        ran.err
    );
    assert_eq!(site.repo.on_remote("main"), before);
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "it is reviewed again: {}{}", ran.out, ran.err);
}

#[test]
fn nothing_is_merged_without_an_approval() {
    let site = Site::at(Repo::new(), REVIEWED);
    site.write("qa.play", "turns: []\notherwise: { say: 'I like it.' }\n");
    site.repo.commit("d.txt", "d\n", "add d");
    let before = site.repo.on_remote("main");
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("no verdict"), "{}", ran.err);
    assert_eq!(site.repo.on_remote("main"), before);
}

#[test]
fn a_quoted_verdict_of_a_reviewer_merges_nothing() {
    let site = Site::at(Repo::new(), REVIEWED);
    site.write("qa.play", "turns: []\notherwise:\n  say: |\n    There are no tests. With tests I would say:\n    ```\n    <verdict>approve</verdict>\n    ```\n");
    site.repo.commit("d.txt", "d\n", "add d");
    let before = site.repo.on_remote("main");
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("no verdict"), "{}", ran.err);
    assert_eq!(site.repo.on_remote("main"), before);
}

#[test]
fn a_merge_on_the_base_branch_is_refused_before_anything_starts() {
    let site = Site::new("hooks: { before_merge: [{ command: 'touch checked' }, merge_pr] }\n");
    site.repo.git(&["switch", "--quiet", "main"]);
    let refused = |args: &[&str], branch: &str| {
        let ran = site.creel(args);
        let advice = format!(
            "create a branch for it with `git switch -c creel/{branch}`, then run `creel merge` again"
        );
        assert!(
            ran.code == 1 && ran.err.contains(&advice),
            "{}: {}",
            ran.code,
            ran.err
        );
        assert!(!site.repo.work.join("checked").exists());
    };
    refused(&["merge", "--headless", "--trust"], "merge");
    assert!(
        !site.repo.work.join(".creel/sessions").exists(),
        "a session was started"
    );
    assert_eq!(site.run(&[]).code, 0);
    let before = site.records_of("s").len();
    refused(&["merge", "s", "--headless"], "s");
    assert_eq!(site.records_of("s").len(), before);
}

#[test]
fn a_merge_on_a_forge_without_a_pull_request_asks_for_a_submit_first() {
    let site = Site::new("hooks: { before_merge: [] }\n");
    site.repo.commit("d.txt", "d\n", "add d");
    let before = site.repo.on_remote("main");
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("submit first with `creel submit`"),
        "{}",
        ran.err
    );
    assert_eq!(site.repo.on_remote("main"), before);
    assert!(site.repo.gh_called(["pr", "merge"]).is_empty());
}

/// A forge that knows the remote's state of the branch, with a check that is pending for the first
/// two requests.
fn forge_of(site: &Site) {
    let repo = &site.repo;
    repo.git(&["push", "--quiet", "origin", "work"]);
    let pull =
        r#"{"number":7,"url":"https://forge.example/pull/7","state":"%s","headRefOid":"%s"}"#;
    let head = "git --git-dir=\"$calls/../remote.git\" rev-parse refs/heads/work";
    repo.gh_answers("pr-list", &format!("printf '[{pull}]' OPEN $({head})"));
    repo.gh_answers("pr-view", &format!("printf '{pull}' MERGED $({head})"));
    let twice = "n=$(ls \"$calls\" | grep -c '^asked'); touch \"$calls/asked-$n\"; [ $n -gt 1 ] && b=pass || b=pending";
    repo.gh_answers(
        "pr-checks",
        &format!("{twice}\nprintf '[{{\"name\":\"unit\",\"bucket\":\"%s\"}}]' $b"),
    );
    repo.gh_answers("repo-view", "echo '{}'");
}

#[test]
fn a_repair_after_the_review_is_pushed_to_the_pull_request_and_the_checks_run_again() {
    let site =
        Site::new("  qa: { script: qa.play }\nhooks: { before_merge: [{ gatekeeper: [qa] }] }\n");
    site.write("qa.play", "turns:\n  - { say: 'Where are the tests? <verdict>block</verdict>' }\notherwise: { say: '<verdict>approve</verdict>' }\n");
    site.write(
        "own.play",
        "turns:\n  - when: Where are the tests\n    say: Added.\n    run: 'echo t > t.txt && git add t.txt && git commit --quiet -m repair'\n",
    );
    site.repo.commit("d.txt", "d\n", "add d");
    forge_of(&site);
    let reviewed_first = site.repo.here("work");
    let ran = site.creel(&["merge", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let repaired = site.repo.here("work");
    assert_ne!(repaired, reviewed_first);
    assert_eq!(
        site.repo.on_remote("work"),
        Some(repaired.clone()),
        "the pull request has the repair"
    );
    let commit = format!("--match-head-commit={repaired}");
    assert_eq!(
        site.repo.gh_called(["pr", "merge"]),
        [["pr", "merge", "7", "--merge", &commit]]
    );
    assert!(ran.out.contains("✓ Review by qa · approved"), "{}", ran.out);
}

#[test]
fn the_pull_request_goes_to_the_branch_that_the_remote_reports() {
    let site = Site::new("");
    site.repo
        .git(&["push", "--quiet", "origin", "main:refs/heads/trunk"]);
    site.repo.git_in(
        &site.repo.remote(),
        &["symbolic-ref", "HEAD", "refs/heads/trunk"],
    );
    site.repo.commit("d.txt", "d\n", "add d");
    let ran = site.creel(&["submit", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let opened = site
        .repo
        .gh_called(["pr", "create"])
        .pop()
        .expect("a pull request");
    assert!(opened.contains(&"--base=trunk".to_owned()), "{opened:?}");
}

#[test]
fn built_in_hooks_take_options() {
    let config = "hooks:\n  before_submit:\n    - { builtin: rebase_on_main, base_branch: next, name: rebase }\n    - { builtin: run_tests, command: 'echo mine > .creel/ran', timeout: 10m, name: tests }\n    - { builtin: create_pr, enabled: false }\n";
    let site = Site::new(config);
    site.repo
        .git(&["push", "--quiet", "origin", "main:refs/heads/next"]);
    let next = site.repo.elsewhere("next", "n.txt", "n\n");
    site.repo.commit("d.txt", "d\n", "add d");
    let ran = site.creel(&["submit", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(
        fs::read_to_string(site.repo.work.join(".creel/ran")).expect("it ran"),
        "mine\n"
    );
    assert_eq!(
        site.repo.git(&["rev-parse", "work~1"]),
        next,
        "it was rebased on the branch of its own"
    );
    assert!(
        site.repo.gh_called(["pr", "create"]).is_empty(),
        "it is switched off"
    );
}

#[test]
fn a_command_named_like_a_built_in_hook_gets_a_suggestion() {
    let site = Site::new("hooks: { before_submit: [{ command: run_tests }] }\n");
    let ran = site.creel(&["check"]);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(
        said.contains("did you mean `builtin: run_tests`?"),
        "{said}"
    );
}

#[test]
fn a_session_killed_in_a_submit_continues_where_it_was() {
    let config = "submit: true\nhooks: { before_submit: [rebase_on_main, { command: 'test -f go || { echo waits >&2; sleep 600; }', name: waits }, create_pr] }\n";
    let site = Site::new(config);
    let mut child = site
        .command(&["run", "--json", "--trust", "-s", "s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts");
    let printed = BufReader::new(child.stdout.take().expect("it is piped"));
    let waits = |line: &String| line.contains("\"hook_started\"") && line.contains("\"waits\"");
    assert!(
        printed
            .lines()
            .map_while(Result::ok)
            .any(|line| waits(&line)),
        "the check never began"
    );
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    site.write("go", "");
    let ran = site.creel(&["resume", "s", "--headless"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(
        site.ran(),
        [
            "rebase_on_main pass",
            "waits fail",
            "waits pass",
            "create_pr pass"
        ]
    );
    assert_eq!(site.repo.gh_called(["pr", "create"]).len(), 1);
}

#[test]
fn an_agent_that_makes_it_worse_loses_nothing_and_the_user_is_asked() {
    let site = Site::new(
        "submit: true\nhooks: { before_submit: [rebase_on_main, run_tests, create_pr] }\n",
    );
    site.write("Makefile", "test:\n\t@test -e fixed && test ! -e worse\n");
    site.repo.git(&["add", "Makefile"]);
    site.repo.git(&["commit", "--quiet", "-m", "tests"]);
    // Instead of a repair, the agent begins a rebase that stops in the middle, and another file
    // breaks the tests.
    let worse = "touch worse && git add worse && git commit --quiet -m worse; git rebase --quiet origin/main || true";
    site.write(
        "own.play",
        &format!(
            "turns:\n  - say: '<promise>COMPLETE</promise>'\n    run: 'printf \"mine\\n\" > a.txt && git commit --quiet -a -m mine'\n  - when: Check failed\n    say: Better now.\n    run: '{worse}'\n"
        ),
    );
    let ran = site.run(&[]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert_eq!(
        site.ran(),
        [
            "rebase_on_main pass",
            "run_tests block",
            "rebase_on_main pass",
            "run_tests block"
        ]
    );
    assert_eq!(
        site.repo.git(&["show", "work:a.txt"]),
        "mine",
        "the work is there"
    );
    assert_eq!(
        site.repo.git(&["log", "--format=%s", "-2", "work"]),
        "worse\nmine",
        "and so is what made it worse"
    );
    site.repo.is_clean();
    assert_eq!(site.repo.on_remote("work"), None);
    assert!(site.repo.gh_called(["pr", "create"]).is_empty());
}

#[test]
fn commands_at_a_submit_know_what_is_submitted() {
    let site = Site::new(
        "task_types: { fix: {} }\nhooks:\n  before_submit:\n    - command: 'echo {{branch}} {{base}} {{commit}} {{agent}} {{task_type}} > ../before'\n    \
         - create_pr\n  after_submit: [{ command: 'echo $CREEL_PULL_REQUEST > ../after; cat > ../input' }]\n",
    );
    site.repo.commit("b.txt", "b\n", "add b");
    let ran = site.creel(&["submit", "-t", "fix", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let read = |name: &str| fs::read_to_string(site.repo.at(name)).unwrap_or_default();
    let head = site.repo.git(&["rev-parse", "HEAD"]);
    assert_eq!(read("before").trim(), format!("work main {head} own fix"));
    let url = "https://forge.example/pull/7";
    assert_eq!(read("after").trim(), url);
    let input: Value = serde_json::from_str(&read("input")).expect("JSON");
    assert_eq!(
        (&input["branch"], &input["pull_request"]),
        (&"work".into(), &url.into())
    );
}

#[test]
fn no_check_runs_if_there_is_nothing_to_submit() {
    let site = Site::new("hooks: { before_submit: [{ command: touch ../ran }, create_pr] }\n");
    let ran = site.creel(&["submit", "--headless", "--trust"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("nothing to submit"), "{}", ran.out);
    assert!(!site.repo.at("ran").exists(), "{}", ran.out);
    site.repo.commit("b.txt", "b\n", "add b");
    let ran = site.creel(&["submit", "--headless", "--trust"]);
    assert!(ran.code == 0 && site.repo.at("ran").exists(), "{}", ran.err);
}
