//! The book (docs/ and README.md) is not stale: its configs pass `creel check`, its command lines
//! parse, its recipes do in real sessions what the text says, and its tables of keys are those of
//! the schema.
//!
//! `tests/fixtures/cookbook.yaml` has the cases of the recipes, and explains them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Parser as _, error::ErrorKind};
use creel::{
    cli::Cli,
    tui::keymap::{ACTIONS, KeyContext, Keymap},
};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    attach::Background,
    notifications::{command, install, install_creel},
    support::project::{Project, Ran, Started, until},
};

const CASES: &str = include_str!("../fixtures/cookbook.yaml");
const COOKBOOK: &str = include_str!("../../docs/cookbook.md");
const FIRST_HOUR: &str = include_str!("../../docs/first-hour.md");
const SCHEMA: &str = include_str!("../../assets/config.schema.json");
/// What begins a config with a name, which cases refer to.
const NAMED: &str = "# creel.yaml: ";
/// Git needs an author, and must not read the config of the user that runs the tests.
const GIT: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "t"),
    ("GIT_AUTHOR_EMAIL", "t@example.org"),
    ("GIT_COMMITTER_NAME", "t"),
    ("GIT_COMMITTER_EMAIL", "t@example.org"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
];

/// A fenced block of a page.
pub(crate) struct CodeBlock {
    pub(crate) language: String,
    pub(crate) text: String,
}

/// The pages with their paths.
pub(crate) fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("docs")];
    let mut found = vec![root.join("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).expect("a page")))
        .collect()
}

pub(crate) fn blocks(page: &str) -> Vec<CodeBlock> {
    let mut found = Vec::new();
    let mut open: Option<CodeBlock> = None;
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), open.as_mut()) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(language), None) => {
                open = Some(CodeBlock {
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    found
}

/// The configs of a page. A block that begins with the name of another file is not one.
fn configs(page: &str) -> Vec<String> {
    let is_config = |text: &str| {
        let first = text.lines().next().unwrap_or_default();
        first.starts_with("# creel.yaml") || !first.starts_with("# ")
    };
    let yaml = blocks(page)
        .into_iter()
        .filter(|block| block.language == "yaml");
    yaml.map(|block| block.text)
        .filter(|text| is_config(text))
        .collect()
}

fn name_of(config: &str) -> Option<&str> {
    config.lines().next()?.strip_prefix(NAMED)
}

/// The config with this name.
fn config_named(name: &str) -> String {
    let mut configs = pages().into_iter().flat_map(|(_, page)| configs(&page));
    configs
        .find(|config| name_of(config) == Some(name))
        .unwrap_or_else(|| panic!("no config `{name}`"))
}

// Configs and command lines

#[test]
fn every_config_of_the_book_passes_the_check() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (path, page) in pages() {
        for config in configs(&page) {
            checked += 1;
            let project = Project::with(&config)
                .file("PROMPT.md", "Do it.\n")
                .file(".claude/settings.json", "{ \"hooks\": {} }\n");
            let Ran { code, err, .. } = project.creel(&["check"]);
            if code != 0 {
                wrong.push(format!("{}\n{config}{err}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 60, "only {checked} configs");
}

/// The command lines of creel in a block of commands or in a transcript. Scripts have variables
/// where creel expects numbers, so they are left out.
fn command_lines(block: &CodeBlock) -> Vec<String> {
    let is_transcript = block.language == "console";
    if !(is_transcript || ["", "sh"].contains(&block.language.as_str()))
        || block.text.starts_with("#!")
    {
        return Vec::new();
    }
    let lines = block.text.lines().map(str::trim);
    let lines = lines.filter_map(|line| {
        if is_transcript {
            line.strip_prefix("$ ")
        } else {
            Some(line)
        }
    });
    let lines = lines.map(|line| line.strip_prefix("nohup ").unwrap_or(line));
    lines
        .filter(|line| line.starts_with("creel "))
        .map(str::to_owned)
        .collect()
}

/// The words of the first command of a line, as a shell splits them.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(end), _) if character == end => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => found.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | '<' | '&' | ';') => {
                // `2>` has a number before it, which is not an argument.
                word = word.filter(|word| word != "2");
                break;
            }
            (Some(_) | None, _) => word.get_or_insert_default().push(character),
        }
    }
    found.extend(word);
    found
}

#[test]
fn every_command_line_of_the_book_parses() {
    let mut wrong = Vec::new();
    let mut parsed = 0;
    for (path, page) in pages() {
        for line in blocks(&page).iter().flat_map(command_lines) {
            parsed += 1;
            let Err(error) = Cli::try_parse_from(words(&line)) else {
                continue;
            };
            if !matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) {
                wrong.push(format!("{}: {line}\n{error}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 80, "only {parsed} command lines");
}

#[test]
fn words_are_split_as_a_shell_splits_them() {
    let split = |line: &str| words(line).join("|");
    assert_eq!(
        split("creel message \"Look at 'it'.\"   # now"),
        "creel|message|Look at 'it'."
    );
    assert_eq!(
        split("creel task add '' a\"b c\"d"),
        "creel|task|add||ab cd"
    );
    assert_eq!(
        split("creel show NAME --json | jq -r ."),
        "creel|show|NAME|--json"
    );
    assert_eq!(split("creel run > log 2>&1 &"), "creel|run");
}

#[test]
fn the_pages_of_agents_install_them_as_creel_says() {
    let known: BTreeMap<String, Value> =
        serde_yaml::from_str(include_str!("../../assets/agents.yaml"))
            .expect("the table of agents");
    let mut checked = 0;
    for (path, page) in pages() {
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let Some(agent) = known.get(name).filter(|_| {
            path.parent()
                .is_some_and(|folder| folder.ends_with("agents"))
        }) else {
            continue;
        };
        let ways = agent["ways"]
            .as_array()
            .expect("its ways")
            .iter()
            .chain([agent]);
        let installs: Vec<&str> = ways.filter_map(|way| way["install"].as_str()).collect();
        for line in blocks(&page)
            .iter()
            .filter(|block| block.language == "sh")
            .flat_map(|block| block.text.lines())
        {
            checked += 1;
            let line = line.split("  #").next().unwrap_or_default().trim_end();
            assert!(installs.contains(&line), "{}: {line}", path.display());
        }
    }
    assert!(checked > 10, "only {checked} commands");
}

// The web site

/// The links of a page to files, without headings.
fn file_links(page: &str) -> Vec<String> {
    let fenced = Regex::new(r"(?ms)^```.*?^```").expect("a regular expression");
    let link = Regex::new(r"\]\(([^)\s#]+)").expect("a regular expression");
    let text = fenced.replace_all(page, "");
    let links = link.captures_iter(&text).map(|found| found[1].to_owned());
    links.filter(|link| !link.contains(':')).collect()
}

#[test]
#[expect(clippy::print_stderr, reason = "a test says what it skips")]
fn the_book_builds_and_its_links_lead_to_pages_of_the_book() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let has_mdbook = Command::new("mdbook").arg("--version").output().is_ok();
    let options: &[&str] = if has_mdbook { &[] } else { &["--stage"] };
    let built = Ran::of(
        &Command::new(root.join("scripts/docs"))
            .args(options)
            .output()
            .expect("scripts/docs starts"),
    );
    assert_eq!(built.code, 0, "{}", built.err);
    assert!(
        !built.err.contains("WARN") && !built.err.contains("ERROR"),
        "{}",
        built.err
    );
    if !has_mdbook {
        eprintln!("mdbook is not installed: only the pages are checked");
    }
    let staged = root.join("target/book-pages/docs");
    let summary = fs::read_to_string(staged.join("SUMMARY.md")).expect("the summary");
    let chapters = file_links(&summary);
    assert!(chapters.len() > 40, "{chapters:?}");
    for chapter in &chapters {
        let path = staged.join(chapter);
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{chapter}: {error}"));
        for link in file_links(&page) {
            assert!(
                path.parent().expect("a folder").join(&link).exists(),
                "{chapter} links to {link}"
            );
        }
    }
    for (path, _) in pages()
        .iter()
        .filter(|(path, _)| path.starts_with(root.join("docs")) && !path.ends_with("SUMMARY.md"))
    {
        let name = path
            .strip_prefix(root.join("docs"))
            .expect("inside")
            .to_str()
            .expect("UTF-8");
        assert!(
            chapters.iter().any(|chapter| chapter == name),
            "SUMMARY.md does not list {name}"
        );
    }
}

// The reference

/// The table of an object of the schema.
fn key_table(schema: &Value, name: &str) -> String {
    let object = if name == "config" {
        schema
    } else {
        &schema["$defs"][name]
    };
    let properties = object["properties"]
        .as_object()
        .unwrap_or_else(|| panic!("the schema has no `{name}`"));
    let keys: BTreeMap<&String, &Value> = properties
        .iter()
        .filter(|(key, _)| !key.contains(char::is_uppercase))
        .collect();
    let rows = keys
        .into_iter()
        .map(|(key, value)| format!("| `{key}` | {} | {} |\n", default(value), meaning(value)));
    format!(
        "| key | default | meaning |\n| --- | --- | --- |\n{}",
        rows.collect::<String>()
    )
}

fn default(value: &Value) -> String {
    match &value["default"] {
        Value::Null => String::new(),
        Value::Object(keys) if keys.is_empty() => String::new(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

fn meaning(value: &Value) -> String {
    let text = value["description"]
        .as_str()
        .unwrap_or_default()
        .replace('|', "\\|");
    let alternatives = value["anyOf"].as_array().into_iter().flatten();
    let choices = std::iter::once(value)
        .chain(alternatives)
        .find_map(|one| one["enum"].as_array());
    let word = |one: &Value| one.as_str().map_or_else(|| one.to_string(), str::to_owned);
    let choices: Vec<String> = choices
        .into_iter()
        .flatten()
        .map(|one| format!("`{}`", word(one)))
        .collect();
    if choices.is_empty() {
        text
    } else {
        format!("{text} One of {}.", choices.join(", "))
    }
}

#[test]
fn the_tables_of_keys_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference-config.md");
    let page = fs::read_to_string(&path).expect("the page");
    let marked = Regex::new(r"<!-- keys: (\w+) -->\n(?:\|.*\n)*").expect("a regular expression");
    let shown: BTreeSet<String> = marked
        .captures_iter(&page)
        .map(|found| found[1].to_owned())
        .collect();
    let objects = schema["$defs"].as_object().expect("objects").iter();
    let objects = objects
        .filter(|(_, object)| object["properties"].is_object())
        .map(|(name, _)| name.clone());
    assert_eq!(
        shown,
        objects.chain(["config".to_owned()]).collect(),
        "each object of the schema has a table"
    );
    let written = marked.replace_all(&page, |found: &regex::Captures<'_>| {
        format!(
            "<!-- keys: {} -->\n{}",
            &found[1],
            key_table(&schema, &found[1])
        )
    });
    if std::env::var_os("UPDATE_ASSETS").is_some() {
        fs::write(&path, written.as_bytes()).expect("it is ours");
    }
    assert!(
        written == page,
        "run the tests with UPDATE_ASSETS=1 to write docs/reference-config.md again"
    );
}

#[test]
fn the_page_of_commands_has_all_of_them_and_the_files_of_the_help() {
    let page = include_str!("../../docs/reference-commands.md");
    let (commands, rest) = page.split_once("## Exit codes").expect("the commands");
    for command in creel::cli::help::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        let name = command.get_name();
        let is_named = [
            format!("`creel {name}`"),
            format!("`creel {name} "),
            format!("`{name}`"),
        ];
        assert!(
            is_named.iter().any(|named| commands.contains(named)),
            "the page has no `creel {name}`"
        );
    }
    let files = include_str!("../../assets/help/files.txt").lines();
    let files: Vec<&str> = files
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .collect();
    assert!(files.len() > 8, "{files:?}");
    for file in files.iter().flat_map(|line| line.split(", ")) {
        assert!(
            rest.contains(&format!("`{file}`")),
            "the page does not list {file}"
        );
    }
}

#[test]
fn the_page_of_records_has_every_kind() {
    let page = include_str!("../../docs/reference-records.md");
    let first = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let first: Vec<String> = first.map(|cell| format!("`{cell}")).collect();
    let code = Regex::new("`([^`]+)`").expect("a regular expression");
    let listed = first
        .iter()
        .flat_map(|cell| code.captures_iter(cell))
        .map(|found| found[1].to_owned());
    // The name of a kind of one's own is open.
    let listed: BTreeSet<String> = listed.filter(|kind| kind != "custom.*").collect();
    let list = Regex::new(r"(?s)const KINDS: [^=]*=\s*&\[(.*?)\]").expect("a regular expression");
    let name = Regex::new(r#""([a-z_]+)""#).expect("a regular expression");
    let mut kinds = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
        {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = fs::read_to_string(path).expect("a source file");
            let lists = list
                .captures_iter(&source)
                .map(|found| found[1].to_owned())
                .collect::<Vec<_>>();
            kinds.extend(
                lists
                    .iter()
                    .flat_map(|list| name.captures_iter(list))
                    .map(|found| found[1].to_owned()),
            );
        }
    }
    assert_eq!(listed, kinds);
}

#[test]
fn the_mistake_on_the_page_of_the_config_is_reported_like_that() {
    let page = include_str!("../../docs/reference-config.md");
    let shown = blocks(page)
        .into_iter()
        .find(|block| block.language == "text")
        .expect("the mistake")
        .text;
    let config = format!(
        "{}hooks:\n    post_iterations:\n      - command: x\n",
        "# a line\n".repeat(10)
    );
    let reported = Project::with(&config).creel(&["check"]).err;
    assert!(
        reported.trim_end().ends_with(shown.trim_end()),
        "{reported}"
    );
}

/// The page of all keys.
fn key_page() -> String {
    let keymap = Keymap::standard();
    let mut page = String::from(
        "# Keys\n\nThe default keys of the screen, from [`assets/keymap.yaml`](../assets/keymap.yaml). A key of a pane, a gate or the viewer \
         counts before one that\nis valid everywhere. [The screen](screen.md#your-own-keys-and-colors) says how to choose your own: use the names of the \
         section\nand of the action.\n",
    );
    for context in KeyContext::ALL {
        page += &format!(
            "\n## {}\n\nThe section `{}`.\n\n",
            context.title(),
            context.name()
        );
        page += "| key | what it does | action |\n| --- | --- | --- |\n";
        for (_, action, name, about) in ACTIONS.iter().filter(|(at, ..)| *at == context) {
            let keys: Vec<String> = keymap
                .keys(*action)
                .split(' ')
                .map(|key| format!("`{key}`"))
                .collect();
            page += &format!("| {} | {about} | `{name}` |\n", keys.join(", "));
        }
    }
    page
}

#[test]
fn the_page_of_keys_is_that_of_the_keymap() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference-keys.md");
    let written = key_page();
    if std::env::var_os("UPDATE_ASSETS").is_some() {
        fs::write(&path, &written).expect("it is ours");
    }
    let page = fs::read_to_string(&path).expect("the page");
    assert!(
        written == page,
        "run the tests with UPDATE_ASSETS=1 to write docs/reference-keys.md again"
    );
}

/// The keys in the first cell of each row of a page's tables.
fn keys_in_tables(page: &str) -> Vec<String> {
    let key = Regex::new("`([^`]+)`").expect("a regular expression");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    rows.filter_map(|row| row.split(" | ").next())
        .flat_map(|cell| key.captures_iter(cell).map(|found| found[1].to_owned()))
        .collect()
}

#[test]
fn the_pages_about_the_screen_name_keys_that_exist() {
    let keymap = Keymap::standard();
    let is_bound = |contexts: &[&str], key: &str| {
        let mut actions = ACTIONS
            .iter()
            .filter(|(at, ..)| contexts.contains(&at.name()));
        actions.any(|(_, action, ..)| keymap.keys(*action).split(' ').any(|bound| bound == key))
    };
    let screen = include_str!("../../docs/screen.md");
    let (_, keys) = screen.split_once("## Keys").expect("the keys");
    let (everywhere, _) = keys.split_once("\n## ").expect("the next section");
    let home = include_str!("../../docs/home.md");
    let screen = keys_in_tables(everywhere).into_iter();
    let home = keys_in_tables(home).into_iter();
    let named: Vec<_> = screen
        .map(|key| (&["global", "scroll"][..], key))
        .chain(home.map(|key| (&["home", "scroll", "global"][..], key)))
        .collect();
    assert!(named.len() > 30, "{named:?}");
    let unknown: Vec<_> = named
        .iter()
        .filter(|(contexts, key)| !is_bound(contexts, key))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

// Recipes

/// How a recipe is run, and what it must do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeCase {
    recipe: String,
    page: Option<String>,
    #[serde(default)]
    tools: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    before: Option<String>,
    turns: Option<String>,
    config: Option<String>,
    #[serde(default)]
    code: i32,
    #[serde(default)]
    records: Vec<Value>,
    #[serde(default)]
    never: Vec<Value>,
    #[serde(default)]
    left: BTreeMap<String, Value>,
    after: Option<String>,
}

impl RecipeCase {
    fn project(&self) -> Project {
        let config = config_named(&self.recipe);
        let has = |key: &str| {
            config
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .map(str::trim)
        };
        let goal = if has("prompt").is_some() {
            ""
        } else {
            "prompt: GOAL\n"
        };
        let agent = self.config.clone().unwrap_or_else(|| match has("agent:") {
            Some(name) => format!("agents: {{ {name}: {{ script: scenario.yaml }} }}\n"),
            None => "agent: demo\nagents: { demo: { script: scenario.yaml } }\n".to_owned(),
        });
        let mut project = Project::with(&format!("{config}{goal}{agent}"));
        install_creel(&project);
        for (name, script) in &self.tools {
            install(&project, name, &format!("#!/bin/sh\n{script}\n"));
        }
        for (name, text) in &self.files {
            project = project.file(name, text);
            let path = project.root().join(name);
            if path.extension().is_some_and(|extension| extension == "sh") {
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
            }
        }
        if let Some(turns) = &self.turns {
            project = project.file("scenario.yaml", turns);
        }
        project
    }

    /// What the session did wrong, and what it printed.
    fn problems(&self) -> (Vec<String>, String) {
        let project = self.project();
        if let Some(script) = &self.before {
            let ran = run(&project, "sh", &["-ec", script]);
            assert_eq!(ran.code, 0, "{}: {}", self.recipe, ran.err);
        }
        let ran = match &self.page {
            Some(page) => run(&project, "sh", &["-ec", &commands_of(page)]),
            None => run(
                &project,
                "creel",
                &["run", "--headless", "--trust", "-s", "s"],
            ),
        };
        let mut problems = Vec::new();
        if ran.code != self.code {
            problems.push(format!("exit code {}", ran.code));
        }
        let records = only_session(&project);
        let mut rest = records.iter();
        for wanted in &self.records {
            if !rest.any(|record| matches(wanted, record)) {
                problems.push(format!("no record {wanted}"));
                break;
            }
        }
        for unwanted in self
            .never
            .iter()
            .filter(|one| records.iter().any(|record| matches(one, record)))
        {
            problems.push(format!("a record {unwanted}"));
        }
        for (name, wanted) in &self.left {
            let left =
                fs::read_to_string(project.root().join(name)).map_or(Value::Null, Value::String);
            if !matches(wanted, &left) {
                problems.push(format!("{name} has {left}"));
            }
        }
        if let Some(script) = &self.after {
            let after = run(&project, "sh", &["-ec", script]);
            if after.code != 0 {
                problems.push(format!("`{script}` failed: {}{}", after.out, after.err));
            }
        }
        if !problems.is_empty() {
            problems.push(format!("{}{}", ran.out, ran.err));
        }
        (problems, ran.out)
    }
}

/// What a user of a tutorial types: its blocks of commands, and the steps of its workflow. Nothing
/// runs in the background, so that the next command finds a session that has ended.
fn commands_of(page: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs").join(page)).expect("the page");
    let mut found = String::from("export GITHUB_STEP_SUMMARY=../summary.md\n");
    for CodeBlock { language, text } in blocks(&page) {
        if language == "sh" {
            found += &text
                .replace("nohup ", "")
                .replace(" > ../refactor.log 2>&1 &\n", "\n");
        } else if text.starts_with("# .github/workflows/") {
            found += &workflow_steps(&text);
        }
    }
    found
}

/// The commands of a workflow, with `GOAL` as the value of every expression.
fn workflow_steps(text: &str) -> String {
    let workflow: Value = serde_yaml::from_str(text).expect("a workflow");
    let steps = workflow["jobs"]["creel"]["steps"]
        .as_array()
        .expect("its steps");
    let mut found = String::new();
    for step in steps {
        for (name, _) in step["env"].as_object().into_iter().flatten() {
            found += &format!("export {name}=GOAL\n");
        }
        found += step["run"].as_str().unwrap_or_default();
        found += "\n";
    }
    found
}

/// The records of the one session of the project, whatever its name.
fn only_session(project: &Project) -> Vec<Value> {
    let sessions = project.root().join(".creel/sessions");
    let mut journals = fs::read_dir(sessions)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path().join("journal.jsonl"))
        .filter(|path| path.exists());
    let (first, second) = (journals.next(), journals.next());
    assert_eq!(second, None, "a case has one session");
    let text = first.map_or_else(String::new, |path| {
        fs::read_to_string(path).expect("a journal")
    });
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

/// Whether a value has at least what is wanted. `~TEXT` wants a text that contains TEXT.
fn matches(wanted: &Value, value: &Value) -> bool {
    match wanted {
        Value::String(text) if text.starts_with('~') => value
            .as_str()
            .is_some_and(|value| value.contains(&text[1..])),
        Value::Object(fields) => fields
            .iter()
            .all(|(key, wanted)| matches(wanted, &value[key])),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            wanted == value
        }
    }
}

fn run(project: &Project, program: &str, arguments: &[&str]) -> Ran {
    Ran::of(
        &command(project, program, arguments)
            .envs(GIT)
            .output()
            .expect("it starts"),
    )
}

fn cases() -> Vec<RecipeCase> {
    serde_yaml::from_str(CASES).expect("cases")
}

#[test]
fn every_recipe_of_the_cookbook_has_a_case() {
    let configs = configs(COOKBOOK);
    let recipes: BTreeSet<&str> = configs
        .iter()
        .filter_map(|config| name_of(config))
        .collect();
    assert!(
        recipes.len() >= 25 && recipes.len() == configs.len(),
        "{recipes:?}"
    );
    let cases = cases();
    let covered: BTreeSet<&str> = cases.iter().map(|case| case.recipe.as_str()).collect();
    assert_eq!(
        recipes.difference(&covered).collect::<Vec<_>>(),
        Vec::<&&str>::new()
    );
}

/// Pages of the book's first part that need no case: they are no tutorials, or have tests of their
/// own.
const WITHOUT_A_CASE: [&str; 6] = [
    "first-session.md",
    "windows.md",
    "first-hour.md",
    "goal-to-merge.md",
    "concepts.md",
    "coming-from.md",
];

#[test]
fn every_tutorial_has_a_case() {
    let summary = include_str!("../../docs/SUMMARY.md");
    let (_, first) = summary.split_once("\n# Start\n").expect("the first part");
    let (first, _) = first.split_once("\n# ").expect("the second part");
    let cases = cases();
    let covered: BTreeSet<&str> = cases.iter().filter_map(|it| it.page.as_deref()).collect();
    let mut without = file_links(first);
    assert!(without.len() > 8, "{without:?}");
    without.retain(|page| !covered.contains(&**page) && !WITHOUT_A_CASE.contains(&&**page));
    assert!(
        without.is_empty(),
        "tests/fixtures/cookbook.yaml has no case with `page:` for {without:?}"
    );
    for page in covered {
        assert!(commands_of(page).contains("creel run"), "{page}");
    }
}

/// The lines of sessions that the book shows, with the recipe before them.
fn shown_lines() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (_, page) in pages() {
        let mut recipe = None;
        for CodeBlock { language, text } in blocks(&page) {
            match (language.as_str(), &recipe) {
                ("yaml", _) => recipe = name_of(&text).map(str::to_owned),
                ("text", Some(recipe)) => {
                    found.extend(text.lines().map(|line| (recipe.clone(), line.to_owned())));
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether a session printed the line, apart from its name, times and sizes. `…` at the end stands
/// for the rest.
fn is_printed(line: &str, printed: &str) -> bool {
    let varies = Regex::new(r"[0-9.]+ ?(ms|s|bytes?)\b|\b\d\d:\d\d\b|/(s|fix-parser)$")
        .expect("a regular expression");
    let line = varies.replace_all(line, "N");
    printed
        .lines()
        .map(|printed| varies.replace_all(printed.trim_end(), "N").into_owned())
        .any(|printed| {
            line.strip_suffix('…').map_or_else(
                || line == printed,
                |beginning| printed.starts_with(beginning),
            )
        })
}

#[test]
fn the_recipes_do_what_the_book_says() {
    let mut wrong = Vec::new();
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    for case in cases() {
        let (problems, output) = case.problems();
        if !problems.is_empty() {
            wrong.push(format!("── {}\n{}", case.recipe, problems.join("\n")));
        }
        *printed.entry(case.recipe).or_default() += &output;
    }
    let shown: Vec<_> = shown_lines()
        .into_iter()
        .filter(|(recipe, _)| printed.contains_key(recipe))
        .collect();
    assert!(shown.len() > 30, "{shown:?}");
    for (recipe, line) in shown
        .iter()
        .filter(|(recipe, line)| !is_printed(line, &printed[recipe]))
    {
        wrong.push(format!("── {recipe}: no session prints this line:\n{line}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// Worktrees

#[test]
fn the_commands_that_discard_a_worktree_leave_nothing_of_it() {
    let page = include_str!("../../docs/worktrees.md");
    let (_, section) = page
        .split_once("## Discard the work\n")
        .expect("the section");
    let script = &blocks(section)[0].text;
    let agent = "echo 1 > a && git add a && git commit -qm 1 && echo 2 > a && echo 3 > b && echo '<promise>COMPLETE</promise>'";
    let project = Project::with(&format!(
        "agent: a\nagents: {{ a: {{ command: {agent:?} }} }}\n"
    ));
    install_creel(&project);
    let in_shell = |script: &str| {
        let ran = run(&project, "sh", &["-ec", script]);
        assert_eq!(ran.code, 0, "{script}\n{}{}", ran.out, ran.err);
        ran.out
    };
    in_shell(
        "git init -q . && git add -A && git commit -qm Start && creel run --headless --trust --worktree parser x",
    );
    assert!(in_shell("creel worktree list").contains("uncommitted changes (a, b)"));
    in_shell(script);
    project.write("mine", "not committed\n");
    assert_ne!(
        run(&project, "sh", &["-c", script]).code,
        0,
        "there is no such worktree any more"
    );
    assert_eq!(
        project.read("mine"),
        "not committed\n",
        "and the user's own checkout is not reset"
    );
    assert_eq!(
        in_shell("creel worktree list --json; git branch --list 'creel/*'; ls .creel/worktrees"),
        "[]\n"
    );
}

// The first hour

/// The project of the page, with one of its configs.
fn first_hour(config: &str) -> Project {
    let mut project = Project::with(config);
    for name in ["slug.sh", "test.sh", "agent.sh"] {
        let heading = format!("#!/bin/sh\n# {name}: ");
        let script = blocks(FIRST_HOUR)
            .into_iter()
            .map(|block| block.text)
            .find(|text| text.starts_with(&heading));
        project = project.file(
            name,
            &script.unwrap_or_else(|| panic!("the page has no {name}")),
        );
    }
    // As the page says: a repository with everything committed. What this test installs is not part
    // of it.
    assert_eq!(
        run(
            &project,
            "sh",
            &["-ec", "git init -q . && git add -A && git commit -qm Start"]
        )
        .code,
        0
    );
    install_creel(&project);
    project
}

/// The output that the page shows for a command.
fn shown_output(command: &str) -> Vec<String> {
    let transcripts = blocks(FIRST_HOUR)
        .into_iter()
        .filter(|block| block.language == "console");
    let texts: Vec<String> = transcripts.map(|block| block.text).collect();
    let heading = format!("$ {command}\n");
    let text = texts
        .iter()
        .rev()
        .find_map(|text| text.split_once(heading.as_str()))
        .expect("a transcript")
        .1;
    text.lines()
        .take_while(|line| !line.starts_with("$ "))
        .map(without_time)
        .collect()
}

fn without_time(line: &str) -> String {
    let times = Regex::new(r"( · [0-9.]+ ?(ms|s)$)|(^  took +[0-9hms ]+ · )")
        .expect("a regular expression");
    times.replace(line.trim_end(), "").into_owned()
}

#[test]
fn the_first_hour_is_as_the_page_shows_it() {
    let first = first_hour(&config_named("first-hour"));
    let checked = run(&first, "creel", &["check"]).out;
    let shown = shown_output("creel check");
    let begins = checked
        .lines()
        .skip(1)
        .take(shown.len() - 1)
        .collect::<Vec<_>>();
    assert_eq!(begins, shown[1..], "after the path of the config");
    let untrusted = run(&first, "creel", &["run", "--headless", "-s", "s"]);
    assert_eq!(untrusted.code, 2, "{}", untrusted.err);
    let commands = untrusted
        .err
        .split("You have not trusted it yet:\n")
        .nth(1)
        .expect("the commands");
    let commands = commands.split("Read them").next().expect("their end");
    assert!(
        FIRST_HOUR.contains(&format!(
            "{commands}Trust this config as it is now, and run them? [y/N] n\n"
        )),
        "{commands}"
    );
    let ran = run(
        &first,
        "creel",
        &["run", "--headless", "--trust", "-s", "s"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    // Hook output is printed while it comes, so the place of its lines can vary.
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    // The page has another name for the session.
    let printed = ran.out.replace("creel show s\n", "creel show first\n");
    let printed = printed.lines().map(without_time).collect();
    assert_eq!(
        sorted(printed),
        sorted(shown_output("creel run --headless -s first"))
    );

    let second =
        first_hour(&config_named("first-hour-gate")).file("slug.sh", &first.read("slug.sh"));
    let started = run(
        &second,
        "creel",
        &["run", "--detach", "--trust", "-s", "s", "Document slug.sh."],
    );
    assert_eq!(started.code, 0, "{}", started.err);
    let second = Background::of(second);
    second.waits_for("gate_opened");
    assert_eq!(
        second.project.creel(&["gate", "list"]).out.trim_end(),
        shown_output("creel gate list").join("\n")
    );
    let answer = [
        "gate",
        "answer",
        "1",
        "send",
        "Write a README.md with one example.",
    ];
    assert_eq!(second.project.creel(&answer).code, 0);
    second.ends("complete");
    assert!(second.project.read("README.md").contains("sh slug.sh"));

    let night = first_hour(&config_named("first-hour-night").replace("sleep 3; ", ""));
    let ran = run(
        &night,
        "creel",
        &["run", "--headless", "--trust", "-s", "s"],
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(
        run(&night, "git", &["log", "-1", "--format=%s"]).out,
        "s: iteration 1\n"
    );
}

#[test]
fn the_first_hours_killed_session_is_resumed_as_the_page_shows_it() {
    // The agent takes long at first, and no time once the session is resumed.
    let config = config_named("first-hour-night").replace(
        "sleep 3; ",
        "[ -e ../go ] || { echo > ../here; sleep 60; }; ",
    );
    assert!(config.contains("../go"));
    let night = first_hour(&config);
    let mut run_it = command(
        &night,
        "creel",
        &["run", "--json", "--trust", "-s", "night"],
    );
    run_it.envs(GIT);
    let mut session = Started::of(run_it);
    session.wait_for("prompt_sent");
    until("the agent works", || night.root().join("../here").exists());
    session.kill();
    let shown = shown_output("creel sessions");
    let listed = run(&night, "creel", &["sessions"]).out;
    // The page lists other sessions, too, so its columns are wider, and the session is older.
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let row = |text: &str| {
        words(text)
            .into_iter()
            .filter(|word| word.parse::<u32>().is_err())
            .collect::<Vec<_>>()
    };
    let listed: Vec<Vec<String>> = listed.lines().map(row).collect();
    assert_eq!(
        listed,
        shown
            .iter()
            .take(2)
            .map(|line| row(line))
            .collect::<Vec<_>>()
    );

    night.write("../go", "");
    let ran = run(&night, "creel", &["resume", "night", "--headless"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // The shell that runs the agent may not have started `sleep` yet.
    let printed = ran.out.replace("Ended 1 process ", "Ended 2 processes ");
    let printed: Vec<String> = printed.lines().map(without_time).collect();
    for line in shown_output("creel resume night --headless")
        .iter()
        .filter(|line| *line != "…")
    {
        assert!(printed.contains(line), "not printed: {line}\n{}", ran.out);
    }
}
