//! `switchboard inspect`: captured bytes in, decoded frames of ASP or envelopes of Alicia out, with the
//! reason when invalid.

use std::io::Read as _;
use std::path::Path;

use switchboard_asp::message::{Direction, Feature};
use switchboard_asp::{Features, Value};

use crate::console::{Console, Palette};
use crate::failure::{Exit, Failure};

mod alicia;
mod asp;
mod capture;
mod layout;

use capture::Item;

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  switchboard inspect 1100000000000000
  switchboard inspect capture.bin
  switchboard inspect vectors/asp/frames/T16.json
  switchboard inspect vectors/alicia/frames/TV-03.json
  xxd -p capture.bin | switchboard inspect --hex -

What is read:
  hex      digits with any white space between them. An empty line begins a new WebSocket message,
           and so does a line that begins with `C>` or `S<`, which also says who sent it.
           What follows a `#` is a comment.
  base64   the same in base64, when --base64 says so: what browsers show of binary messages.
  bytes    one WebSocket message, as it is.
  JSON     one object per line, or one object, or a list of them:
           {\"hex\" or \"base64\": \"…\" or [\"…\", …], \"direction\": \"to_server\" or \"to_client\",
            \"protocol\": \"asp\" or \"alicia\", \"features\": […], \"profile\": \"full\" or \"lite\"}

ASP: until a HELLO in the capture says what was agreed, the standard features are assumed.
Alicia: the first envelope of the capture decides which profile is spoken.
Exits with 1 if anything is invalid.")]
pub(crate) struct Args {
    /// A file, `-` for the input, or hex digits themselves
    #[arg(value_name = "FILE|HEX", default_value = "-")]
    source: String,
    /// Read hex digits, whatever it looks like
    #[arg(long, conflicts_with_all = ["base64", "raw"])]
    hex: bool,
    /// Read base64
    #[arg(long, conflicts_with = "raw")]
    base64: bool,
    /// Read bytes, whatever they look like
    #[arg(long)]
    raw: bool,
    /// What is spoken; told from the first bytes unless given
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    protocol: Option<Spoken>,
    /// Who sent it; guessed unless given
    #[arg(long, value_enum, value_name = "WHO")]
    from: Option<Sender>,
    /// ASP, what was agreed: names with commas between them, or standard, bare, all
    #[arg(long, value_parser = parse_features, value_name = "FEATURES")]
    features: Option<Features>,
    /// Alicia, which profile is spoken
    #[arg(long, value_enum, value_name = "PROFILE")]
    profile: Option<Profile>,
    /// Show the bytes, too
    #[arg(long)]
    bytes: bool,
    /// One JSON object per frame or envelope, and line
    #[arg(long)]
    json: bool,
}

/// Who sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sender {
    /// The client: it travels to the server
    Client,
    /// The server: it travels to the client
    Server,
}

/// A protocol whose bytes need decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Spoken {
    /// Frames at /v1/agent-socket
    Asp,
    /// Envelopes at /api/v1/ws
    Alicia,
}

/// A profile of Alicia.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Profile {
    /// With stanzas
    Full,
    /// Without
    Lite,
}

/// How findings are written down.
#[derive(Clone, Copy, Debug)]
struct View {
    bytes: bool,
    json: bool,
    palette: Palette,
}

/// What was found in a message, written down: lines, how many things they tell of, and how many of those
/// are invalid.
#[derive(Debug, Default)]
struct Findings {
    text: String,
    found: usize,
    invalid: usize,
}

/// Runs `inspect`.
pub(crate) fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    let items = read(args)?;
    let direction = args.from.map(|sender| match sender {
        Sender::Client => Direction::ToServer,
        Sender::Server => Direction::ToClient,
    });
    let view = View { bytes: args.bytes, json: args.json, palette: console.palette() };
    let said = items.iter().find_map(|item| item.spoken.or_else(|| item.looks_like()));
    let (mut found, mut invalid) = (0, 0);
    let mut write = |findings: Findings| {
        found += findings.found;
        invalid += findings.invalid;
        console.print(&findings.text)
    };
    let what = match args.protocol.or(said).unwrap_or(Spoken::Asp) {
        Spoken::Asp => {
            let mut reader = asp::Reader::new(args.features);
            for (index, item) in items.iter().enumerate() {
                write(reader.message(index, item, item.direction.or(direction), view))?;
            }
            write(reader.finish(view))?;
            "frames"
        }
        Spoken::Alicia => {
            let mut reader = alicia::Reader::new(args.profile);
            for (index, item) in items.iter().enumerate() {
                write(reader.message(index, item, item.direction.or(direction), view))?;
            }
            "envelopes"
        }
    };
    if !args.json {
        console.note(&format!("{found} {what}, {invalid} invalid"));
    }
    if invalid > 0 { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

/// The messages of the capture.
fn read(args: &Args) -> Result<Vec<Item>, Failure> {
    let bytes = read_bytes(args)?;
    if args.raw {
        return Ok(vec![Item::message(bytes)]);
    }
    let items = match (args.hex, args.base64) {
        (true, _) => capture::hex(&bytes),
        (false, true) => capture::base64(&bytes),
        (false, false) => capture::guess(&bytes),
    };
    items.map_err(Failure::failed)
}

fn read_bytes(args: &Args) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    if args.source == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    let path = Path::new(&args.source);
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(_) if !path.exists() && (args.base64 || capture::is_hex(args.source.as_bytes())) => {
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
