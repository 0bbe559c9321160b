//! The upgrade (section 2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::check::{Check, Need, Outcome, Run, must};
use super::peer::{INVOKE, PATH, Peer, frame};
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[4], needs: &[], run: |run| Box::pin(the_subprotocol_is_selected(run)) },
    Check { shows: &[4], needs: &[], run: |run| Box::pin(others_are_refused(run)) },
    Check { shows: &[5], needs: &[], run: |run| Box::pin(the_path_is_served(run)) },
    Check { shows: &[6], needs: &[Need::Key], run: |run| Box::pin(a_credential_is_needed(run)) },
    Check { shows: &[7], needs: &[Need::Key], run: |run| Box::pin(a_credential_may_be_a_subprotocol(run)) },
    Check { shows: &[8], needs: &[Need::Key], run: |run| Box::pin(a_token_in_the_query_is_refused(run)) },
];

async fn the_subprotocol_is_selected(run: &Run<'_>) -> Outcome {
    for offered in [&["asp-v1"][..], &["chat", "asp-v1", "asp-v2"]] {
        let socket = run.socket(Request::upgrade(PATH, offered)).await?;
        let chosen = socket.headers.get("sec-websocket-protocol").and_then(|value| value.to_str().ok());
        must!(chosen == Some("asp-v1"), "asp-v1 to be selected of {offered:?}, got {chosen:?}");
        socket.close().await;
    }
    Ok(())
}

async fn others_are_refused(run: &Run<'_>) -> Outcome {
    for offered in [&[][..], &["asp-v2", "chat"]] {
        let status = run.status(Request::upgrade(PATH, offered)).await?;
        must!(status == 400, "400 for an upgrade that offers {offered:?}, got {status}");
    }
    Ok(())
}

async fn the_path_is_served(run: &Run<'_>) -> Outcome {
    let status = run.status(Request::upgrade(PATH, &["asp-v1"])).await?;
    must!(status == 101, "101 at {PATH}, got {status}");
    let status = run.status(Request::get(PATH)).await?;
    must!(status == 426, "426 for a request that is no upgrade, got {status}");
    Ok(())
}

async fn a_credential_is_needed(run: &Run<'_>) -> Outcome {
    let answer = run.ask(Request::upgrade(PATH, &["asp-v1"]).without_key()).await?;
    must!(answer.status == 401, "401 without a credential, got {}", answer.status);
    let challenge = answer.header("www-authenticate");
    must!(
        challenge.is_some_and(|text| text.starts_with("Bearer")),
        "WWW-Authenticate: Bearer, got {challenge:?}"
    );
    for wrong in ["Bearer nonsense", "Bearer ", "Basic bm9ib2R5Om5vYm9keQ=="] {
        let status = run.status(Request::upgrade(PATH, &["asp-v1"]).header("authorization", wrong)).await?;
        must!(status == 401, "401 for {wrong:?}, got {status}");
    }
    Ok(())
}

async fn a_credential_may_be_a_subprotocol(run: &Run<'_>) -> Outcome {
    let status = run.status(Request::upgrade(PATH, &["asp-v1"])).await?;
    must!(status == 101, "101 with Authorization: Bearer, got {status}");
    let entry =
        format!("asp-bearer.{}", URL_SAFE_NO_PAD.encode(run.target.key.as_deref().unwrap_or_default()));
    for offered in [["asp-v1", entry.as_str()], [entry.as_str(), "asp-v1"]] {
        let socket = run.socket(Request::upgrade(PATH, &offered).without_key()).await?;
        let told = format!("{:?}", socket.headers);
        must!(!told.contains("asp-bearer"), "the credential not to be echoed");
        let mut peer = Peer::on(socket, run);
        peer.raw(frame(INVOKE, 0, 1, run.settings.say.as_bytes())).await;
        peer.finish(1).await?;
        peer.close().await;
    }
    Ok(())
}

async fn a_token_in_the_query_is_refused(run: &Run<'_>) -> Outcome {
    let key = run.target.key.as_deref().unwrap_or_default();
    for name in ["token", "access_token"] {
        let request = Request::upgrade(format!("{PATH}?{name}={key}"), &["asp-v1"]).without_key();
        let status = run.status(request).await?;
        must!(status == 401, "401 for a token in the query, got {status}");
    }
    Ok(())
}
