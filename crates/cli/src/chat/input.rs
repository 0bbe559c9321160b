//! Lines that the user says: typed at a prompt, or piped.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor, ExternalPrinter};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines, Stdin};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// Where lines come from.
#[derive(Debug)]
pub(super) enum Input {
    /// A person at a terminal.
    Editor(Prompter),
    /// A file or a pipe.
    Lines(Lines<BufReader<Stdin>>),
}

impl Input {
    /// Asks the person at the terminal. What was typed is remembered in the folder.
    pub(super) fn editor(folder: Option<PathBuf>) -> Result<Self, Failure> {
        Ok(Self::Editor(Prompter::start(folder)?))
    }

    /// Reads what is piped.
    pub(super) fn lines() -> Self {
        Self::Lines(BufReader::new(tokio::io::stdin()).lines())
    }

    /// Whether a person types.
    pub(super) fn is_typed(&self) -> bool {
        matches!(self, Self::Editor(_))
    }

    /// How to print while a prompt is shown.
    pub(super) fn printer(&self) -> Option<Printer> {
        match self {
            Self::Editor(prompter) => Some(prompter.printer.clone()),
            Self::Lines(_) => None,
        }
    }

    /// The next line. Cancelling this loses nothing: a prompt that is shown stays, and what is
    /// typed there is the next line.
    pub(super) async fn line(&mut self, prompt: &Prompt) -> Line {
        match self {
            Self::Editor(prompter) => prompter.line(prompt).await,
            Self::Lines(lines) => match lines.next_line().await {
                Ok(Some(text)) => Line::Text(text),
                Ok(None) | Err(_) => Line::End,
            },
        }
    }

    /// Everything that is piped.
    pub(super) async fn all(&mut self) -> Result<String, Failure> {
        let mut text = String::new();
        if let Self::Lines(lines) = self {
            lines.get_mut().read_to_string(&mut text).await?;
        }
        Ok(text)
    }
}

/// What the user did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Said something.
    Text(String),
    /// Pressed Ctrl-C.
    Interrupt,
    /// Pressed Ctrl-D, or there is no more.
    End,
}

/// What stands before a line, plain and coloured.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompt {
    pub(super) plain: String,
    pub(super) coloured: String,
}

/// The thread that edits lines.
#[derive(Debug)]
pub(super) struct Prompter {
    prompts: std::sync::mpsc::Sender<Prompt>,
    lines: mpsc::UnboundedReceiver<Line>,
    /// Whether a line was asked for and has not come.
    pending: bool,
    printer: Printer,
    _terminal: Terminal,
}

impl Prompter {
    fn start(folder: Option<PathBuf>) -> Result<Self, Failure> {
        let terminal = Terminal::quiet();
        let broken = |error: ReadlineError| Failure::failed(format!("the terminal cannot be used: {error}"));
        let config =
            Config::builder().auto_add_history(true).max_history_size(HISTORY).map_err(broken)?.build();
        let mut editor: Editor<(), FileHistory> = Editor::with_config(config).map_err(broken)?;
        // Without a place to remember things, nothing is remembered.
        let folder = folder.filter(|folder| std::fs::create_dir_all(folder).is_ok());
        let file = folder.map(|folder| folder.join("history"));
        if let Some(file) = &file {
            let _ = editor.load_history(file);
        }
        let print = editor.create_external_printer().map_err(broken)?;
        let printer = Printer { shown: Arc::default(), print: Arc::new(Mutex::new(Box::new(print))) };
        let (prompts, asked) = std::sync::mpsc::channel::<Prompt>();
        let (typed, lines) = mpsc::unbounded_channel();
        let shown = printer.shown.clone();
        std::thread::spawn(move || {
            while let Ok(prompt) = asked.recv() {
                let line = match editor.readline(&(prompt.plain.as_str(), prompt.coloured.as_str())) {
                    Ok(text) => Line::Text(text),
                    Err(ReadlineError::Interrupted) => Line::Interrupt,
                    Err(_) => Line::End,
                };
                shown.store(false, Ordering::Release);
                if let (Some(file), Line::Text(_)) = (&file, &line) {
                    let _ = editor.append_history(file);
                }
                if typed.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { prompts, lines, pending: false, printer, _terminal: terminal })
    }

    async fn line(&mut self, prompt: &Prompt) -> Line {
        if !self.pending {
            self.pending = true;
            self.printer.shown.store(true, Ordering::Release);
            // Without the thread, the channel of lines is closed too.
            let _ = self.prompts.send(prompt.clone());
        }
        let line = self.lines.recv().await.unwrap_or(Line::End);
        self.pending = false;
        line
    }
}

/// Prints above a prompt that is shown.
#[derive(Clone)]
pub(super) struct Printer {
    shown: Arc<AtomicBool>,
    print: Arc<Mutex<Box<dyn ExternalPrinter + Send>>>,
}

impl Printer {
    /// Whether a prompt is shown.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Acquire)
    }

    /// Prints whole lines above it.
    pub(super) fn print(&self, text: &str) {
        let mut print = self.print.lock().unwrap_or_else(PoisonError::into_inner);
        // The terminal is gone: so is whoever could read this.
        let _ = print.print(text.to_owned());
    }
}

impl std::fmt::Debug for Printer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Printer").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// The terminal as it was, put back in the end. Meanwhile it does not show what is typed while an
/// answer comes, in the midst of it.
#[derive(Debug)]
struct Terminal {
    before: Option<Termios>,
}

impl Terminal {
    fn quiet() -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut settings) = before.clone() {
            settings.local_flags.remove(LocalFlags::ECHO);
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &settings);
        }
        Self { before }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}

/// How many lines are remembered.
const HISTORY: usize = 1_000;
