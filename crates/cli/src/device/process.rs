//! Running a command: without a terminal, for a limited time, with as much of its output as is good
//! for anybody. Nothing that it started outlives it.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use switchboard_client::aip::ToolFailure;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::allow::Line;
use crate::environment::Environment;

/// Where commands are looked for, and what they know.
#[derive(Clone, Debug)]
pub(super) struct Host {
    variables: Vec<(String, String)>,
    folders: Vec<PathBuf>,
}

impl Host {
    /// With these variables of the environment beside the few that programs need, as far as they are set.
    pub(super) fn new(environment: &Environment, more: &[String]) -> Self {
        let handed = |name: &str| HANDED.contains(&name) || more.iter().any(|more| more == name);
        let folders = environment.find("PATH").unwrap_or(DEFAULT_PATH).split(':').map(PathBuf::from);
        Self {
            variables: environment.variables().filter(|(name, _)| handed(name)).collect(),
            folders: folders.filter(|folder| folder.is_absolute()).collect(),
        }
    }

    /// The same, where the user's screen can be reached as well.
    pub(super) fn on_screen(environment: &Environment) -> Self {
        Self::new(environment, &SCREEN.map(str::to_owned))
    }

    /// Where a program is.
    pub(super) fn find(&self, program: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(program)).find(|path| is_program(path))
    }

    /// Runs a command to its end. Dropped before, it kills the command and everything it started.
    pub(super) async fn run(
        &self,
        line: &Line,
        folder: &Path,
        limit: Duration,
    ) -> Result<Value, ToolFailure> {
        let (child, group) = self.spawn(line, folder)?;
        let captured = capture(child, group, limit).await;
        let Captured { output, errors, .. } = &captured;
        let mut result = json!({
            "exit_code": captured.status.and_then(|status| status.code()),
            "stdout": output.text(),
            "stderr": errors.text(),
        });
        for (stream, bytes) in [("stdout", output.dropped), ("stderr", errors.dropped)] {
            if bytes > 0 {
                result[format!("{stream}_bytes_dropped")] = bytes.into();
            }
        }
        match captured.status {
            Some(status) if status.code().is_some() => Ok(result),
            Some(status) => Err(ToolFailure { message: format!("the command was killed: {status}"), result }),
            None => {
                let message =
                    format!("the command took longer than {} s and was stopped", limit.as_secs_f64());
                Err(ToolFailure { message, result })
            }
        }
    }

    fn spawn(&self, line: &Line, folder: &Path) -> Result<(Child, Group), ToolFailure> {
        let (program, arguments) = match line {
            Line::Words(words) => {
                let (name, arguments) = words.split_first().ok_or_else(|| ToolFailure::new("no command"))?;
                // A program that is named by a path is one of the folder in which it runs.
                let program = if name.contains('/') {
                    Some(folder.join(name)).filter(|path| is_program(path))
                } else {
                    self.find(name)
                };
                let program =
                    program.ok_or_else(|| ToolFailure::new(format!("there is no program {name}")))?;
                (program, arguments.to_vec())
            }
            Line::Shell(line) => (PathBuf::from("/bin/sh"), vec!["-c".to_owned(), line.clone()]),
        };
        // In a session of its own it has no terminal to read passwords from, not even by name.
        let mut command = match self.find("setsid") {
            Some(setsid) => {
                let mut command = Command::new(setsid);
                command.arg(&program);
                command
            }
            None => {
                let mut command = Command::new(&program);
                command.process_group(0);
                command
            }
        };
        command.args(arguments).current_dir(folder).env_clear().envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child =
            command.spawn().map_err(|error| ToolFailure::new(format!("{}: {error}", program.display())))?;
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
        Ok((child, group))
    }
}

/// Reads what a command says until it ends, or its time is over.
async fn capture(mut child: Child, group: Group, limit: Duration) -> Captured {
    let (mut output, mut errors) = (Kept::default(), Kept::default());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let run = async {
        let mut reading = std::pin::pin!(async { tokio::join!(output.read(stdout), errors.read(stderr)) });
        let ended = tokio::select! {
            status = child.wait() => Some(status),
            _ = &mut reading => None,
        };
        match ended {
            Some(status) => {
                // What it left in the background may hold its output open for ever.
                let _ = tokio::time::timeout(GRACE, reading).await;
                status
            }
            None => child.wait().await,
        }
    };
    let status = tokio::time::timeout(limit, run).await.ok().and_then(Result::ok);
    drop(group);
    Captured { status, output, errors }
}

#[derive(Debug)]
struct Captured {
    /// None if its time was over.
    status: Option<ExitStatus>,
    output: Kept,
    errors: Kept,
}

/// The first part of what was said.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    dropped: u64,
}

impl Kept {
    async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 8 << 10];
        // Read to the end in any case: a command that cannot write does not end.
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            let room = MAX_OUTPUT.saturating_sub(self.bytes.len()).min(length);
            self.bytes.extend(buffer.iter().take(room));
            self.dropped += (length - room) as u64;
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// The processes of a command; none of them outlives it.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // If nothing is left of it, that is fine.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The variables that every command is given, as far as they are set. Others may hold secrets.
pub(super) const HANDED: &[&str] = &["PATH", "HOME", "USER", "LANG", "TMPDIR"];
/// What programs need that take pictures of the screen.
const SCREEN: [&str; 5] =
    ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
/// Bytes of each stream that are kept.
pub(super) const MAX_OUTPUT: usize = 64 << 10;
/// How long the rest of the output may take after the end.
const GRACE: Duration = Duration::from_millis(200);
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn environment() -> Environment {
        let variables = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin:relative"),
            ("HOME", "/nowhere"),
            ("SWITCHBOARD_TOKEN", "s"),
            ("AWS_SECRET_ACCESS_KEY", "t"),
            ("DISPLAY", ":7"),
            ("WANTED", "u"),
        ];
        Environment::new(variables.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    fn host() -> Host {
        Host::new(&environment(), &["WANTED".to_owned(), "UNSET".to_owned()])
    }

    async fn run(line: &str, limit: Duration) -> Result<Value, ToolFailure> {
        host().run(&Line::parse(line), Path::new("/tmp"), limit).await
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn commands_answer_with_their_output_and_exit_code() {
        let result = run("echo hello", LONG).await.unwrap();
        assert_eq!(result, json!({"exit_code": 0, "stdout": "hello\n", "stderr": ""}));
        let result = run("pwd; echo no >&2; exit 3", LONG).await.unwrap();
        assert_eq!(result, json!({"exit_code": 3, "stdout": "/tmp\n", "stderr": "no\n"}));
        assert_eq!(
            run("no-such-program", LONG).await.unwrap_err().message,
            "there is no program no-such-program"
        );
        let killed = run("kill -9 $$", LONG).await.unwrap_err();
        assert!(killed.message.contains("killed"), "{killed}");
    }

    #[tokio::test]
    async fn commands_know_what_they_are_given_and_have_no_terminal() {
        let result = run("/usr/bin/env", LONG).await.unwrap();
        let mut names: Vec<&str> = result["stdout"]
            .as_str()
            .unwrap()
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.0))
            .collect();
        // What a shell adds by itself is not handed.
        names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
        names.sort_unstable();
        assert_eq!(names, ["HOME", "PATH", "WANTED"]);
        let screen = Host::on_screen(&environment());
        let result = screen.run(&Line::parse("printenv DISPLAY"), Path::new("/tmp"), LONG).await.unwrap();
        assert_eq!(result["stdout"], ":7\n", "for pictures only");
        let result = run("tty; exec 3</dev/tty", LONG).await.unwrap();
        let said = format!("{result}");
        assert!(said.contains("not a tty") && result["exit_code"] != 0, "{said}");
    }

    #[tokio::test]
    async fn output_is_bounded() {
        let result = run("head -c 200000 /dev/zero | tr '\\0' x; echo end >&2", LONG).await.unwrap();
        assert_eq!(result["stdout"].as_str().unwrap().len(), MAX_OUTPUT);
        assert_eq!(result["stdout_bytes_dropped"], 200_000 - MAX_OUTPUT);
        assert_eq!((&result["stderr"], &result["exit_code"]), (&json!("end\n"), &json!(0)));
    }

    /// Whether processes that were told this are there.
    fn alive(mark: &str) -> bool {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(mark))
    }

    async fn gone(mark: &str) {
        for _ in 0..500 {
            if !alive(mark) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{mark} is still there");
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_dies_with_its_children() {
        let line = "echo begun; (sleep 7171.5 & sleep 7171.5) & sleep 7171.5";
        let failure = run(line, Duration::from_millis(2500)).await.unwrap_err();
        assert_eq!(failure.message, "the command took longer than 2.5 s and was stopped");
        assert_eq!(failure.result["stdout"], "begun\n");
        gone("7171.5").await;
    }

    #[tokio::test]
    async fn a_command_that_is_not_wanted_any_more_dies_with_its_children() {
        let task = tokio::spawn(run("(sleep 7272.5 & sleep 7272.5) & sleep 7272.5", LONG));
        while !alive("7272.5") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        task.abort();
        let _ = task.await;
        gone("7272.5").await;
    }

    #[tokio::test]
    async fn what_a_command_leaves_in_the_background_neither_holds_it_up_nor_stays() {
        let result = run("sleep 7373.5 & echo done", LONG).await.unwrap();
        assert_eq!((&result["stdout"], &result["exit_code"]), (&json!("done\n"), &json!(0)));
        gone("7373.5").await;
    }

    #[tokio::test]
    async fn programs_in_the_folder_are_named_by_a_path() {
        let folder = TempDir::new().unwrap();
        std::fs::copy("/bin/true", folder.path().join("mine")).unwrap();
        let run = |name: &str| {
            let line = Line::Words(vec![name.to_owned()]);
            let folder = folder.path().to_owned();
            async move { host().run(&line, &folder, LONG).await }
        };
        assert_eq!(run("./mine").await.unwrap()["exit_code"], 0);
        assert!(run("mine").await.is_err());
    }
}
