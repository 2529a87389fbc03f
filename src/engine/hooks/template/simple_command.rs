//! One simple command of a command line: its words, and which of them, or what on its input, another program reads as code.
//!
//! Owns the list of programs that do. Does not read the shell's grammar: see [`super::shell`].
//!
//! # Invariants
//! - In doubt it is code: an option that may take a word is taken to have one, and a program that is named by a
//!   variable is taken for a shell.

/// What of its arguments a program reads as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeArguments {
    /// All of them.
    All,
    /// The first that is no option.
    First,
    /// What follows an option of it, wherever that stands.
    Flagged,
    /// The same, but not after the script: what stands there is for that.
    BeforeScript,
    /// The script itself, if an option before it says so.
    FlaggedScript,
}

/// When a program reads its input as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeInput {
    Always,
    /// If no file was named that has the code.
    WithoutScript,
    Never,
}

#[derive(Debug)]
struct InterpreterSpec {
    names: &'static [&'static str],
    code: CodeArguments,
    /// Letters of the options that code comes with.
    flags: &'static str,
    /// Letters of the options that take the next word, which is no code.
    takes: &'static str,
    input: CodeInput,
}

/// Their arguments are looked for anywhere in a command, since `sudo`, `env` and many others run what they are told to.
const ANYWHERE: &[InterpreterSpec] = &[
    InterpreterSpec { code: CodeArguments::FlaggedScript, ..SHELL },
    InterpreterSpec { names: &["fish"], flags: "cC", ..SHELL },
    InterpreterSpec { names: &["pwsh", "powershell"], ..SHELL },
    InterpreterSpec { names: &["su", "runuser"], takes: "gGsw", input: CodeInput::Always, ..SHELL },
    InterpreterSpec { names: &["eval"], code: CodeArguments::All, input: CodeInput::Never, ..SHELL },
    InterpreterSpec { names: &["ssh", "mosh", "rsh"], code: CodeArguments::All, input: CodeInput::Always, ..SHELL },
    InterpreterSpec { names: &["python", "pypy"], takes: "WX", ..INTERPRETER },
    InterpreterSpec { names: &["perl", "ruby"], flags: "eE", takes: "Ir", ..INTERPRETER },
    InterpreterSpec {
        names: &["node", "nodejs", "bun", "julia", "Rscript"],
        flags: "eEp",
        takes: "rCtJL",
        ..INTERPRETER
    },
    InterpreterSpec { names: &["php"], flags: "rBRE", takes: "dc", ..INTERPRETER },
    InterpreterSpec { names: &["lua", "luajit", "osascript"], flags: "e", takes: "l", ..INTERPRETER },
];

const INTERPRETER: InterpreterSpec = InterpreterSpec { code: CodeArguments::BeforeScript, ..SHELL };

/// Nobody but the shell itself can do this.
const SOURCE: InterpreterSpec = InterpreterSpec { names: &[".", "source"], flags: "", takes: "", ..SHELL };

/// A shell, and whatever a variable names.
const SHELL: InterpreterSpec = InterpreterSpec {
    names: &["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh"],
    code: CodeArguments::Flagged,
    flags: "c",
    takes: "oO",
    input: CodeInput::WithoutScript,
};

/// Their names are common words: only where a program is expected.
const IN_PLACE: &[InterpreterSpec] = &[
    // `let` calculates, and runs what stands in a number.
    InterpreterSpec {
        names: &["trap", "watch", "tmux", "let"],
        code: CodeArguments::All,
        input: CodeInput::Never,
        ..SHELL
    },
    InterpreterSpec { names: &["parallel"], code: CodeArguments::All, input: CodeInput::Always, ..SHELL },
    InterpreterSpec { names: &["at", "batch", "crontab"], flags: "", input: CodeInput::Always, ..SHELL },
    SOURCE,
    InterpreterSpec { names: &["script", "flock", "sg", "expect"], input: CodeInput::Never, ..SHELL },
    InterpreterSpec { names: &["env"], flags: "S", takes: "uC", input: CodeInput::Never, ..SHELL },
    InterpreterSpec { names: &["nix-shell"], flags: "", input: CodeInput::Never, ..SHELL },
    InterpreterSpec {
        names: &["awk", "gawk", "mawk", "nawk", "sed", "gsed"],
        code: CodeArguments::First,
        flags: "e",
        takes: "vFfl",
        input: CodeInput::Never,
    },
];

/// Long options that code comes with.
const LONG: &[&str] = &[
    "--command",
    "--session-command",
    "--init-command",
    "--split-string",
    "--run",
    "--eval",
    "--print",
    "--expression",
    "--source",
    "-Command",
];

/// How long options begin that take no word after them.
const ALONE: &[&str] = &["--no-", "--enable-"];

/// They run what they are told to: see [`runs_next`].
const WRAPPERS: &[&str] = &[
    "sudo",
    "doas",
    "env",
    "exec",
    "command",
    "builtin",
    "nohup",
    "nice",
    "ionice",
    "timeout",
    "setsid",
    "time",
    "xargs",
    "chroot",
    "stdbuf",
    "flock",
    "find",
    "docker",
    "podman",
    "kubectl",
    "busybox",
    "unshare",
    "nsenter",
    "strace",
    "coproc",
    "unbuffer",
    "systemd-run",
    "caffeinate",
    "chronic",
    "gosu",
    "poetry",
    "uv",
    "pipenv",
    "direnv",
];

/// Of these, whose first operand is not the program.
const WITH_OPERAND: &[&str] = &["flock", "chroot", "gosu", "coproc"];

/// Of these, who run something only after one of [`RUN`].
const WITH_VERB: &[&str] = &["find", "docker", "podman", "kubectl", "poetry", "uv", "pipenv", "direnv"];
const RUN: &[&str] = &["-exec", "-execdir", "-ok", "-okdir", "exec", "run", "debug"];

/// They run nothing: a shell's name after one of these is only a word.
const TELLERS: &[&str] = &["echo", "printf", "grep", "egrep", "rg", "cat", "tee", "logger", "test", "["];

/// Operators for which `[[` calculates, and runs what stands in a number.
const CALCULATING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Words before a command.
const KEYWORDS: &[&str] = &["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"];

/// Names of the standard input.
const STANDARD_INPUT: &[&str] = &["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// The simple command that is being read, as far as seen.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    words: Vec<String>,
    /// The word being read; empty quotes make it `Some("")`.
    pub(super) word: Option<String>,
    /// Whether the word being read, or the next, is where a redirection goes to.
    redirected: bool,
    /// Whether a value stands in it that could do harm as code.
    pub(super) has_value: bool,
}

impl SimpleCommand {
    /// The word being read has ended; it is given back.
    pub(super) fn end_word(&mut self) -> Option<&str> {
        let word = self.word.take()?;
        if std::mem::take(&mut self.redirected) {
            return None;
        }
        self.words.push(word);
        self.words.last().map(String::as_str)
    }

    /// A `<` or `>` comes. A number before it belongs to it.
    pub(super) fn drop_number(&mut self) {
        let number = |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        if self.word.as_ref().is_some_and(number) {
            self.word = None;
        }
    }

    /// The next word is where a redirection goes to.
    pub(super) fn redirect(&mut self) {
        self.redirected = true;
    }

    /// A here-document was announced, whose end mark is no word.
    pub(super) fn marked(&mut self) {
        self.redirected = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.word.is_none() && !self.redirected
    }

    /// The only word so far, or the last of several that are all said before a command.
    pub(super) fn leading(&self) -> Option<&str> {
        let (last, before) = self.words.split_last()?;
        before.iter().all(|word| KEYWORDS.contains(&word.as_str())).then_some(last)
    }

    /// The names of the variables that get what is being read.
    pub(super) fn assigns(&self) -> Vec<&str> {
        let word = self.word.as_deref().unwrap_or_default();
        let at = self.place();
        match at.map(|at| self.words[at].as_str()) {
            Some("for" | "select") => {
                self.words.get(at.map_or(0, |at| at + 1)).map(String::as_str).into_iter().collect()
            }
            Some("set") => vec!["@", "*", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
            Some(_) | None if is_assignment(word) => word.split_once('=').map(|(name, _)| name).into_iter().collect(),
            Some(_) | None => Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the word being read is code for another program.
    pub(super) fn is_code(&self) -> bool {
        let word = self.word.as_deref().unwrap_or_default();
        self.programs().any(|(at, program)| program.takes_as_code(&self.words[at + 1..], word))
    }

    /// Whether it calculates with a value that stands in it.
    pub(super) fn calculates(&self) -> bool {
        // `&&` stands in `[[ … ]]` as well.
        let is_test = self.names("[[") || self.names("]]");
        self.has_value && is_test && self.words.iter().any(|word| CALCULATING.contains(&word.as_str()))
    }

    /// Whether another program reads this command's input as code, or what it was given before.
    pub(super) fn reads_code(&self) -> bool {
        if self.place().is_some_and(|at| TELLERS.contains(&base(&self.words[at]))) {
            return false;
        }
        // What `xargs` reads becomes arguments of that shell, and with `-I` a part of its code.
        let by_xargs = |program: &InterpreterSpec| match program.code {
            CodeArguments::Flagged | CodeArguments::BeforeScript | CodeArguments::FlaggedScript => self.names("xargs"),
            CodeArguments::All | CodeArguments::First => false,
        };
        let reads =
            |(at, program): (usize, &InterpreterSpec)| by_xargs(program) || program.reads_code(&self.words[at + 1..]);
        self.programs().filter(|(at, _)| self.is_run(*at)).any(reads)
    }

    fn names(&self, program: &str) -> bool {
        self.words.iter().any(|word| base(word) == program)
    }

    /// The word that names the program.
    fn place(&self) -> Option<usize> {
        let before = |word: &String| KEYWORDS.contains(&word.as_str()) || is_assignment(word);
        self.words.iter().position(|word| !before(word))
    }

    /// Whether this word may be a program that is run.
    fn is_run(&self, at: usize) -> bool {
        self.place().is_some_and(|place| place == at || (place < at && runs_next(&self.words[place..at])))
    }

    /// All words that may name a program that reads code, and where they stand.
    fn programs(&self) -> impl Iterator<Item = (usize, &'static InterpreterSpec)> {
        let place = self.place();
        self.words.iter().enumerate().filter_map(move |(at, word)| {
            let program = find(word, self.is_run(at))?;
            (program.names != SOURCE.names || place == Some(at)).then_some((at, program))
        })
    }
}

/// Whether what stands after these words may be a program that the first of them runs.
fn runs_next(words: &[String]) -> bool {
    let Some((wrapper, rest)) = words.split_first() else { return false };
    let name = base(wrapper);
    if !WRAPPERS.contains(&name) {
        return false;
    }
    if WITH_VERB.contains(&name) {
        return rest.iter().any(|word| RUN.contains(&word.as_str()));
    }
    let mut operands = usize::from(WITH_OPERAND.contains(&name));
    let mut after_option = false;
    for (at, word) in rest.iter().enumerate() {
        if runs_next(&rest[at..]) {
            return true;
        }
        let may_be_before = after_option
            || is_option(word)
            || is_assignment(word)
            || WRAPPERS.contains(&base(word))
            || word.starts_with(|c: char| c.is_ascii_digit());
        after_option = is_option(word);
        if !may_be_before {
            if operands == 0 {
                return false;
            }
            operands -= 1;
        }
    }
    true
}

impl InterpreterSpec {
    /// Whether a word is code that stands after these.
    fn takes_as_code(&self, before: &[String], word: &str) -> bool {
        let flagged = || {
            let after = |(at, _): (usize, &String)| self.operand(&before[at + 1..]).is_none();
            self.is_flag(word) || before.iter().enumerate().filter(|(_, word)| self.is_flag(word)).any(after)
        };
        match self.code {
            CodeArguments::All => true,
            CodeArguments::First => {
                let is_value = before.last().is_some_and(|option| !option.starts_with("--") && self.takes_next(option));
                flagged() || (!is_value && self.operand(before).is_none())
            }
            CodeArguments::Flagged => flagged(),
            CodeArguments::BeforeScript => self.takes_before_script(before, word),
            CodeArguments::FlaggedScript => self.takes_as_script(before, word),
        }
    }

    fn takes_as_script(&self, before: &[String], word: &str) -> bool {
        let mut flagged = false;
        let mut before = before.iter();
        while let Some(option) = before.next() {
            if !is_option(option) {
                return false;
            }
            flagged |= self.is_flag(option);
            // `-oe pipefail`: the letter need not be the last.
            let takes =
                self.takes_next(option) || (!option.starts_with("--") && option.contains(|c| self.takes.contains(c)));
            if takes && before.as_slice().first().is_some_and(|next| !is_option(next)) {
                before.next();
            }
        }
        flagged || self.is_flag(word)
    }

    fn takes_before_script(&self, before: &[String], word: &str) -> bool {
        let mut before = before.iter();
        while let Some(option) = before.next() {
            if !is_option(option) {
                return false;
            }
            let is_flag = self.is_flag(option);
            match before.as_slice().first() {
                None => return is_flag || self.is_flag(word),
                // An option that only may take a word does not take another option.
                Some(next) if is_flag || (self.takes_next(option) && !is_option(next)) => drop(before.next()),
                Some(_) => {}
            }
        }
        self.is_flag(word)
    }

    fn reads_code(&self, rest: &[String]) -> bool {
        match self.input {
            CodeInput::Always => true,
            CodeInput::Never => false,
            CodeInput::WithoutScript => {
                let from_input = |word: &String| STANDARD_INPUT.contains(&word.as_str()) || word == "-s";
                let flagged = rest.iter().any(|word| self.is_flag(word));
                rest.iter().any(from_input) || (!flagged && self.operand(rest).is_none())
            }
        }
    }

    /// Whether code comes with this option, in the word itself or after it.
    fn is_flag(&self, word: &str) -> bool {
        if LONG.iter().any(|long| word.strip_prefix(long).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
        {
            return true;
        }
        word.starts_with('-') && !word.starts_with("--") && word.contains(|c| self.flags.contains(c))
    }

    /// The first word that is no option, nor the value of one.
    fn operand<'a>(&self, words: &'a [String]) -> Option<&'a str> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if !is_option(word) {
                return Some(word);
            }
            if self.takes_next(word) {
                words.next();
            }
        }
        None
    }

    /// Whether this is an option whose value is the next word. Any long one may be.
    fn takes_next(&self, word: &str) -> bool {
        if word.starts_with("--") {
            return word != "--" && !word.contains('=') && !ALONE.iter().any(|alone| word.starts_with(alone));
        }
        is_option(word) && word.ends_with(|c| self.takes.contains(c))
    }
}

/// The program of that name; `expected` where a command begins.
fn find(word: &str, expected: bool) -> Option<&'static InterpreterSpec> {
    let name = base(word);
    if expected && name.starts_with(['$', '`']) {
        return Some(&ANYWHERE[0]);
    }
    // `python3.11`.
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let known = |program: &&InterpreterSpec| program.names.contains(&name) || program.names.contains(&bare);
    let in_place = IN_PLACE.iter().filter(|_| expected);
    ANYWHERE.iter().chain(in_place).find(known)
}

fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+']) && word != "-"
}

/// A program's name without the folder.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_assignment(word: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=').is_some_and(|(before, _)| !before.is_empty() && before.chars().all(name))
}
