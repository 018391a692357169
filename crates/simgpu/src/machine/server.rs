//! The daemon's one thread: connections, deaths and time.
//!
//! It waits for packets, for the end of processes, and for the engines' next event. It never waits for
//! a client: what cannot be sent at once is kept, and a client that lets too much of it pile up is cut
//! off. It ends with its last client, under the lock that starting takes, so no client can connect to a
//! machine that is gone.

use super::description::Description;
use super::peer::Peer;
use super::requests::{Answer, Machine};
use crate::clock::now_ns;
use crate::engine::{Job, Report};
use crate::wire::{Engine, PROTOCOL, Pace, Refusal, Reply, Request, socket};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::collections::{BTreeMap, VecDeque};
use std::{path::PathBuf, time::Duration};

/// How long a new machine waits for its first client.
const FIRST_CLIENT_NS: u64 = 2_000_000_000;
/// How long until the end is tried again when somebody holds the lock.
const RETRY_NS: u64 = 5_000_000;
/// Packets read from a lane, or a connection that has hung up, before the others' turn.
const BURST: usize = 64;
/// Packets that may wait for a client that does not read.
const BACKLOG: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
enum Watch {
    Listener,
    Connection,
    Process(u64),
}

#[derive(Clone, Copy, Debug)]
enum Role {
    /// Has not said what it is.
    Fresh,
    Control(u64),
    Lane {
        client: u64,
        device: usize,
    },
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    role: Role,
    outgoing: VecDeque<Vec<u8>>,
}

/// The daemon.
#[derive(Debug)]
pub struct Server {
    machine: Machine,
    listener: OwnedFd,
    socket_path: PathBuf,
    lock: OwnedFd,
    epoll: OwnedFd,
    watches: BTreeMap<u64, Watch>,
    connections: BTreeMap<u64, Connection>,
    next_token: u64,
    linger: Option<Duration>,
    /// When the machine ends if nobody comes.
    end_ns: Option<u64>,
}

impl Server {
    /// A machine that listens at `socket_path`; whoever calls holds the start lock.
    pub fn new(
        description: Description,
        socket_path: PathBuf,
        lock: OwnedFd,
        linger: Option<Duration>,
    ) -> Result<Self, Errno> {
        match rustix::fs::unlink(&socket_path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let listener = socket::listen(&socket_path)?;
        // A user that may enter the directory may use the machine.
        rustix::fs::chmod(&socket_path, rustix::fs::Mode::from_raw_mode(0o666))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut server = Self {
            machine: Machine::new(description)?,
            listener,
            socket_path,
            lock,
            epoll,
            watches: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_token: 1,
            linger,
            end_ns: linger.map(|_| now_ns() + FIRST_CLIENT_NS),
        };
        let token = server.token(Watch::Listener);
        watch(&server.epoll, server.listener.as_fd(), token, epoll::EventFlags::IN)?;
        Ok(server)
    }

    /// Serves until the last client has gone.
    pub fn run(&mut self) -> Result<(), Errno> {
        let mut space = Vec::with_capacity(256);
        loop {
            let timeout = self.timeout(now_ns());
            space.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut space),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            self.advance(now_ns());
            let mut events: Vec<_> =
                space.iter().map(|event| (event.data.u64(), event.flags)).collect();
            // Events that free memory come first: a client that saw a process end or a descriptor closed, and
            // asks then, is to be told so.
            events.sort_by_key(|(token, flags)| match self.watches.get(token) {
                Some(Watch::Process(_)) => 0,
                _ if flags.contains(epoll::EventFlags::HUP) => 1,
                _ => 2,
            });
            for (token, flags) in events {
                match self.watches.get(&token).copied() {
                    Some(Watch::Listener) => self.accept(),
                    Some(Watch::Connection) => self.connection(token, flags),
                    Some(Watch::Process(_)) => self.freed(token),
                    None => {}
                }
            }
            if self.is_over(now_ns()) {
                return Ok(());
            }
        }
    }

    /// A process has ended.
    fn freed(&mut self, token: u64) {
        if let Some(Watch::Process(client)) = self.watches.remove(&token) {
            self.end_client(client);
        }
    }

    /// Lets go of what was freed before the request at hand was sent.
    ///
    /// The wait that named the request may not have: while it collects, the end of a process is set
    /// aside until it is done, and a request that came after it is still found. So what is ready by now
    /// is asked for again.
    fn settle(&mut self) {
        let watched = |watch: &Watch| matches!(watch, Watch::Process(_));
        if !self.watches.values().any(watched) {
            return;
        }
        let mut space = Vec::with_capacity(256);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut space), Some(&now));
        if found.is_ok() {
            let tokens: Vec<u64> = space.iter().map(|event| event.data.u64()).collect();
            let freed = |token: &u64| self.watches.get(token).is_some_and(watched);
            let freed: Vec<u64> = tokens.into_iter().filter(freed).collect();
            freed.into_iter().for_each(|token| self.freed(token));
        }
    }

    /// Gives the start lock back, for a caller that took it itself.
    pub fn unlock(&self) {
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }

    fn token(&mut self, watch: Watch) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.watches.insert(token, watch);
        token
    }

    fn timeout(&self, now_ns: u64) -> Option<Timespec> {
        let events = self.machine.engines.iter().filter_map(crate::engine::Engines::next_event_ns);
        let next_ns = events.chain(self.end_ns).min()?;
        let wait_ns = next_ns.saturating_sub(now_ns);
        Some(Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        })
    }

    fn accept(&mut self) {
        while let Ok(socket) = socket::accept(&self.listener) {
            let token = self.token(Watch::Connection);
            if watch(&self.epoll, socket.as_fd(), token, epoll::EventFlags::IN).is_err() {
                self.watches.remove(&token);
                continue;
            }
            let connection = Connection { socket, role: Role::Fresh, outgoing: VecDeque::new() };
            self.connections.insert(token, connection);
            self.end_ns = None;
        }
    }

    fn connection(&mut self, token: u64, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(token);
        }
        for turn in 0..BURST {
            let Some(connection) = self.connections.get(&token) else { return };
            let is_lane = matches!(connection.role, Role::Lane { .. });
            // One request at a time: what came before the next one is then seen before it. The times
            // of a lane's work come with it.
            if turn > 0 && !is_lane && !flags.contains(epoll::EventFlags::HUP) {
                return;
            }
            let received = if is_lane {
                let mut space = [0; socket::SMALL_PACKET_BYTES];
                socket::receive_small(&connection.socket, &mut space)
                    .map(|packet| (Request::decode(packet), None))
            } else {
                socket::receive(&connection.socket)
                    .map(|packet| (Request::decode(&packet.bytes), packet.attached))
            };
            match received {
                Ok((Some(request), attached)) => self.request(token, request, attached),
                Err(Errno::AGAIN) => return,
                // Its end, or nothing this language knows.
                Ok((None, _)) | Err(_) => return self.hang_up(token),
            }
        }
    }

    fn request(&mut self, token: u64, request: Request, attached: Option<OwnedFd>) {
        let Some(connection) = self.connections.get(&token) else { return };
        match (connection.role, request) {
            (Role::Fresh, Request::Hello { protocol, ticket, pid }) => {
                let peer = Peer::of(connection.socket.as_fd(), pid);
                self.hello(token, protocol, ticket, peer);
            }
            (Role::Fresh, Request::Lane { protocol, ticket }) => self.lane(token, protocol, ticket),
            (Role::Control(client), Request::Bye {}) => {
                self.connections.remove(&token);
                self.watches.remove(&token);
                self.end_client(client);
            }
            (Role::Control(client), request) => {
                self.settle();
                if !self.connections.contains_key(&token) {
                    return;
                }
                let answer = self.machine.answer(client, request, attached, now_ns());
                self.reply(token, answer);
            }
            (Role::Lane { client, device }, request @ Request::Run { .. }) => {
                self.work(token, client, device, &request);
            }
            _ => self.hang_up(token),
        }
    }

    fn hello(&mut self, token: u64, protocol: u32, ticket: [u8; 16], peer: Peer) {
        let (answer, client) = self.machine.hello(token, protocol, ticket, peer);
        if let Some(client) = client {
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.role = Role::Control(client);
            }
            if ticket == [0; 16] {
                let process = self.token(Watch::Process(client));
                let pidfd = self
                    .machine
                    .clients
                    .get_mut(client)
                    .and_then(|known| known.peer.pidfd.as_ref());
                let watched = pidfd.is_some_and(|pidfd| {
                    watch(&self.epoll, pidfd.as_fd(), process, epoll::EventFlags::IN).is_ok()
                });
                if !watched {
                    self.watches.remove(&process);
                }
            }
        }
        self.reply(token, answer);
    }

    fn lane(&mut self, token: u64, protocol: u32, ticket: [u8; 16]) {
        let known = self.machine.clients.by_ticket(&ticket).map(|(client, _)| client);
        let answer = match known {
            _ if protocol != PROTOCOL => Refusal::Protocol.into(),
            None => Refusal::Unknown.into(),
            Some(client) => {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.role = Role::Lane { client, device: 0 };
                }
                Reply::Done {}.into()
            }
        };
        self.reply(token, answer);
    }

    fn work(&mut self, token: u64, client: u64, last_device: usize, request: &Request) {
        let Request::Run { sequence, context, engine, amount, width_permille, pace, submitted_ns } =
            *request
        else {
            return;
        };
        let known = self.machine.clients.context(context).filter(|known| known.client == client);
        let device = known.map_or(last_device, |known| known.device as usize);
        // Work for a context that is gone takes no time, but ends in its lane's order.
        let (engine, amount) = match (known, engine) {
            (Some(_), 0) => (Engine::Compute, amount),
            (Some(_), 2) => (Engine::CopyOut, amount),
            (Some(_), _) => (Engine::CopyIn, amount),
            (None, _) => (Engine::CopyIn, 0),
        };
        let pace = if pace == Pace::Wall as u8 { Pace::Wall } else { Pace::Work };
        let job = Job { sequence, context, engine, amount, width_permille, pace, submitted_ns };
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Lane { client, device };
        }
        let now_ns = now_ns();
        self.advance(now_ns);
        let mut report = Report::default();
        if let Some(engines) = self.machine.engines.get_mut(device) {
            engines.submit(token, job, now_ns, &mut report);
        }
        self.deliver(report);
    }

    /// Lets time pass on all devices.
    fn advance(&mut self, now_ns: u64) {
        for device in 0..self.machine.engines.len() {
            let mut report = Report::default();
            self.machine.engines[device].advance(now_ns, &mut report);
            self.deliver(report);
        }
    }

    /// Counts and announces what the engines report.
    fn deliver(&mut self, mut report: Report) {
        self.machine.count(&mut report);
        for ending in report.endings {
            let completed = Reply::Completed {
                sequence: ending.sequence,
                started_ns: ending.started_ns,
                finished_ns: ending.finished_ns,
            };
            self.send(ending.lane, completed.encode(), None);
        }
    }

    fn reply(&mut self, token: u64, answer: Answer) {
        self.send(token, answer.reply.encode(), answer.attach.as_ref());
        self.deliver(answer.report);
    }

    fn send(&mut self, token: u64, packet: Vec<u8>, attach: Option<&OwnedFd>) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.outgoing.is_empty() {
            match socket::send(&connection.socket, &packet, attach.map(AsFd::as_fd)) {
                Ok(()) => return,
                // A client that waits for its one answer has room for it; a descriptor is only lost
                // by one that does not wait.
                Err(Errno::AGAIN) => {}
                Err(_) => return self.hang_up(token),
            }
        }
        connection.outgoing.push_back(packet);
        if connection.outgoing.len() > BACKLOG {
            return self.hang_up(token);
        }
        self.rewatch(token);
    }

    fn flush(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        while let Some(packet) = connection.outgoing.front() {
            match socket::send(&connection.socket, packet, None) {
                Ok(()) => {
                    connection.outgoing.pop_front();
                }
                Err(Errno::AGAIN) => return,
                Err(_) => return self.hang_up(token),
            }
        }
        self.rewatch(token);
    }

    /// Waits for room only while something waits to be sent.
    fn rewatch(&mut self, token: u64) {
        let Some(connection) = self.connections.get(&token) else { return };
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, !connection.outgoing.is_empty());
        let data = epoll::EventData::new_u64(token);
        if epoll::modify(&self.epoll, &connection.socket, data, flags).is_err() {
            self.hang_up(token);
        }
    }

    /// A connection is over.
    fn hang_up(&mut self, token: u64) {
        self.watches.remove(&token);
        let Some(connection) = self.connections.remove(&token) else { return };
        match connection.role {
            Role::Fresh => {}
            Role::Lane { .. } => {
                for device in 0..self.machine.engines.len() {
                    let mut report = Report::default();
                    self.machine.engines[device].forget_lane(token, &mut report);
                    self.deliver(report);
                }
            }
            Role::Control(client) => {
                let Some(known) = self.machine.clients.get_mut(client) else { return };
                if known.control != Some(token) {
                    return;
                }
                known.control = None;
                if !known.peer.lives_on() {
                    self.end_client(client);
                }
            }
        }
        self.consider_end();
    }

    /// A client is gone, or has said so: everything of it goes.
    fn end_client(&mut self, client: u64) {
        self.watches.retain(|_, watch| !matches!(watch, Watch::Process(of) if *of == client));
        let mut report = self.machine.forget_client(client, now_ns());
        let of_client = |role: Role| match role {
            Role::Fresh => false,
            Role::Control(owner) => owner == client,
            Role::Lane { client: owner, .. } => owner == client,
        };
        // The next context may begin by this, and its ends are told but once.
        let connections = &self.connections;
        let is_of_another = |lane| connections.get(&lane).is_some_and(|c| !of_client(c.role));
        report.endings.retain(|ending| is_of_another(ending.lane));
        self.deliver(report);
        let connections: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| of_client(connection.role))
            .map(|(token, _)| *token)
            .collect();
        for token in connections {
            self.hang_up(token);
        }
        self.consider_end();
    }

    fn consider_end(&mut self) {
        let busy = !self.machine.clients.is_empty() || !self.connections.is_empty();
        if let (false, Some(linger)) = (busy, self.linger) {
            let linger_ns = u64::try_from(linger.as_nanos()).unwrap_or(u64::MAX);
            self.end_ns = Some(now_ns().saturating_add(linger_ns));
        }
    }

    /// Ends the machine if its time has come and nobody is at the door.
    fn is_over(&mut self, now_ns: u64) -> bool {
        if self.end_ns.is_none_or(|end_ns| now_ns < end_ns) {
            return false;
        }
        if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            self.end_ns = Some(now_ns + RETRY_NS);
            return false;
        }
        self.accept();
        if self.end_ns.is_none() {
            let _ = flock(&self.lock, FlockOperation::Unlock);
            return false;
        }
        // Held until the process ends; whoever takes the lock next finds no socket.
        let _ = rustix::fs::unlink(&self.socket_path);
        true
    }
}

fn watch(
    epoll: &OwnedFd,
    descriptor: BorrowedFd<'_>,
    token: u64,
    flags: epoll::EventFlags,
) -> Result<(), Errno> {
    epoll::add(epoll, descriptor, epoll::EventData::new_u64(token), flags)
}
