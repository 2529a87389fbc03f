//! Parses a command line as a POSIX shell would, as far as needed to quote a placeholder.
//!
//! Owns the contexts of the shell's grammar: bare words, '…', "…", `$(…)`, `$((…))`, `${…}`, `` `…`
//! ``, comments and here-documents. [`super::simple_command`] knows which words are code for
//! another program. Where shells differ, the reader marks the rest of the command line as unclear,
//! and every later placeholder is refused.
//!
//! Whether a program reads its argument or input as code may be known only when its command has
//! ended (`<<E bash`, `echo x | sh`). So the first agent value in a pipeline is remembered, and
//! refused then: see [`super::taint`].

use std::{iter::Peekable, vec::IntoIter};

use crate::engine::hooks::template::{
    Placeholder, TemplateError, UnsafePosition, placeholders, simple_command::SimpleCommand,
    taint::TaintTracker, variable,
};

/// Names whose values contain only letters, digits, `-` and `_`: they are harmless even as code.
const PLAIN: &[&str] = &["session", "iteration", "attempt"];
const NUMBERS: &[&str] = &["iteration", "attempt"];

/// Whether the values of this name do nothing, even as code.
pub(super) fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name)
}

/// Characters that end an unquoted word.
const ENDS_WORD: [char; 10] = [' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'];

/// The grammar context that the reader is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellContext {
    /// `(…)`.
    Subshell,
    /// `$(…)`.
    Substitution,
    /// `"…"`.
    Double,
    /// `$((…))`, with the number of parentheses that are open in it.
    Arithmetic(usize),
    /// `${…}`.
    Parameter,
    /// `` `…` ``.
    Backquotes,
}

#[derive(Debug)]
struct HereDocument {
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
    /// Whether a shell reads it: known when its command, or a later one in the pipeline, has ended.
    is_code: bool,
}

struct ShellReader<'a> {
    text: &'a str,
    at: usize,
    waiting: Peekable<IntoIter<Placeholder>>,
    frames: Vec<ShellContext>,
    /// One for the top level and one for each open `(` or `$(`.
    commands: Vec<SimpleCommand>,
    heres: Vec<HereDocument>,
    /// Where values are that could do harm as code.
    reach: TaintTracker,
    lost: bool,
    out: String,
}

/// See [`super::expand`].
pub(super) fn expand(text: &str) -> Result<String, TemplateError> {
    let mut reader = ShellReader {
        text,
        at: 0,
        waiting: placeholders(text).into_iter().peekable(),
        frames: Vec::new(),
        commands: vec![SimpleCommand::default()],
        heres: Vec::new(),
        reach: TaintTracker::default(),
        lost: false,
        out: String::with_capacity(text.len() + 64),
    };
    while reader.at < text.len() {
        reader.step()?;
    }
    reader.end_command()?;
    Ok(reader.out)
}

type ShellResult = Result<(), TemplateError>;

impl ShellReader<'_> {
    fn step(&mut self) -> ShellResult {
        match self.frames.last().copied() {
            None | Some(ShellContext::Subshell | ShellContext::Substitution) => self.bare(),
            Some(ShellContext::Double) => self.double(),
            Some(ShellContext::Arithmetic(open)) => self.arithmetic(open),
            Some(ShellContext::Parameter) => self.parameter(),
            Some(ShellContext::Backquotes) => self.backquotes(),
        }
    }

    fn bare(&mut self) -> ShellResult {
        if self.placeholder_here() {
            return self.put('"', '"');
        }
        match self.take() {
            '\\' => return self.escaped(),
            '\'' => return self.single(),
            '$' => return self.dollar(),
            '<' if self.rest().starts_with('<') => return self.here(),
            '\n' => return self.newline(),
            '"' => {
                self.word();
                self.frames.push(ShellContext::Double);
            }
            '`' => self.backquote(),
            '(' => {
                // `((`: two subshells, or arithmetic. Shells differ.
                self.lost |= self.rest().starts_with('(');
                self.open(ShellContext::Subshell);
            }
            ')' => {
                self.end_command()?;
                // The end of a `case` pattern, or of a group.
                if !self.reach.in_case() {
                    self.close();
                }
            }
            '#' if self.command().word.is_none() => self.comment(),
            '<' | '>' => self.redirect(),
            // `&>` is a redirection for some shells.
            '&' if self.rest().starts_with('>') => self.end_word(),
            '|' if !self.rest().starts_with('|') => {
                self.skip(usize::from(self.rest().starts_with('&')));
                self.end_command()?;
                self.reach.pipe();
            }
            ';' | '&' | '|' => {
                self.end_command()?;
                self.skip(usize::from(self.rest().starts_with(['&', '|'])));
                self.reach.end_pipeline();
            }
            ' ' | '\t' => self.end_word(),
            other => self.word().push(other),
        }
        Ok(())
    }

    fn double(&mut self) -> ShellResult {
        if self.placeholder_here() {
            return self.put_plain();
        }
        match self.take() {
            '\\' => return self.escaped(),
            '$' => return self.dollar(),
            '"' => self.pop(),
            '`' => self.backquote(),
            other => {
                self.newline_in_quotes(other);
                self.word().push(other);
            }
        }
        Ok(())
    }

    /// After the opening `'`, up to the closing one.
    fn single(&mut self) -> ShellResult {
        self.word();
        while self.at < self.text.len() {
            if self.placeholder_here() {
                self.out.push('\'');
                self.put('"', '"')?;
                self.out.push('\'');
                continue;
            }
            match self.take() {
                '\'' => break,
                other => {
                    self.newline_in_quotes(other);
                    self.word().push(other);
                }
            }
        }
        Ok(())
    }

    /// After a `$`.
    fn dollar(&mut self) -> ShellResult {
        self.word().push('$');
        if self.placeholder_here() {
            return self.refuse(UnsafePosition::AfterDollar);
        }
        if self.reach.mention(&self.text[self.at..]) {
            self.commands
                .iter_mut()
                .for_each(|command| command.has_value = true);
        }
        let rest = self.rest();
        if rest.starts_with("((") {
            self.skip(2);
            self.frames.push(ShellContext::Arithmetic(0));
        } else if rest.starts_with('(') {
            self.skip(1);
            self.open(ShellContext::Substitution);
        } else if rest.starts_with('{') {
            self.skip(1);
            self.frames.push(ShellContext::Parameter);
        } else if rest.starts_with("\\\n")
            || (rest.starts_with('\'') && self.frames.last() != Some(&ShellContext::Double))
        {
            // A line continuation joins `$` with the next line; `$'…'` has escapes in some shells
            // only.
            self.lost = true;
        }
        Ok(())
    }

    fn arithmetic(&mut self, open: usize) -> ShellResult {
        if self.placeholder_here() {
            let number = self
                .waiting
                .peek()
                .is_some_and(|p| NUMBERS.contains(&p.name.as_str()));
            return if number {
                self.put_plain()
            } else {
                self.refuse(UnsafePosition::Arithmetic)
            };
        }
        match self.take() {
            '(' => self.set(ShellContext::Arithmetic(open + 1)),
            ')' if open > 0 => self.set(ShellContext::Arithmetic(open - 1)),
            ')' => {
                // Without a second one it was `$( (…) …)`.
                self.lost |= !self.rest().starts_with(')');
                self.skip(usize::from(self.rest().starts_with(')')));
                self.pop();
            }
            '$' => return self.dollar(),
            '`' => self.frames.push(ShellContext::Backquotes),
            '"' | '\'' | '\\' => self.lost = true,
            _ => {}
        }
        Ok(())
    }

    fn parameter(&mut self) -> ShellResult {
        if self.placeholder_here() {
            return self.refuse(UnsafePosition::Parameter);
        }
        match self.take() {
            '\\' => return self.escaped(),
            '$' => return self.dollar(),
            '}' => self.pop(),
            '`' => self.frames.push(ShellContext::Backquotes),
            // Within "…", shells differ on whether these quote anything.
            '"' | '\'' if self.frames.contains(&ShellContext::Double) => self.lost = true,
            '\'' => return self.single(),
            '"' => self.frames.push(ShellContext::Double),
            other => self.word().push(other),
        }
        Ok(())
    }

    fn backquotes(&mut self) -> ShellResult {
        if self.placeholder_here() {
            return self.refuse(UnsafePosition::Backquotes);
        }
        match self.take() {
            '\\' => return self.escaped(),
            '`' => self.pop(),
            _ => {}
        }
        Ok(())
    }

    /// After a backslash.
    fn escaped(&mut self) -> ShellResult {
        if self.placeholder_here() {
            return self.refuse(UnsafePosition::AfterBackslash);
        }
        if self.at < self.text.len() {
            let next = self.take();
            if next == '\n' {
                // A line continuation. After one of these characters, the two lines would form one
                // operator.
                self.lost |=
                    self.text[..self.at - 2].ends_with(['$', '<', '(']) || !self.heres.is_empty();
            } else {
                self.word().push(next);
            }
        }
        Ok(())
    }

    /// After a `#` that begins a word: skips to the end of the line.
    fn comment(&mut self) {
        while self.at < self.text.len() && !self.rest().starts_with('\n') {
            if self.placeholder_here() {
                let placeholder = self.next_placeholder();
                self.skip(placeholder.range.len());
            } else {
                self.take();
            }
        }
    }

    /// After the first `<` of `<<`.
    fn here(&mut self) -> ShellResult {
        self.begin_redirection();
        self.skip(1);
        if self.rest().starts_with('<') {
            self.skip(1);
            return Ok(());
        }
        self.command().marked();
        let strip_tabs = self.rest().starts_with('-');
        self.skip(usize::from(strip_tabs));
        while self.rest().starts_with([' ', '\t']) {
            self.skip(1);
        }
        let mut here = HereDocument {
            delimiter: String::new(),
            quoted: false,
            strip_tabs,
            is_code: false,
        };
        let mut open = None;
        while self.at < self.text.len() && (open.is_some() || !self.rest().starts_with(ENDS_WORD)) {
            if self.placeholder_here() {
                return self.refuse(UnsafePosition::HereDelimiter);
            }
            let next = self.take();
            here.quoted |= matches!(next, '\'' | '"' | '\\');
            match (next, open) {
                (quote, Some(opened)) if quote == opened => open = None,
                (quote @ ('\'' | '"'), None) => open = Some(quote),
                // Escapes and expansions in an end mark are too rare to support.
                ('$' | '`' | '\n', _) | ('\\', Some(_)) => self.lost = true,
                ('\\', None) => {
                    self.lost |= self.rest().starts_with(['\'', '"', '\\'])
                        || self.rest().starts_with(ENDS_WORD);
                }
                (other, _) => here.delimiter.push(other),
            }
        }
        self.heres.push(here);
        Ok(())
    }

    /// After a newline. A pipeline continues on the next line if its next command has not begun.
    fn newline(&mut self) -> ShellResult {
        let goes_on = self.command().is_empty() && self.reach.is_piped();
        self.end_command()?;
        if !goes_on {
            self.reach.end_pipeline();
        }
        self.bodies()?;
        if !goes_on {
            self.reach.end_pipeline();
        }
        Ok(())
    }

    /// Reads the bodies of the announced here-documents.
    fn bodies(&mut self) -> ShellResult {
        for here in std::mem::take(&mut self.heres) {
            self.body(&here)?;
        }
        Ok(())
    }

    fn body(&mut self, here: &HereDocument) -> ShellResult {
        let start = self.at;
        let mut end = self.text.len();
        let mut line_at = start;
        for line in self.text[start..].split_inclusive('\n') {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            let bare = if here.strip_tabs {
                bare.trim_start_matches('\t')
            } else {
                bare
            };
            if bare == here.delimiter {
                end = line_at;
                break;
            }
            line_at += line.len();
        }
        let body = &self.text[start..end];
        // A line continuation may hide the end mark.
        self.lost |= !here.quoted && body.contains("\\\n");
        if here.is_code && !here.quoted {
            let held = body
                .match_indices('$')
                .find_map(|(i, _)| self.reach.held(&body[i + 1..]));
            if let Some(placeholder) = held.cloned() {
                return Err(TemplateError {
                    placeholder,
                    place: UnsafePosition::OtherShell,
                });
            }
        }
        let mixed = body.contains('`')
            || body
                .match_indices('$')
                .any(|(i, _)| body[i + 1..].starts_with(['(', '{']));
        while self.at < end {
            if !self.placeholder_here() {
                self.take();
            } else if here.quoted {
                return self.refuse(UnsafePosition::QuotedHere);
            } else if self.text[start..self.at].ends_with('\\') {
                return self.refuse(UnsafePosition::AfterBackslash);
            } else if self.text[start..self.at].ends_with('$') {
                return self.refuse(UnsafePosition::AfterDollar);
            } else if mixed {
                return self.refuse(UnsafePosition::MixedHere);
            } else if here.is_code && !self.is_plain() {
                return self.refuse(UnsafePosition::OtherShell);
            } else {
                self.put_plain()?;
            }
        }
        // The end mark is not a command.
        let mark = self.rest().find('\n').map_or(self.rest().len(), |i| i + 1);
        self.skip(mark);
        Ok(())
    }
}

/// Inserting references.
impl ShellReader<'_> {
    fn placeholder_here(&mut self) -> bool {
        let at = self.at;
        self.waiting.peek().is_some_and(|p| p.range.start == at)
    }

    fn is_plain(&mut self) -> bool {
        self.waiting.peek().is_some_and(|p| is_plain(&p.name))
    }

    fn next_placeholder(&mut self) -> Placeholder {
        self.waiting
            .next()
            .expect("asked for only where one stands")
    }

    fn put(&mut self, before: char, after: char) -> ShellResult {
        self.out.push(before);
        self.put_plain()?;
        self.out.push(after);
        Ok(())
    }

    fn put_plain(&mut self) -> ShellResult {
        if self.lost {
            return self.refuse(UnsafePosition::Unclear);
        }
        if self.frames.contains(&ShellContext::Parameter) {
            return self.refuse(UnsafePosition::Parameter);
        }
        // The output of `$(…)` belongs to the enclosing command.
        if !self.is_plain() && self.commands.iter().any(SimpleCommand::is_code) {
            return self.refuse(UnsafePosition::OtherShell);
        }
        let plain = self.is_plain();
        let placeholder = self.next_placeholder();
        self.word();
        if !plain {
            self.reach.speak(&placeholder);
            for command in &mut self.commands {
                command.has_value = true;
                self.reach.hold(&command.assigns(), &placeholder);
            }
        }
        self.out.push_str("${");
        self.out.push_str(&variable(&placeholder.name));
        self.out.push_str("-}");
        self.at = placeholder.range.end;
        Ok(())
    }

    fn refuse(&mut self, place: UnsafePosition) -> ShellResult {
        let place = if self.lost {
            UnsafePosition::Unclear
        } else {
            place
        };
        Err(TemplateError {
            placeholder: self.next_placeholder(),
            place,
        })
    }
}

/// Advancing in the text.
impl ShellReader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn take(&mut self) -> char {
        let next = self.rest().chars().next().expect("not called at the end");
        self.at += next.len_utf8();
        self.out.push(next);
        next
    }

    fn skip(&mut self, bytes: usize) {
        self.out.push_str(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
    }

    fn set(&mut self, frame: ShellContext) {
        self.frames.pop();
        self.frames.push(frame);
    }

    fn pop(&mut self) {
        self.frames.pop();
    }

    fn open(&mut self, frame: ShellContext) {
        self.frames.push(frame);
        self.commands.push(SimpleCommand::default());
        self.reach.open();
    }

    /// The output can be the name of a program.
    fn backquote(&mut self) {
        self.word().push('`');
        self.frames.push(ShellContext::Backquotes);
    }

    /// After a `<` or `>`.
    fn redirect(&mut self) {
        self.begin_redirection();
        if self.rest().starts_with(['&', '|', '>']) {
            self.skip(1);
        }
    }

    fn begin_redirection(&mut self) {
        self.command().drop_number();
        self.end_word();
        self.command().redirect();
    }

    /// After a `)`. One that closes nothing belongs to a `case`. For some shells, a here-document
    /// whose body has not started ends here.
    fn close(&mut self) {
        self.lost |= !self.heres.is_empty();
        let Some(frame) = self.frames.pop() else {
            return;
        };
        self.commands.pop();
        self.reach.close();
        if frame == ShellContext::Subshell {
            // The name of a function, which can touch its `{`.
            self.end_word();
        }
    }

    /// Shells disagree on where a pending here-document begins after this newline.
    fn newline_in_quotes(&mut self, next: char) {
        self.lost |= next == '\n' && !self.heres.is_empty();
    }

    fn command(&mut self) -> &mut SimpleCommand {
        self.commands
            .last_mut()
            .expect("the one of the top is never popped")
    }

    fn word(&mut self) -> &mut String {
        self.command().word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        let ended = self.command().end_word().map(str::to_owned);
        let Some(word) = ended else { return };
        // The `)` of a `case` inside `$(…)` looks like its end.
        self.lost |= word == "case" && self.frames.contains(&ShellContext::Substitution);
        let leads = self.command().leading().is_some();
        self.reach.word(&word, leads);
    }

    fn end_command(&mut self) -> ShellResult {
        self.end_word();
        let command = self.command();
        let (reads_code, calculates) = (command.reads_code(), command.calculates());
        command.clear();
        if reads_code {
            self.heres.iter_mut().for_each(|here| here.is_code = true);
        }
        let spoken = if reads_code || calculates {
            self.reach.spoken().cloned()
        } else {
            None
        };
        spoken.map_or(Ok(()), |placeholder| {
            Err(TemplateError {
                placeholder,
                place: UnsafePosition::OtherShell,
            })
        })
    }
}
