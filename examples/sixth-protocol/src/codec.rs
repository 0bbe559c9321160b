//! Lines ↔ messages, in both directions.
//!
//! A line is words with one space between them; the last may be a text, which goes on to the end. A line
//! break is written `\n` or `\r`, a backslash `\\`, and a space within a word `\s`.

use switchboard_core::{Pii, Position};

use crate::error::{Code, Malformed};
use crate::message::{ClientLine, ClientMessage, Ending, News, ServerLine, Tag};

/// Reads a line of a client.
///
/// # Errors
/// It says nothing that this protocol knows.
pub fn decode_client(line: &str) -> Result<ClientLine, Malformed> {
    let (tag, rest) = tagged(line)?;
    match client_message(rest) {
        Ok(message) => Ok(ClientLine { tag, message }),
        Err(why) => Err(Malformed { tag, why }),
    }
}

/// Writes a line of a client.
pub fn encode_client(line: &ClientLine) -> String {
    let said = match &line.message {
        ClientMessage::Join { session, since: None } => format!("join {}", word(session)),
        ClientMessage::Join { session, since: Some(since) } => {
            format!("join {} since {since}", word(session))
        }
        ClientMessage::Say(text) => format!("say {}", escaped(&text.0)),
        ClientMessage::Stop => "stop".to_owned(),
        ClientMessage::History => "history".to_owned(),
    };
    with_tag(line.tag.as_ref(), &said)
}

/// Reads a line of the server.
///
/// # Errors
/// It says nothing that this protocol knows.
pub fn decode_server(line: &str) -> Result<ServerLine, Malformed> {
    let (tag, rest) = tagged(line)?;
    server_line(tag.clone(), rest).map_err(|why| Malformed { tag, why })
}

/// Writes a line of the server.
pub fn encode_server(line: &ServerLine) -> String {
    match line {
        ServerLine::Hello => HELLO.to_owned(),
        ServerLine::Ok { tag, at } => with_tag(tag.as_ref(), &format!("ok {at}")),
        ServerLine::Error { tag, code, words } => {
            with_tag(tag.as_ref(), &format!("error {} {}", code.name(), escaped(words)))
        }
        ServerLine::News { at, turn, news } => {
            let turn = word(turn);
            match news {
                News::Asked { who, text } => format!("{at} asked {turn} {} {}", word(who), escaped(&text.0)),
                News::Text(text) => format!("{at} text {turn} {}", escaped(&text.0)),
                News::Status(text) => format!("{at} status {turn} {}", escaped(&text.0)),
                News::Done(ending) => format!("{at} done {turn} {}", ending.name()),
                News::Failed(text) => format!("{at} failed {turn} {}", escaped(&text.0)),
                News::Stopped => format!("{at} stopped {turn}"),
            }
        }
        ServerLine::Bye { retry_ms } => format!("bye {retry_ms}"),
    }
}

fn client_message(text: &str) -> Result<ClientMessage, &'static str> {
    let (verb, rest) = split(text);
    match verb {
        "join" => {
            let (name, rest) = split(rest);
            let session = read(name)?;
            if session.is_empty() || session.len() > LONGEST_NAME {
                return Err("join needs the name of a session, of 128 bytes at most");
            }
            let since = match split(rest) {
                ("", "") => None,
                ("since", position) => Some(place(position)?),
                _ => return Err("after the name there may be since POSITION, and nothing else"),
            };
            Ok(ClientMessage::Join { session, since })
        }
        "say" if rest.is_empty() => Err("there is nothing to say"),
        "say" => Ok(ClientMessage::Say(Pii(read(rest)?))),
        "stop" if rest.is_empty() => Ok(ClientMessage::Stop),
        "history" if rest.is_empty() => Ok(ClientMessage::History),
        "stop" | "history" => Err("nothing follows stop and history"),
        _ => Err("say join, say, stop or history"),
    }
}

fn server_line(tag: Option<Tag>, text: &str) -> Result<ServerLine, &'static str> {
    let (first, rest) = split(text);
    match first {
        "ok" => return Ok(ServerLine::Ok { tag, at: place(rest)? }),
        "error" => {
            let (name, words) = split(rest);
            let code = Code::ALL.into_iter().find(|code| code.name() == name).ok_or("no such code")?;
            return Ok(ServerLine::Error { tag, code, words: read(words)? });
        }
        _ if tag.is_some() => return Err("only answers have a tag"),
        "hello" if text == HELLO => return Ok(ServerLine::Hello),
        "bye" => return Ok(ServerLine::Bye { retry_ms: rest.parse().map_err(|_| "no number")? }),
        _ => {}
    }
    let at = place(first)?;
    let (verb, rest) = split(rest);
    let (turn, rest) = split(rest);
    let turn = read(turn)?;
    if turn.is_empty() {
        return Err("no turn");
    }
    let news = match verb {
        "asked" => {
            let (who, text) = split(rest);
            News::Asked { who: read(who)?, text: Pii(read(text)?) }
        }
        "text" => News::Text(Pii(read(rest)?)),
        "status" => News::Status(Pii(read(rest)?)),
        "done" => {
            News::Done(Ending::ALL.into_iter().find(|ending| ending.name() == rest).ok_or("no such ending")?)
        }
        "failed" => News::Failed(Pii(read(rest)?)),
        "stopped" if rest.is_empty() => News::Stopped,
        _ => return Err("no such news"),
    };
    Ok(ServerLine::News { at, turn, news })
}

/// Takes the tag off a line.
fn tagged(line: &str) -> Result<(Option<Tag>, &str), Malformed> {
    let wrong = |why| Malformed { tag: None, why };
    if line.contains(['\n', '\r']) {
        return Err(wrong("a message is one line"));
    }
    let Some(tagged) = line.strip_prefix('@') else { return Ok((None, line)) };
    let (name, rest) = split(tagged);
    let tag = Tag::new(name).ok_or_else(|| wrong("a tag is 1 to 64 letters, digits, - and _"))?;
    Ok((Some(tag), rest))
}

fn with_tag(tag: Option<&Tag>, said: &str) -> String {
    match tag {
        Some(tag) => format!("@{} {said}", tag.as_str()),
        None => said.to_owned(),
    }
}

/// The first word, and what follows it.
fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn place(text: &str) -> Result<Position, &'static str> {
    text.parse().map_err(|_| "a position is written EPOCH-NUMBER")
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('\n', r"\n").replace('\r', r"\r")
}

fn word(text: &str) -> String {
    escaped(text).replace(' ', r"\s")
}

fn read(text: &str) -> Result<String, &'static str> {
    let mut read = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        read.push(match letter {
            '\\' => match letters.next() {
                Some('\\') => '\\',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('s') => ' ',
                _ => return Err(r"after a backslash comes \, n, r or s"),
            },
            letter => letter,
        });
    }
    Ok(read)
}

const HELLO: &str = "hello linewise/1";
const LONGEST_NAME: usize = 128;
