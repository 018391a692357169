//! HTTP for collectors: `GET /metrics`, over TCP where `--metrics` names an address.
//!
//! Bounds, for whoever reaches the address: so many connections ([`CONNECTIONS`]), each for [`LIFETIME`] at most, and a request's
//! head in [`MOST_BYTES`] and within [`SILENCE`]. Bodies of requests are not read.
//!
//! Promises: an address that is taken is tried again, for the agent serves claims without it.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::claims::ClaimPage;
use crate::cluster::HeldClaims;
use crate::event::EventLog;

/// Port where none is named: the one after the daemon's.
const PORT: u16 = 19438;
/// Connections at once.
const CONNECTIONS: usize = 16;
/// The largest head of a request.
const MOST_BYTES: usize = 16 << 10;
/// How long a request may take to come.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a connection lasts.
const LIFETIME: Duration = Duration::from_secs(60);
/// Time after which an address is tried again, and after which a listener is that has failed.
const AGAIN: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(100);

/// The address that is named, an IP address with or without a port.
///
/// # Errors
/// In words, with the value.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    text.parse().or_else(|_| alone()).map_err(|_| {
        format!("--metrics {text}: give an IP address, such as 10.0.0.7 or 10.0.0.7:{PORT}")
    })
}

/// Serves the page, for as long as this runs.
pub(crate) async fn serve<C: HeldClaims>(address: SocketAddr, page: ClaimPage<C>, log: EventLog) {
    let page = Arc::new(page);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let listener = bind(address, &log).await;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(SOON).await;
            continue;
        };
        // Without a place it is closed, which the collector sees.
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let page = page.clone();
        tokio::spawn(async move {
            let _place = place;
            let _ = timeout(LIFETIME, connection(stream, page)).await;
        });
    }
}

async fn bind(address: SocketAddr, log: &EventLog) -> TcpListener {
    let mut is_told = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let bound = listener.local_addr().unwrap_or(address);
                log.say(&format!("metrics are served at http://{bound}/metrics"));
                return listener;
            }
            Err(error) if !std::mem::replace(&mut is_told, true) => {
                log.say(&format!(
                    "--metrics {address}: it cannot be listened on, and is tried again: {error}"
                ));
            }
            Err(_) => {}
        }
        sleep(AGAIN).await;
    }
}

async fn connection<C: HeldClaims>(stream: TcpStream, page: Arc<ClaimPage<C>>) {
    let service = service_fn(|request| {
        let page = page.clone();
        async move { Ok::<_, Infallible>(answer(&request, &page).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(MOST_BYTES)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    // A collector's failures are its own.
    let _ = served.await;
}

async fn answer<C: HeldClaims>(
    request: &Request<Incoming>,
    page: &ClaimPage<C>,
) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let plain = |status, words: String| answered(status, "text/plain; charset=utf-8", words);
    match request.uri().path() {
        "/metrics" if !is_read => {
            let words = "only GET and HEAD are answered here\n".to_owned();
            with(plain(StatusCode::METHOD_NOT_ALLOWED, words), ALLOW, "GET, HEAD")
        }
        "/metrics" => match page.text().await {
            Ok(text) => answered(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        _ => plain(StatusCode::NOT_FOUND, "there is /metrics\n".to_owned()),
    }
}

fn answered(status: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    with(answer, CONTENT_TYPE, content)
}

fn with(
    mut answer: Response<Full<Bytes>>,
    name: HeaderName,
    value: &'static str,
) -> Response<Full<Bytes>> {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
