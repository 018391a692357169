//! The pages that a daemon serves to collectors while tenants run.
//!
//! `DIVVY_PAGES` names a folder in which they are left, in both formats, for Prometheus' own parsers (`tests/metrics`).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::harness::{Divided, Machine, Talk, signal, until};
use crate::turns::{programs, tenant};

/// Port that an address without one has.
const PORT: u16 = 19437;

/// The body of an answer; empty where there is none, or another status than this.
fn body(host: &str, path: &str, accepted: &str, status: u16) -> String {
    let Ok(mut stream) = TcpStream::connect((host, PORT)) else { return String::new() };
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accepted}");
    let mut answer = String::new();
    let asked = write!(stream, "{head}\r\nConnection: close\r\n\r\n");
    let told = asked.and_then(|()| stream.read_to_string(&mut answer));
    let is_so = told.is_ok() && answer.starts_with(&format!("HTTP/1.1 {status} "));
    let body = answer.split_once("\r\n\r\n").filter(|_| is_so);
    body.map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// Two tenants, whose programs end with them.
struct Pair {
    machine: Divided,
    tenants: Vec<Talk>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in ["a", "b"] {
            programs(&self.machine, name).iter().for_each(|pid| signal(*pid, "KILL"));
        }
        self.tenants.clear();
    }
}

#[test]
fn both_formats_are_served_while_two_tenants_take_turns() {
    // An address of this process alone: all of 127.0.0.0/8 is the machine's.
    let pid = std::process::id();
    let host = format!("127.{}.{}.{}", 64 + (pid >> 16) % 64, (pid >> 8) % 256, pid % 254 + 1);
    let machine = Divided::with(Machine::new(), &["--capacity", "300MiB", "--metrics", &host]);
    let tenants = ["a", "b"].map(|name| tenant(&machine, name, 4, 600_000, 0)).into();
    let pair = Pair { machine, tenants };
    for tenant in &pair.tenants {
        tenant.expect("ready");
    }
    let open = || body(&host, "/metrics", "application/openmetrics-text;version=1.0.0", 200);
    let mut page = String::new();
    until("both have used the device, and memory was handed over", || {
        page = open();
        let has = |start: &str| {
            let mut lines = page.lines();
            lines.any(|line| {
                line.starts_with(start) && !line.ends_with(" 0") && !line.ends_with(" 0.000000000")
            })
        };
        let uses = |name: &str| has(&format!("divvy_tenant_used_seconds_total{{tenant=\"{name}\""));
        uses("a") && uses("b") && has("divvy_device_memory_handovers_total{")
    });
    assert!(
        page.contains("divvy_device_info{device_uuid=\"GPU-") && page.ends_with("# EOF\n"),
        "{page}"
    );
    let plain = body(&host, "/metrics", "text/plain;version=0.0.4", 200);
    assert!(plain.contains("# TYPE divvy_tenant_used_seconds_total counter\n"), "{plain}");
    let health = body(&host, "/healthz", "*/*", 200);
    assert!(health.contains("\"status\":\"ok\""), "{health}");
    if let Some(folder) = std::env::var_os("DIVVY_PAGES") {
        let folder = Path::new(&folder);
        fs::create_dir_all(folder).expect("a folder for the pages");
        fs::write(folder.join("open.txt"), &page).expect("a page");
        fs::write(folder.join("plain.txt"), &plain).expect("a page");
    }
}
