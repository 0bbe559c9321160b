//! What became of a call, in the words of the session.

use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use switchboard_core::model::{CallEnd, CallError};

/// The end of a call whose server is not there, or went away meanwhile.
pub(super) fn unavailable() -> CallEnd {
    failed("unavailable", "the server of this tool is not available")
}

pub(super) fn failed(name: &str, message: &str) -> CallEnd {
    CallEnd::Failed(CallError::new(name, message))
}

/// The end of a call that was answered.
pub(super) fn answered(result: ServerResult) -> CallEnd {
    if let ServerResult::CallToolResult(result) = result {
        return returned(result);
    }
    failed("unsupported", "the server answered with something else than a result")
}

/// The end of a call that was refused, or not answered at all.
pub(super) fn refused(error: ServiceError) -> CallEnd {
    if let ServiceError::McpError(error) = error {
        return CallEnd::Failed(CallError {
            name: code_name(error.code),
            message: cut(&error.message),
            detail: json!({ "code": error.code.0 }),
        });
    }
    if let ServiceError::UnexpectedResponse = error {
        return failed("unsupported", "the answer of the server makes no sense");
    }
    unavailable()
}

fn returned(result: CallToolResult) -> CallEnd {
    if result.is_error == Some(true) {
        return failed(FAILED, &cut(&text(&result.content)));
    }
    let only_text = result.content.iter().all(|block| matches!(block, ContentBlock::Text(_)));
    let output = match result.structured_content {
        Some(structured) => structured,
        None if only_text => Value::String(text(&result.content)),
        None => serde_json::to_value(&result.content).unwrap_or_default(),
    };
    if output.to_string().len() > MAX_RESULT_BYTES {
        return failed("too_large", TOO_LARGE_MESSAGE);
    }
    CallEnd::done(output)
}

fn text(content: &[ContentBlock]) -> String {
    let texts: Vec<&str> =
        content.iter().filter_map(ContentBlock::as_text).map(|text| text.text.as_str()).collect();
    texts.join("\n")
}

/// Stands in for a message that is too large to be read.
pub(super) fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::new(TOO_LARGE, TOO_LARGE_MESSAGE, None), Some(id))
}

pub(super) fn code_name(code: ErrorCode) -> String {
    let name = match code {
        ErrorCode::PARSE_ERROR => "parse_error",
        ErrorCode::INVALID_REQUEST => "invalid_request",
        ErrorCode::METHOD_NOT_FOUND => "method_not_found",
        ErrorCode::INVALID_PARAMS => "invalid_parameters",
        ErrorCode::INTERNAL_ERROR => "internal_error",
        ErrorCode::RESOURCE_NOT_FOUND => "resource_not_found",
        TOO_LARGE => "too_large",
        _ => "mcp_error",
    };
    name.to_owned()
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_ERROR_CHARS).collect()
}

/// The name of a tool that has run and failed, whichever protocol tells of it.
const FAILED: &str = "execution_error";
const TOO_LARGE: ErrorCode = ErrorCode(-32_097);
const TOO_LARGE_MESSAGE: &str = "the result is too large";
const MAX_RESULT_BYTES: usize = 4 << 20;
const MAX_ERROR_CHARS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn end(result: Value) -> CallEnd {
        returned(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn structure_goes_before_text() {
        let text = json!([{ "type": "text", "text": "{\"sum\":3}" }]);
        let result = json!({ "content": text, "structuredContent": { "sum": 3 } });
        assert_eq!(end(result), CallEnd::done(json!({ "sum": 3 })));
    }

    #[test]
    fn texts_are_joined_and_other_content_keeps_its_shape() {
        let one = json!({ "type": "text", "text": "one" });
        let two = json!({ "type": "text", "text": "two" });
        assert_eq!(end(json!({ "content": [one, two] })), CallEnd::done(json!("one\ntwo")));
        assert_eq!(end(json!({ "content": [] })), CallEnd::done(json!("")));
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        assert_eq!(end(json!({ "content": [one, image] })), CallEnd::done(json!([one, image])));
    }

    #[test]
    fn errors_are_named() {
        let content = json!([{ "type": "text", "text": "no such file" }]);
        assert_eq!(
            end(json!({ "content": content, "isError": true })),
            failed("execution_error", "no such file")
        );
        let error = ErrorData::new(ErrorCode::INVALID_PARAMS, "x is missing", None);
        let CallEnd::Failed(error) = refused(ServiceError::McpError(error)) else { panic!() };
        assert_eq!((error.name.as_str(), error.message.as_str()), ("invalid_parameters", "x is missing"));
        assert_eq!(error.detail, json!({ "code": -32602 }));
        assert_eq!(refused(ServiceError::TransportClosed), unavailable());
    }

    #[test]
    fn a_result_beyond_the_bound_is_refused() {
        let large = |bytes: usize| end(json!({ "content": [{ "type": "text", "text": "x".repeat(bytes) }] }));
        assert!(matches!(large(4 << 20), CallEnd::Failed(error) if error.name == "too_large"));
        assert!(matches!(large((4 << 20) - 2), CallEnd::Done { .. }));
    }
}
