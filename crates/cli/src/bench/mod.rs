//! `switchboard bench`: the figures of the performance budget, with their yardsticks.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;

mod acolyte;
mod aip;
mod alicia;
mod figures;
mod growth;
mod limits;
mod peer;
mod plot;
mod relay;
mod report;
mod servers;
mod vip;

use figures::Scale;
use report::Figure;

/// Measures this build on this machine and holds it against the budget.
///
/// Starts servers of its own on free ports, with empty logs, and removes them afterwards.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Fewer connections and events: finds gross mistakes in about half a minute.
    #[arg(long)]
    quick: bool,
    /// Only the figures whose group begins with this: startup, memory, throughput, latency, fan-out,
    /// commit, resume, storm, interrupt, growth, acolyte, aip-heartbeats, aip-commands, aip-fleet, relay,
    /// alicia-codec, alicia-sentences, alicia-resume, alicia-opening, vip.
    #[arg(long)]
    only: Option<String>,
    /// Also write a page with all tables to this file, and its pictures into the folder `images` beside it.
    #[arg(long)]
    write: Option<PathBuf>,
    /// The folder of the models that hear, for the stages of a spoken turn.
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// Internal: be the server under measurement.
    #[arg(long, hide = true)]
    child_server: bool,
    /// Internal: be the yardstick.
    #[arg(long, hide = true)]
    child_bare: bool,
    /// Internal: be the relay under measurement.
    #[arg(long, hide = true)]
    child_relay: bool,
    /// Internal: be the function behind it.
    #[arg(long, hide = true)]
    child_function: bool,
    /// Internal: write or read envelopes, to be counted from outside.
    #[arg(long, hide = true)]
    child_codec: Option<String>,
    /// Internal: settings of the server under measurement.
    #[arg(long, hide = true)]
    set: Vec<String>,
}

/// Runs the benchmark; false when a floor was missed.
///
/// # Errors
/// Something could not be measured.
pub(crate) async fn run(args: Args, out: &mut impl Write) -> anyhow::Result<bool> {
    if args.child_server {
        servers::serve(args.set).await?;
        return Ok(true);
    }
    if args.child_bare {
        servers::serve_bare().await?;
        return Ok(true);
    }
    if args.child_relay {
        servers::serve_relay(args.set).await?;
        return Ok(true);
    }
    if args.child_function {
        relay::serve_function().await?;
        return Ok(true);
    }
    if let Some(work) = args.child_codec {
        alicia::work(&work)?;
        return Ok(true);
    }
    let scale = if args.quick { Scale::QUICK } else { Scale::WHOLE };
    let groups = wanted(args.only.as_deref());
    limits::allow_connections(groups.iter().map(|group| scale.connections(group)).max().unwrap_or(0))?;
    writeln!(out, "{}", report::HEAD)?;
    let mut all: Vec<(&str, Vec<Figure>)> = Vec::new();
    let count = groups.len();
    for (number, group) in groups.into_iter().enumerate() {
        // Progress is no part of the table.
        writeln!(std::io::stderr(), "[{} of {count}] {group}", number + 1)?;
        let figures = match group {
            "startup" => figures::startup(scale).await?,
            "memory" => figures::memory(scale).await?,
            "throughput" => figures::throughput(scale).await?,
            "latency" => figures::latency(scale).await?,
            "fan-out" => figures::fan_out(scale).await?,
            "commit" => figures::events_per_commit(scale).await?,
            "resume" => figures::resume(scale).await?,
            "storm" => figures::storm(scale).await?,
            "interrupt" => figures::interrupt(scale).await?,
            "acolyte" => acolyte::chats(scale).await?,
            "aip-heartbeats" => aip::heartbeats(scale).await?,
            "aip-commands" => aip::commands(scale).await?,
            "aip-fleet" => aip::fleet(scale).await?,
            "relay" => relay::functions(scale).await?,
            "alicia-codec" => alicia::codec(scale).await?,
            "alicia-sentences" => alicia::sentences(scale).await?,
            "alicia-resume" => alicia::resume(scale).await?,
            "alicia-opening" => alicia::opening(scale).await?,
            "vip" => vip::sessions(scale, args.models.as_deref()).await?,
            _ => growth::growth(scale).await?,
        };
        for figure in &figures {
            writeln!(out, "{}", figure.row())?;
        }
        out.flush()?;
        all.push((group, figures));
    }
    if let Some(path) = args.write {
        write_page(&path, &all)?;
        writeln!(out, "written to {}", path.display())?;
    }
    Ok(all.iter().flat_map(|(_, figures)| figures).all(Figure::is_kept))
}

/// The page, and the pictures that it shows.
fn write_page(path: &Path, groups: &[(&str, Vec<Figure>)]) -> anyhow::Result<()> {
    let images = path.with_file_name("images");
    std::fs::create_dir_all(&images)?;
    let figures: Vec<Figure> = groups.iter().flat_map(|(_, figures)| figures.clone()).collect();
    std::fs::write(images.join(report::BUDGET_PICTURE), plot::budget(&figures))?;
    std::fs::write(images.join(report::YARDSTICK_PICTURE), plot::yardsticks(&figures))?;
    std::fs::write(path, report::page(groups, &machine()))?;
    Ok(())
}

/// The groups to measure.
fn wanted(only: Option<&str>) -> Vec<&'static str> {
    GROUPS.iter().filter(|group| only.is_none_or(|only| group.starts_with(only))).copied().collect()
}

/// What the figures were measured on, in few words.
fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1).map(str::trim));
    format!("{cpus} cores ({}), Linux, loopback", model.unwrap_or("unknown processor"))
}

const GROUPS: &[&str] = &[
    "startup",
    "memory",
    "throughput",
    "latency",
    "fan-out",
    "commit",
    "resume",
    "storm",
    "interrupt",
    "growth",
    "acolyte",
    "aip-heartbeats",
    "aip-commands",
    "aip-fleet",
    "relay",
    "alicia-codec",
    "alicia-sentences",
    "alicia-resume",
    "alicia-opening",
    "vip",
];
