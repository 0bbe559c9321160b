//! One request, as each protocol asks and is answered.

use switchboard_client::asp::{Finish, Invoke, RequestError, RequestEvent};
use switchboard_client::{acolyte, asp};

use crate::book::Recorder;
use crate::history::{Ending, What};
use crate::words::Words;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It was answered, well or badly.
    Answered,
    /// The server has not taken it; it may be asked again, under another number.
    Refused,
    /// Nobody knows.
    Lost,
}

/// Asks over ASP, under a key that makes it harmless to repeat, and reads to the end.
pub(crate) async fn asp(
    client: &asp::Client,
    session: Option<&str>,
    request: u64,
    prompt: String,
    recorder: &Recorder,
) -> Told {
    let Ok(mut answer) = client.invoke(invocation(session, request, prompt)).await else {
        recorder.saw(request, What::Refused);
        return Told::Refused;
    };
    read_asp(&mut answer, request, recorder).await
}

/// The request as ASP has it.
pub(crate) fn invocation(session: Option<&str>, request: u64, prompt: String) -> Invoke {
    Invoke {
        session: session.map(str::to_owned),
        idem: Some(format!("request-{request}")),
        ..Invoke::chat(prompt)
    }
}

/// Reads an answer to its end.
pub(crate) async fn read_asp(answer: &mut asp::Request, request: u64, recorder: &Recorder) -> Told {
    let (mut words, mut taken) = (Words::default(), false);
    while let Some(event) = answer.next().await {
        match event {
            Ok(RequestEvent::Start { .. }) => {
                taken = true;
                recorder.saw(request, What::Accepted);
            }
            Ok(RequestEvent::Text(text)) => {
                taken = true;
                recorder.saw_words(request, &words.push(&text));
            }
            Ok(RequestEvent::Restarted) => {
                words = Words::default();
                recorder.saw(request, What::Restarted);
            }
            Ok(RequestEvent::End(end)) => {
                let complete = end.finish == Finish::Complete;
                recorder.saw(request, What::Ended(if complete { Ending::Complete } else { Ending::Failed }));
                return Told::Answered;
            }
            Ok(
                RequestEvent::Status(_)
                | RequestEvent::Reason(_)
                | RequestEvent::Tool(_)
                | RequestEvent::Call(_)
                | RequestEvent::Ask(_)
                | RequestEvent::Data { .. }
                | RequestEvent::Usage(_)
                | RequestEvent::Notice(_),
            ) => {}
            Err(RequestError::Server(_)) if !taken => {
                recorder.saw(request, What::Refused);
                return Told::Refused;
            }
            Err(RequestError::Server(_)) => {
                recorder.saw(request, What::Ended(Ending::Failed));
                return Told::Answered;
            }
            Err(RequestError::Lost(_) | RequestError::SlowConsumer | RequestError::Closed) => break,
        }
    }
    recorder.saw(request, What::Ended(Ending::Lost));
    Told::Lost
}

/// Asks over Acolyte and reads to the end.
pub(crate) async fn acolyte(
    client: &acolyte::Client,
    session: &str,
    request: u64,
    prompt: String,
    recorder: &Recorder,
) -> Told {
    match client.chat(chat(session, prompt)).await {
        Ok(mut chat) => read_acolyte(&mut chat, request, recorder).await,
        Err(_) => {
            recorder.saw(request, What::Refused);
            Told::Refused
        }
    }
}

/// The request as Acolyte has it.
pub(crate) fn chat(session: &str, prompt: String) -> acolyte::ChatRequest {
    acolyte::ChatRequest {
        message: prompt,
        model: crate::server::AGENT.to_owned(),
        session_id: Some(session.to_owned()),
        ..acolyte::ChatRequest::default()
    }
}

/// Reads a chat to its end.
pub(crate) async fn read_acolyte(chat: &mut acolyte::Chat, request: u64, recorder: &Recorder) -> Told {
    let (mut words, mut taken) = (Words::default(), false);
    while let Some(update) = chat.next().await {
        match update {
            acolyte::Update::Event(acolyte::ChatEvent::Accepted(_)) => {
                taken = true;
                recorder.saw(request, What::Accepted);
            }
            acolyte::Update::Event(acolyte::ChatEvent::Stream(event)) => {
                if let acolyte::StreamEvent::TextDelta { text } = event {
                    taken = true;
                    recorder.saw_words(request, &words.push(&text));
                }
            }
            acolyte::Update::Event(acolyte::ChatEvent::Queued(_) | acolyte::ChatEvent::Started)
            | acolyte::Update::NotAborted(_) => {}
            acolyte::Update::Ended(acolyte::Ending::Done(_)) => {
                recorder.saw(request, What::Ended(Ending::Complete));
                return Told::Answered;
            }
            acolyte::Update::Ended(acolyte::Ending::Failed { .. } | acolyte::Ending::Refused(_))
                if !taken =>
            {
                recorder.saw(request, What::Refused);
                return Told::Refused;
            }
            acolyte::Update::Ended(
                acolyte::Ending::Failed { .. } | acolyte::Ending::Aborted | acolyte::Ending::Refused(_),
            ) => {
                recorder.saw(request, What::Ended(Ending::Failed));
                return Told::Answered;
            }
            acolyte::Update::Ended(acolyte::Ending::Lost { .. }) => break,
        }
    }
    recorder.saw(request, What::Ended(Ending::Lost));
    Told::Lost
}
