//! `switchboard inspect`: captured bytes in, decoded ASP frames out, with the reason when invalid.

use std::io::Read as _;
use std::path::Path;

use switchboard_asp::message::{Direction, Feature};
use switchboard_asp::{Features, Value};

use crate::console::Console;
use crate::failure::{Exit, Failure};

mod capture;
mod decode;
mod render;

use capture::Item;
use decode::Inspector;

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  switchboard inspect 1100000000000000
  switchboard inspect capture.bin
  switchboard inspect vectors/asp/frames/T16.json
  xxd -p capture.bin | switchboard inspect --hex -

What is read:
  hex      digits with any white space between them. An empty line begins a new WebSocket message,
           and so does a line that begins with `C>` or `S<`, which also says who sent it.
           What follows a `#` is a comment.
  bytes    the frames of one WebSocket message, as they are.
  JSON     one object per line, or one object, or a list of them:
           {\"hex\": \"…\" or [\"…\", …], \"direction\": \"to_server\" or \"to_client\", \"features\": […]}

Until a HELLO in the capture says what was agreed, the standard features are assumed.
Exits with 1 if anything is invalid.")]
pub(crate) struct Args {
    /// A file, `-` for the input, or hex digits themselves
    #[arg(value_name = "FILE|HEX", default_value = "-")]
    source: String,
    /// Read hex digits, whatever it looks like
    #[arg(long, conflicts_with = "raw")]
    hex: bool,
    /// Read bytes, whatever they look like
    #[arg(long)]
    raw: bool,
    /// Who sent it; guessed from the frames unless given
    #[arg(long, value_enum, value_name = "WHO")]
    from: Option<Sender>,
    /// What was agreed: names with commas between them, or standard, bare, all
    #[arg(long, value_parser = parse_features, value_name = "FEATURES")]
    features: Option<Features>,
    /// Show the bytes of payloads, too
    #[arg(long)]
    bytes: bool,
    /// One JSON object per frame and line
    #[arg(long)]
    json: bool,
}

/// Who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sender {
    /// The client: frames travel to the server
    Client,
    /// The server: frames travel to the client
    Server,
}

/// Runs `inspect`.
pub(crate) fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let bytes = read(args)?;
    let items = if args.raw {
        vec![Item::message(bytes)]
    } else if args.hex {
        capture::hex(&bytes).map_err(Failure::failed)?
    } else {
        capture::guess(&bytes).map_err(Failure::failed)?
    };
    let direction = args.from.map(|sender| match sender {
        Sender::Client => Direction::ToServer,
        Sender::Server => Direction::ToClient,
    });
    let mut inspector = Inspector::new(args.features);
    let mut invalid = 0;
    let mut frames = 0;
    for (index, item) in items.into_iter().enumerate() {
        let label = item.label.clone();
        let direction = item.direction.or(direction);
        let reports = inspector.message(&item, direction);
        frames += reports.len();
        invalid += reports.iter().filter(|report| report.problem.is_some()).count();
        if args.json {
            for report in &reports {
                console.line(&render::json(index, label.as_deref(), report))?;
            }
        } else {
            let heading = render::heading(index, &item, direction);
            console.print(&render::human(&heading, &item, &reports, args.bytes, console.palette()))?;
        }
    }
    for problem in inspector.finish() {
        invalid += 1;
        if args.json {
            console.line(&render::json_problem(&problem))?;
        } else {
            console.line(&render::problem(&problem, console.palette()))?;
        }
    }
    if !args.json {
        console.note(&format!("{frames} frames, {invalid} invalid"));
    }
    if invalid > 0 { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

fn read(args: &Args) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    if args.source == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    let path = Path::new(&args.source);
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(_) if !path.exists() && capture::is_hex(args.source.as_bytes()) => {
            Ok(args.source.clone().into_bytes())
        }
        Err(error) => {
            let advice = "name a file, `-` for the input, or hex digits";
            Err(Failure::usage(format!("{} cannot be read: {error}; {advice}", args.source)))
        }
    }
}

fn parse_features(text: &str) -> Result<Features, String> {
    match text {
        "standard" => return Ok(Features::STANDARD),
        "bare" | "" => return Ok(Features::BARE),
        "all" => return Ok(Features::ALL),
        _ => {}
    }
    features_named(text.split(','))
}

/// The features with these names, exactly.
fn features_named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Features, String> {
    let known = |name: &str| {
        let unknown = || format!("no feature {name}; there are {}", Feature::NAMES.join(", "));
        Feature::from_name(name.trim()).ok_or_else(unknown)
    };
    names.into_iter().map(known).collect()
}

/// A value that is text.
fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}
