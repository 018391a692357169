//! HTTP for collectors: `/metrics` and `/healthz`, over TCP where `--metrics` names an address.
//!
//! Hyper reads and writes HTTP/1.1; one thread waits for all connections, another one makes pages, and neither is the one
//! that schedules. Bounds, for whoever reaches the address: so many connections ([`CONNECTIONS`]), of which the oldest that
//! nothing is being answered on goes when another one comes ([`Crowd`]); a request's head in [`MOST_BYTES`] and within
//! [`SILENCE`], which is also how long a connection may be silent between two; and a connection lasts [`LIFETIME`],
//! whatever it does. Bodies of requests are not read.
//!
//! Promises: GET and HEAD of what is there; other methods are answered with 405, other paths with 404, what is no HTTP with
//! 400, heads that are too large with 431. Only what everybody on the machine may see is served, so name an address that
//! only collectors reach.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, VARY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{sleep, timeout};

use super::crowd::{Crowd, CrowdPlace};
use super::metrics::Page;
use super::quota::Quota;
use super::thread::thread;
use crate::metrics::format::TextFormat;
use crate::output::out;

/// Connections at once: collectors are few, and often come from one address.
const CONNECTIONS: Quota = Quota { most: 16, most_of_one: 16 };
/// The largest head of a request.
const MOST_BYTES: usize = 16 << 10;
/// Most header fields of one; a collector sends six.
const MOST_HEADERS: usize = 64;
/// How long the next request may take to come, with all of its head.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a connection lasts.
const LIFETIME: Duration = Duration::from_secs(60);
/// How long what is being answered at its end may still take.
const GRACE: Duration = Duration::from_secs(5);

type Answer = Response<Full<Bytes>>;

/// Serves on `address`, and says where, since the port may have been left open.
pub(super) fn start(address: SocketAddr, page: &Arc<Page>) -> Result<()> {
    let cannot = || format!("--metrics {address}: it cannot be listened on");
    let listener = std::net::TcpListener::bind(address).with_context(cannot)?;
    listener.set_nonblocking(true).with_context(cannot)?;
    let address = listener.local_addr().with_context(cannot)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // One makes a page; another one asks for another daemon's health meanwhile.
        .max_blocking_threads(2)
        .thread_name("divvy page")
        .thread_stack_size(256 << 10)
        .build()
        .with_context(cannot)?;
    let page = Arc::clone(page);
    thread("divvy metrics", move || runtime.block_on(accept(listener, &page)))?;
    out::warn(&format!("metrics are served at http://{address}/metrics"));
    Ok(())
}

async fn accept(listener: std::net::TcpListener, page: &Arc<Page>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let crowd: Arc<Crowd<IpAddr>> = Crowd::new(CONNECTIONS);
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            // No descriptors, most likely: those who are connected time out.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Without a place it is closed, which the collector sees.
        let Ok((stream, place)) = placed(stream, from.ip(), &crowd) else { continue };
        tokio::spawn(serve(stream, place, Arc::clone(page)));
        // Else a burst of connections would have those leave that have asked and were not read.
        yield_now().await;
    }
}

/// The connection with its place, which ends it by a descriptor of its own.
fn placed(
    stream: TcpStream,
    from: IpAddr,
    crowd: &Arc<Crowd<IpAddr>>,
) -> std::io::Result<(TcpStream, Arc<CrowdPlace<IpAddr>>)> {
    let stream = stream.into_std()?;
    let closer = Arc::new(stream.try_clone()?);
    let place = crowd.enter(from, closer).ok_or(std::io::ErrorKind::ConnectionRefused)?;
    Ok((TcpStream::from_std(stream)?, Arc::new(place)))
}

async fn serve(stream: TcpStream, place: Arc<CrowdPlace<IpAddr>>, page: Arc<Page>) {
    let service = service_fn(|request| {
        let (page, place) = (Arc::clone(&page), Arc::clone(&place));
        async move {
            let _answering = place.answering();
            Ok::<_, Infallible>(answer(&request, page).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(MOST_BYTES)
        .max_headers(MOST_HEADERS)
        // A client that has said all may close its side.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // A collector's failures are its own.
    if timeout(LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(GRACE, connection).await;
    }
}

async fn answer(request: &Request<Incoming>, page: Arc<Page>) -> Answer {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/metrics" | "/healthz" if !is_read => with(
            plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n"),
            ALLOW,
            "GET, HEAD",
        ),
        "/metrics" => {
            let accepts = request.headers().get_all(ACCEPT).iter();
            metrics(TextFormat::accepted(accepts.filter_map(|value| value.to_str().ok())), page)
                .await
        }
        "/healthz" => health(page).await,
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
    }
}

async fn metrics(format: TextFormat, page: Arc<Page>) -> Answer {
    match spawn_blocking(move || page.text(format)).await {
        Ok(Some(text)) => {
            let body = Bytes::copy_from_slice(text.as_bytes());
            let answer = bodied(StatusCode::OK, format.content_type(), body);
            with(answer, VARY, "Accept")
        }
        // Between two daemons.
        _ => plain(StatusCode::SERVICE_UNAVAILABLE, "no daemon answers\n"),
    }
}

async fn health(page: Arc<Page>) -> Answer {
    let health = match page.own_health() {
        Some(health) => health,
        None => match spawn_blocking(move || page.others_health()).await {
            Ok(health) => health,
            Err(_) => return plain(StatusCode::SERVICE_UNAVAILABLE, "this daemon ends\n"),
        },
    };
    let status = if health.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = serde_json::to_vec(&health).unwrap_or_default();
    body.push(b'\n');
    with(bodied(status, "application/json", body.into()), CACHE_CONTROL, "no-store")
}

fn plain(status: StatusCode, words: &'static str) -> Answer {
    bodied(status, "text/plain; charset=utf-8", Bytes::from_static(words.as_bytes()))
}

fn bodied(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    with(answer, CONTENT_TYPE, content_type)
}

fn with(mut answer: Answer, name: HeaderName, value: &'static str) -> Answer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
