//! A node for an agent that is a process: folders, an API server that knows claims, a daemon that makes any tenant.

#![allow(dead_code, reason = "the measurement takes a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

pub(crate) const DRIVER: &str = "gpu.divvy.dev";
pub(crate) const UUID: &str = "GPU-01010101-0101-0101-0101-010101010101";

/// A folder of the test's own, removed at its end.
pub(crate) struct AgentNode(PathBuf);

pub(crate) fn pid(child: &Child) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap())
}

impl AgentNode {
    /// With an API server, and no daemon yet.
    pub(crate) fn new(name: &str) -> Self {
        // A socket's path is short.
        let own = format!("divvy-agent-{name}-{}", std::process::id());
        let base = std::env::temp_dir().join(own);
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(&base).unwrap();
        std::fs::write(base.join("libdivvy.so"), "").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve_claims(&stream));
            }
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "clusters": [{ "name": "test", "cluster": { "server": server } }],
            "users": [{ "name": "test", "user": {} }],
        });
        std::fs::write(base.join("kubeconfig"), config.to_string()).unwrap();
        Self(base)
    }

    pub(crate) fn path(&self, below: &str) -> String {
        self.0.join(below).display().to_string()
    }

    pub(crate) fn command(&self, more: &[&str]) -> Command {
        self.command_of("agent", vec![("--card", format!("gpu-0={UUID}"))], more)
    }

    /// The device plugin's.
    pub(crate) fn plugin_command(&self, more: &[&str]) -> Command {
        self.command_of("plugin", vec![("--size", "8g-30c".to_owned())], more)
    }

    fn command_of(&self, of: &str, mut arguments: Vec<(&str, String)>, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_divvy-kube"));
        command.arg(of).env("KUBECONFIG", self.path("kubeconfig"));
        command.env_remove("POD_UID").env("NODE_NAME", "node");
        for (flag, path) in [
            ("--kubelet-root", ""),
            ("--cdi", "cdi"),
            ("--state", "state"),
            ("--daemon", "daemon.sock"),
            ("--library", "libdivvy.so"),
        ] {
            arguments.push((flag, self.path(path)));
        }
        // What a test gives counts.
        arguments.retain(|(flag, _)| *flag == "--card" || !more.contains(flag));
        for (flag, value) in arguments {
            command.arg(flag).arg(value);
        }
        command.args(more);
        command
    }

    /// An agent that serves.
    pub(crate) fn agent(&self, more: &[&str]) -> Child {
        started(self.command(more), "waits for the kubelet")
    }

    /// A plugin that has said this.
    pub(crate) fn plugin(&self, more: &[&str], until: &str) -> Child {
        started(self.plugin_command(more), until)
    }

    /// Code and standard error of a command that ends; without an API server where it is not `configured`.
    pub(crate) fn ended(&self, mut command: Command, configured: bool) -> (i32, String) {
        if !configured {
            command.env("KUBECONFIG", self.path("none")).env_remove("KUBERNETES_SERVICE_HOST");
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// The answer of a readiness probe.
    pub(crate) fn ready(&self) -> (i32, Value) {
        let output = self.command(&["--ready", "--json"]).output().unwrap();
        let answer = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), answer)
    }

    /// The code of a liveness probe.
    pub(crate) fn alive(&self) -> i32 {
        self.command(&["--alive"]).output().unwrap().status.code().unwrap()
    }

    /// Socket of a daemon that has yet to take connections.
    pub(crate) fn silent_daemon(&self) -> UnixListener {
        let path = self.0.join("daemon.sock");
        let _ = std::fs::remove_file(&path);
        UnixListener::bind(&path).unwrap()
    }

    /// A daemon, for as long as the test is.
    pub(crate) fn daemon(&self) -> PathBuf {
        let (path, listener) = (self.0.join("daemon.sock"), self.silent_daemon());
        let tenants = self.0.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve_tenant(&stream, &tenants);
            }
        });
        path
    }
}

/// A process that has said this on its standard error.
fn started(mut command: Command, until: &str) -> Child {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(until) {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "the process has ended");
    }
    // It goes on to tell, and is not to find a closed pipe.
    std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    child
}

impl Drop for AgentNode {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Answers requests of one connection. There is a claim of any name that begins with `train`, of UID `uid-` and its name.
fn serve_claims(stream: &TcpStream) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let place = "GET /apis/resource.k8s.io/v1/namespaces/team/resourceclaims/";
        let asked = request.strip_prefix(place).and_then(|rest| rest.split([' ', '?']).next());
        let (status, body) = match asked.filter(|name| name.starts_with("train")) {
            Some(name) => ("200 OK", claim(name)),
            None if request.starts_with("GET /api/v1/nodes/node ") => ("200 OK", node()),
            None => {
                let (message, reason) = ("not found", "NotFound");
                let body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Failure", "message": message, "reason": reason, "code": 404 });
                ("404 Not Found", body)
            }
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if (&mut &*stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn claim(name: &str) -> Value {
    let uid = format!("uid-{name}");
    let result = json!({ "request": "gpu", "driver": DRIVER, "pool": "node", "device": "gpu-0", "shareID": uid,
        "consumedCapacity": { "memory": "1Gi", "cores": "1", "slots": "1" } });
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "namespace": "team", "name": name, "uid": uid },
        "spec": {},
        "status": { "allocation": { "devices": { "results": [result] } } },
    })
}

fn node() -> Value {
    json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "node", "uid": "node-uid" },
        "status": { "nodeInfo": { "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.31.4",
            "architecture": "amd64", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
            "operatingSystem": "linux", "osImage": "", "systemUUID": "" } } })
}

/// Answers one request to a daemon.
fn serve_tenant(mut stream: &UnixStream, tenants: &Path) {
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; usize::try_from(u32::from_le_bytes(head)).unwrap()];
    stream.read_exact(&mut body).unwrap();
    let request: Value = serde_json::from_slice(&body).unwrap();
    if request["call"] == json!("cards") {
        let card = json!({ "uuid": UUID, "memory_bytes": 80_u64 << 30, "health": "healthy" });
        return answer(stream, &json!({ "cards": { "cards": [card] } }));
    }
    let call = request["call"]["tenant"].as_object().unwrap();
    let (name, fields) = call.iter().next().unwrap();
    let tenant = || json!({ "directory": tenants.join(fields["id"].as_str().unwrap()) });
    let told = match name.as_str() {
        "create" => json!({ "created": { "tenant": tenant() } }),
        "set" => json!({ "tenant": tenant() }),
        "remove" => json!({ "removed": {} }),
        _ => json!({ "tenants": { "tenants": [] } }),
    };
    answer(stream, &told);
}

fn answer(mut stream: &UnixStream, told: &Value) {
    let body = json!({ "answer": told }).to_string();
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    stream.write_all(&[&length, body.as_bytes()].concat()).unwrap();
}
