//! Answers of the tests' API server.

use std::convert::Infallible;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Bytes;
use serde_json::{Value, json};

pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Line of a watch.
pub(super) fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}

pub(super) fn whole(code: u16, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).boxed();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

pub(super) fn status(code: u16, message: &str) -> Response<Body> {
    let reason = if code == 409 { "Conflict" } else { "Test" };
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "message": message, "reason": reason, "code": code });
    whole(code, &status)
}
