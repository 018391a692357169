//! Client of the daemon's socket: frames of a length and so many bytes of JSON, as the daemon's guide has them.
//!
//! Small on purpose: the daemon's crate brings a screen and a server along. That both speak alike is tested against a daemon.
//!
//! Promises: nothing is said to a process that is neither root's nor this user's; all of an exchange has one deadline.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::unistd::geteuid;
use serde_json::{Value, json};

use super::daemon::{CardLimits, CreatedTenant, DaemonError, NodeDaemon, NodeTenantLimits};

/// Version of the requests and answers.
const VERSION: u32 = 1;
/// The longest answer.
const MOST_BYTES: usize = 1 << 20;
/// How long an exchange may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause before a socket is tried again that takes no more connections.
const PAUSE: Duration = Duration::from_millis(2);

/// The daemon behind a socket.
#[derive(Clone, Debug)]
pub struct DaemonSocket {
    path: PathBuf,
}

impl DaemonSocket {
    /// The one at `path`, such as `/run/divvy/daemon.sock`. Nothing is asked yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> DaemonError {
        DaemonError::Unreachable(format!("no daemon answers at {}: {why}", self.path.display()))
    }

    fn reach(&self, deadline: Instant) -> Result<UnixStream, DaemonError> {
        let cannot = |errno: Errno| self.unreachable(errno.desc());
        // Never waiting: a listener that takes no connections would be waited for.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let made = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(cannot)?;
        let stream = UnixStream::from(made);
        let address = UnixAddr::new(&self.path).map_err(cannot)?;
        while let Err(errno) = connect(stream.as_raw_fd(), &address) {
            if errno != Errno::EAGAIN || Instant::now() >= deadline {
                return Err(cannot(errno));
            }
            std::thread::sleep(PAUSE);
        }
        let peer = getsockopt(&stream, PeerCredentials).map_err(cannot)?.uid();
        if peer != 0 && peer != geteuid().as_raw() {
            return Err(self.unreachable(format!("uid {peer} listens there; it is not spoken to")));
        }
        stream.set_nonblocking(false).map_err(|error| self.unreachable(error))?;
        Ok(stream)
    }

    /// Asks about tenants, and takes the answer by its name.
    fn ask(&self, call: &Value, answer: &str) -> Result<Value, DaemonError> {
        self.call(&json!({ "tenant": call }), answer)
    }

    /// Asks anything, and takes the answer by its name.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub(crate) fn call(&self, call: &Value, answer: &str) -> Result<Value, DaemonError> {
        let deadline = Instant::now() + PATIENCE;
        let stream = self.reach(deadline)?;
        let mut exchange = Exchange { stream: &stream, deadline };
        let body = json!({ "version": VERSION, "call": call }).to_string();
        let response = exchange.round(body.as_bytes()).map_err(|error| self.unreachable(error))?;
        let told = response.get("answer").unwrap_or(&Value::Null);
        if let Some(found) = told.get(answer) {
            return Ok(found.clone());
        }
        let error = told.get("error").unwrap_or(&Value::Null);
        let word = |name: &str| error.get(name).and_then(Value::as_str);
        match word("message") {
            Some(words) => Err(DaemonError::Refused {
                code: word("code").unwrap_or("failed").to_owned(),
                words: words.to_owned(),
            }),
            None => Err(self.unreachable(format!("an answer without {answer:?}: {response}"))),
        }
    }

    fn directory(&self, tenant: &Value) -> Result<String, DaemonError> {
        let directory = tenant.get("directory").and_then(Value::as_str);
        let directory = directory.filter(|path| path.starts_with('/')).map(str::to_owned);
        directory.ok_or_else(|| self.unreachable("a tenant without a directory"))
    }
}

impl NodeDaemon for DaemonSocket {
    fn create(&self, id: &str, limits: &NodeTenantLimits) -> Result<CreatedTenant, DaemonError> {
        let call = json!({ "create": { "id": id, "limits": limits } });
        let created = self.ask(&call, "created")?;
        let directory = self.directory(created.get("tenant").unwrap_or(&Value::Null))?;
        let is_new = created.get("made").and_then(Value::as_bool).unwrap_or(false);
        Ok(CreatedTenant { directory, is_new })
    }

    fn set(&self, id: &str, limits: &NodeTenantLimits) -> Result<String, DaemonError> {
        let call = json!({ "set": { "id": id, "limits": limits } });
        self.directory(&self.ask(&call, "tenant")?)
    }

    fn held(&self, id: &str) -> Result<BTreeMap<String, u64>, DaemonError> {
        let tenant = self.ask(&json!({ "stat": { "id": id } }), "tenant")?;
        let devices = tenant.get("devices").and_then(Value::as_array);
        let devices = devices.ok_or_else(|| self.unreachable("a tenant without devices"))?;
        let held = |device: &Value| {
            let uuid = device.get("uuid").and_then(Value::as_str)?;
            Some((uuid.to_owned(), device.get("held_bytes").and_then(Value::as_u64)?))
        };
        Ok(devices.iter().filter_map(held).collect())
    }

    fn limits(&self, id: &str) -> Result<Option<NodeTenantLimits>, DaemonError> {
        let tenant = match self.ask(&json!({ "stat": { "id": id } }), "tenant") {
            Err(error) if error.is_unknown_tenant() => return Ok(None),
            answer => answer?,
        };
        let devices = tenant.get("devices").and_then(Value::as_array);
        let devices = devices.ok_or_else(|| self.unreachable("a tenant without devices"))?;
        let whole = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64);
        let small = |of: &Value, name: &str| whole(of, name).and_then(|it| u32::try_from(it).ok());
        let card = |device: &Value| {
            Some(CardLimits {
                uuid: device.get("uuid").and_then(Value::as_str)?.to_owned(),
                // A limit that is not told stands for the whole card.
                memory_bytes: whole(device, "limit_bytes").unwrap_or(u64::MAX),
                share_ppm: small(device, "share_ppm").unwrap_or(0),
            })
        };
        Ok(Some(NodeTenantLimits {
            devices: devices.iter().filter_map(card).collect(),
            weight: small(&tenant, "weight").unwrap_or(u32::MAX),
            ..NodeTenantLimits::default()
        }))
    }

    fn remove(&self, id: &str) -> Result<(), DaemonError> {
        self.ask(&json!({ "remove": { "id": id } }), "removed").map(|_| ())
    }

    fn list(&self) -> Result<Vec<String>, DaemonError> {
        // Root is told of everybody's where it names nobody.
        let listed = self.ask(&json!({ "list": { "uid": geteuid().as_raw() } }), "tenants")?;
        let tenants = listed.get("tenants").and_then(Value::as_array);
        let tenants = tenants.ok_or_else(|| self.unreachable("a list without tenants"))?;
        let id = |tenant: &Value| tenant.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(tenants.iter().filter_map(id).collect())
    }
}

/// One question and its answer.
struct Exchange<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Exchange<'_> {
    fn left(&self) -> std::io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn round(&mut self, body: &[u8]) -> std::io::Result<Value> {
        let length = u32::try_from(body.len()).map_err(std::io::Error::other)?;
        self.write_all(&[&length.to_le_bytes(), body].concat())?;
        let mut head = [0; 4];
        self.read_exact(&mut head)?;
        let bytes = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
        if bytes > MOST_BYTES {
            return Err(std::io::Error::other(format!("an answer of {bytes} bytes")));
        }
        let mut answer = Vec::new();
        self.take(bytes as u64).read_to_end(&mut answer)?;
        if answer.len() < bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Read for Exchange<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        (&mut &*self.stream).read(into)
    }
}

impl Write for Exchange<'_> {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.stream).write(from)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A list from a daemon that says `told`, a frame or not.
    fn answered(name: &str, told: Vec<u8>) -> Result<Vec<String>, DaemonError> {
        let path = std::env::temp_dir().join(format!("divvy-kube-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4];
            stream.read_exact(&mut head).unwrap();
            let mut body = vec![0; usize::try_from(u32::from_le_bytes(head)).unwrap()];
            stream.read_exact(&mut body).unwrap();
            stream.write_all(&told).unwrap();
        });
        let answer = DaemonSocket::at(&path).list();
        answering.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        answer
    }

    fn frame(body: &str) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        [&length, body.as_bytes()].concat()
    }

    #[test]
    fn whatever_is_answered_ends_in_a_list_or_an_error() {
        assert!(matches!(
            DaemonSocket::at("/nonexistent/daemon.sock").list(),
            Err(DaemonError::Unreachable(why)) if why.contains("/nonexistent/daemon.sock")
        ));
        let cut: [&[u8]; 3] = [b"", b"\x05\0\0\0ab", b"\xff\xff\xff\xff"];
        let wrong = ["{}", "[{", "{\"answer\":{\"removed\":{}}}", "{\"answer\":{\"tenants\":[]}}"]
            .map(frame);
        for (told, number) in cut.map(<[u8]>::to_vec).into_iter().chain(wrong).zip(0..) {
            let answer = answered(&format!("bad-{number}"), told.clone());
            assert!(matches!(answer, Err(DaemonError::Unreachable(_))), "{told:?}: {answer:?}");
        }
        let busy = frame("{\"answer\":{\"error\":{\"code\":\"busy\",\"message\":\"no\"}}}");
        let refused = DaemonError::Refused { code: "busy".to_owned(), words: "no".to_owned() };
        assert_eq!(answered("busy", busy), Err(refused));
        let list = frame("{\"answer\":{\"tenants\":{\"tenants\":[{\"id\":\"a\"}]}}}");
        assert_eq!(answered("list", list), Ok(vec!["a".to_owned()]));
    }
}
