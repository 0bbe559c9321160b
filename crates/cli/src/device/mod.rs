//! `switchboard device`: this machine as a device that agents can use, within limits.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use switchboard_client::aip::{
    Cause, ConnectError, Device, DeviceConfig, Event, Fault, FirstAttempt, Settings, Strategy, TaskStatus,
    Tools as _,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::clock;
use crate::console::{Console, Palette, harmless, one_line};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::remote::{Remote, RemoteArgs};

mod allow;
mod consent;
pub(crate) mod facts;
mod files;
mod process;
mod root;
mod screenshot;
mod tools;

use allow::Allowed;
use consent::{Consent, Question};
use facts::{Display, Machine};
use process::Host;
use root::Root;
use screenshot::Camera;
use tools::{Said, Toolbox};

/// Arguments of `device`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, in three terminals:
  switchboard serve
  switchboard device --id lab-1 --allow uname --allow \"git status\"
  switchboard devices run \"run: uname -a\" --device lab-1

What an agent can do with this machine:
  read_file, list_directory   within --root; you are asked if that is your home folder by default
  run_command                 what begins with an --allow runs; for anything else you are asked
  write_file                  within --root; you are asked
  device_info                 system, processors, memory, disk, screen
  screenshot                  where there is a screen and import, scrot, gnome-screenshot or grim; you
                              are asked, unless --allow-screen

Links that lead out of --root are not followed. Commands begin in --root, but the system does not
keep them there: a program that you allow can do what you can do, with any arguments. A line that
uses more of the shell than words and quotes, such as `uname; id`, is never covered by --allow.
Of your environment they are given PATH, HOME, USER, LANG and TMPDIR, and what --env names.
Where you cannot be asked, because there is no terminal, whatever would need your consent is
refused; --yes gives it in advance, for everything.

The device comes back by itself when the connection is lost. Ctrl-C leaves.")]
pub(crate) struct Args {
    /// What the device is called; others use it under this name
    #[arg(long, value_name = "NAME")]
    id: String,
    /// Run commands that begin so without asking: a program, or one with its first arguments; may be
    /// repeated
    #[arg(long, value_name = "COMMAND", num_args = 1..)]
    allow: Vec<String>,
    /// Take pictures of the screen without asking
    #[arg(long)]
    allow_screen: bool,
    /// Do everything without asking
    #[arg(long)]
    yes: bool,
    /// The folder that is shared; the current one unless given
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Hand this variable of the environment to commands; may be repeated
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `device`.
pub(crate) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    if args.id.trim().is_empty() {
        return Err(Failure::usage("the name of the device is empty"));
    }
    let token = args.remote.token_variable();
    if let Some(name) = args.env.iter().find(|name| name.starts_with("SWITCHBOARD") || token == Some(name)) {
        return Err(Failure::usage(format!(
            "{name} belongs to switchboard itself; --env does not hand it on"
        )));
    }
    let folder = args.root.clone().unwrap_or_else(|| PathBuf::from("."));
    let root = Root::new(&folder).map_err(|error| {
        Failure::usage(format!("{} cannot be shared: {}", folder.display(), root::plain(&error)))
    })?;
    // Nobody who only forgot --root has agreed to show all that is theirs.
    let asks_to_read = args.root.is_none() && environment.find("HOME").is_some_and(|home| root.shares(home));
    let asks = !args.yes && std::io::stdin().is_terminal();
    let (questions, asked) = mpsc::channel(1);
    let (voice, said) = mpsc::channel(64);
    let consent = match (args.yes, asks) {
        (true, _) => Consent::Given,
        (false, true) => Consent::Ask(questions),
        (false, false) => Consent::Nobody,
    };
    let host = Host::new(environment, &args.env);
    let screen = Host::on_screen(environment);
    let display = display(environment);
    let toolbox = Toolbox {
        id: args.id.clone(),
        machine: Machine::new(root.path(), display, host.clone()),
        root: Arc::new(root),
        camera: Camera::find(display, &screen),
        host,
        screen,
        allowed: Allowed::new(&args.allow),
        asks_to_read,
        asks_to_look: !args.allow_screen,
        consent,
        voice,
    };
    let talk = Talk { id: args.id.clone(), remote, console, said, asked, question: None };
    talk.introduce(&toolbox)?;
    if asks_to_read && !args.yes {
        talk.line("this is your home folder: you are asked before anything in it is read; name a folder with --root")?;
    }
    let mut config = DeviceConfig::new(args.id, "linux");
    config.names_askers = true;
    config.times.reconnect = Strategy { max_tries: u32::MAX, ..Strategy::device() };
    let options = talk.remote.connect::<Settings>().first_attempt(FirstAttempt::KeepTrying);
    let device = Device::new(options, config, toolbox).map_err(|error| Failure::usage(error.to_string()))?;
    let lines = if asks { lines() } else { mpsc::channel(1).1 };
    talk.run(device, lines).await
}

/// What the user sees and says.
struct Talk<'a> {
    id: String,
    remote: Remote,
    console: &'a Console,
    said: mpsc::Receiver<Said>,
    asked: mpsc::Receiver<Question>,
    question: Option<Question>,
}

impl Talk<'_> {
    fn introduce(&self, toolbox: &Toolbox) -> Result<(), Failure> {
        let tools: Vec<String> = toolbox.list().into_iter().map(|tool| tool.tool_name).collect();
        self.line(&format!("sharing {} with {}", toolbox.root.path().display(), tools.join(", ")))
    }

    async fn run(mut self, device: Device, mut lines: mpsc::Receiver<String>) -> Result<(), Failure> {
        let mut events = device.events();
        // One for all rounds: what comes between two of them counts as well.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let connecting = device.online();
        let mut connecting = std::pin::pin!(connecting);
        let mut looking = true;
        let (mut asked_open, mut lines_open) = (true, true);
        let result = loop {
            let free = self.question.is_none();
            let unwanted = async {
                match &mut self.question {
                    Some(question) => question.reply.closed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = interrupted.recv() => break Ok(()),
                _ = terminated.recv() => break Ok(()),
                () = unwanted => {
                    self.question = None;
                    self.line("not wanted any more")?;
                }
                said = self.said.recv() => match said {
                    Some(said) => self.say(said)?,
                    None => break Ok(()),
                },
                question = self.asked.recv(), if asked_open && free => match question {
                    // Dropped, it is refused.
                    Some(_) if !lines_open => {}
                    Some(question) => {
                        // What was typed before is no answer.
                        while lines.try_recv().is_ok() {}
                        let Palette { bold, yellow, reset, .. } = self.console.palette();
                        let what = harmless(&question.what);
                        for line in &question.who {
                            self.line(line)?;
                        }
                        self.console.print(&format!("{yellow}{what}{reset}\n{bold}Allow? [y/N]{reset} "))?;
                        self.question = Some(question);
                    }
                    None => asked_open = false,
                },
                line = lines.recv(), if lines_open => match (line, self.question.take()) {
                    (Some(line), Some(question)) => {
                        let yes = matches!(line.trim().to_lowercase().as_str(), "y" | "yes");
                        let _ = question.reply.send(yes);
                    }
                    (Some(_), None) => {}
                    (None, _) => lines_open = false,
                },
                // Its end is told by an event.
                _ = &mut connecting, if looking => looking = false,
                event = events.next() => match event {
                    Some(Event::Closed { cause }) => {
                        break Err(self.remote.disconnected(&ConnectError::Failed(cause)));
                    }
                    Some(event) => self.event(&event)?,
                    None => break Ok(()),
                },
            }
        };
        if result.is_ok() {
            self.line("leaving")?;
        }
        device.close().await;
        result
    }

    fn event(&self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Connected => self.line(&format!("connected as {} to {}", self.id, self.remote.url)),
            Event::Disconnected { cause, retry_in } => {
                let wait = clock::short(*retry_in);
                let lost = match cause {
                    Cause::Closed(_) | Cause::Silent => "lost the connection",
                    Cause::Protocol(_) | Cause::Left | Cause::Unreachable(_) | Cause::Refused(_) => {
                        &cause.to_string()
                    }
                };
                self.line(&format!("{lost}, trying again in {wait}"))?;
                if let Cause::Protocol(Fault::Refused(why)) = cause
                    && why.contains("already registered")
                {
                    self.line(&format!("is {} running elsewhere?", self.id))?;
                }
                Ok(())
            }
            Event::Assigned { request, .. } => {
                self.line(&format!("asked to: {}", request.as_deref().unwrap_or_default()))
            }
            Event::TaskEnded { status: TaskStatus::Completed, .. } => self.line("the task is done"),
            Event::TaskEnded { error, .. } => {
                self.line(&format!("the task failed: {}", error.as_deref().unwrap_or("no reason given")))
            }
            Event::Trouble(trouble) => self.line(&trouble.to_string()),
            Event::Closed { .. } => Ok(()),
        }
    }

    fn say(&self, said: Said) -> Result<(), Failure> {
        let Palette { green, red, dim, reset, .. } = self.console.palette();
        match said {
            Said::Running(what) => self.line(&format!("running {what}")),
            Said::Done { what, result, took } => {
                let took = clock::short(took);
                let what = harmless(&what);
                let line = match result {
                    Ok(None | Some(0)) => format!("{green}✓{reset} {what} {dim}({took}){reset}"),
                    Ok(Some(code)) => format!("{red}✗{reset} {what} {dim}(exit code {code}, {took}){reset}"),
                    Err(why) => format!("{red}✗{reset} {what}: {} {dim}({took}){reset}", one_line(&why, 200)),
                };
                self.console.line(&line)
            }
        }
    }

    /// One line about what happens.
    fn line(&self, text: &str) -> Result<(), Failure> {
        let text = one_line(text, 300);
        // The user may be in the middle of an answer.
        let begin = if self.question.is_some() { "\n" } else { "" };
        self.console.line(&format!("{begin}{text}"))
    }
}

/// What is typed, line by line.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn display(environment: &Environment) -> Option<Display> {
    let is_set = |name: &str| environment.find(name).is_some();
    if is_set("WAYLAND_DISPLAY") {
        Some(Display::Wayland)
    } else if is_set("DISPLAY") {
        Some(Display::X11)
    } else {
        None
    }
}
