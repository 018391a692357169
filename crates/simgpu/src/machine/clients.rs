//! Connected clients, their tickets and their contexts.

use super::peer::Peer;
use std::collections::BTreeMap;

/// A client library of some process.
#[derive(Debug)]
pub struct Client {
    /// The secret by which lanes and lost connections are known.
    pub ticket: [u8; 16],
    /// The process.
    pub peer: Peer,
    /// Its control connection; none while the program has closed it and not come back.
    pub control: Option<u64>,
}

/// A context.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Its client.
    pub client: u64,
    /// Its device.
    pub device: u32,
}

/// All clients and contexts.
#[derive(Debug, Default)]
pub struct Clients {
    clients: BTreeMap<u64, Client>,
    contexts: BTreeMap<u64, Context>,
    next: u64,
}

impl Clients {
    /// A new client.
    pub fn add(&mut self, client: Client) -> u64 {
        self.next += 1;
        self.clients.insert(self.next, client);
        self.next
    }

    /// The client that holds this ticket.
    pub fn by_ticket(&mut self, ticket: &[u8; 16]) -> Option<(u64, &mut Client)> {
        self.clients
            .iter_mut()
            .find(|(_, client)| client.ticket == *ticket)
            .map(|(id, client)| (*id, client))
    }

    /// A client by its number.
    pub fn get_mut(&mut self, client: u64) -> Option<&mut Client> {
        self.clients.get_mut(&client)
    }

    /// The pid a client is shown under, while it is one.
    pub fn pid(&self, client: u64) -> Option<u32> {
        self.clients.get(&client).map(|client| client.peer.pid)
    }

    /// Removes a client; its contexts are answered with it.
    pub fn remove(&mut self, client: u64) -> Option<(Client, Vec<(u64, Context)>)> {
        let gone = self.clients.remove(&client)?;
        let ids: Vec<u64> = self
            .contexts
            .iter()
            .filter(|(_, context)| context.client == client)
            .map(|(id, _)| *id)
            .collect();
        let contexts =
            ids.into_iter().filter_map(|id| Some((id, self.contexts.remove(&id)?))).collect();
        Some((gone, contexts))
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// A new context.
    pub fn add_context(&mut self, context: Context) -> u64 {
        self.next += 1;
        self.contexts.insert(self.next, context);
        self.next
    }

    /// A context by its number.
    pub fn context(&self, context: u64) -> Option<Context> {
        self.contexts.get(&context).copied()
    }

    /// Ends a context of this client.
    pub fn remove_context(&mut self, client: u64, context: u64) -> Option<Context> {
        let found = self.context(context).filter(|found| found.client == client)?;
        self.contexts.remove(&context);
        Some(found)
    }

    /// How many contexts each client has on a device.
    pub fn contexts_on(&self, device: u32) -> BTreeMap<u64, u32> {
        let mut counts = BTreeMap::new();
        for context in self.contexts.values().filter(|context| context.device == device) {
            *counts.entry(context.client).or_insert(0) += 1;
        }
        counts
    }
}
