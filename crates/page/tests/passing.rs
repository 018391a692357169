//! Descriptors passed between processes of a tenant: they arrive, and nobody is waited for without end.

mod scratch;

use std::ffi::CString;
use std::time::{Duration, Instant};

use divvy_page::kernel::{self, Descriptor};
use divvy_page::passing::{Listener, Passing};
use divvy_page::{ConfigSource, Errno, Tenant};
use scratch::Scratch;

fn tenant(at: &CString) -> Tenant {
    let config = divvy_abi::config::Config::default();
    Tenant::attach(at, &ConfigSource::FirstProcess(&config)).expect("attached")
}

/// A file with these bytes, as a descriptor.
fn file(scratch: &Scratch, bytes: &[u8]) -> Descriptor {
    let path = scratch.path().join("passed");
    std::fs::write(&path, bytes).expect("written");
    kernel::open(None, &scratch::c_path(&path), libc::O_RDONLY, 0).expect("open")
}

fn bytes_of(descriptor: &Descriptor) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let count = kernel::read_at(descriptor, &mut bytes, 0).expect("readable");
    bytes.truncate(count);
    bytes
}

/// Answers one question by `act` in a thread of its own.
fn answering<T: Send + 'static>(
    listener: Listener,
    act: impl FnOnce(Passing) -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        let (_kept, peer) = listener.accept().expect("somebody asks");
        act(peer)
    })
}

fn passes(scratch: &Scratch, at: &CString) {
    let tenant = tenant(at);
    let [_, slot] = tenant.own_place().expect("a slot");
    assert_eq!(tenant.connect(slot).err(), Some(Errno(libc::ENOENT)), "nobody listens");
    let listener = tenant.listen().expect("listens");
    let passed = file(scratch, b"what is passed");
    let answered = answering(listener, move |peer| {
        let (question, none) = peer.receive().expect("a question");
        assert!(none.is_none());
        peer.send([1, 2], Some(&passed)).expect("sent");
        peer.send([3, 4], None).expect("sent");
        question
    });
    let peer = tenant.connect(slot).expect("connected");
    peer.send([5, 6], None).expect("sent");
    let (words, descriptor) = peer.receive().expect("an answer");
    assert_eq!(words, [1, 2]);
    assert_eq!(bytes_of(&descriptor.expect("a descriptor")), b"what is passed");
    let (words, none) = peer.receive().expect("an answer");
    assert_eq!((words, none.is_none()), ([3, 4], true));
    assert_eq!(answered.join().expect("answered"), [5, 6]);
    assert_eq!(peer.receive().err(), Some(Errno(libc::ECONNRESET)), "it has ended");
    // Its listener has ended; the next takes the name.
    assert_eq!(tenant.connect(slot).err(), Some(Errno(libc::ECONNREFUSED)));
    assert!(tenant.listen().is_ok());
}

#[test]
fn words_and_descriptors_arrive() {
    let scratch = Scratch::new("passing");
    passes(&scratch, &scratch.c_path());
}

#[test]
fn a_path_that_is_longer_than_a_sockets_is_gone_past() {
    let scratch = Scratch::new("passing-long");
    let long = scratch.path().join("x".repeat(110));
    std::fs::create_dir_all(&long).expect("a directory");
    let long = CString::new(long.to_str().expect("text")).expect("no NUL");
    assert!(long.as_bytes().len() <= 200, "{long:?}");
    passes(&scratch, &long);
}

#[test]
fn nobody_is_waited_for_without_end() {
    let scratch = Scratch::new("passing-silent");
    let tenant = tenant(&scratch.c_path());
    let [_, slot] = tenant.own_place().expect("a slot");
    let listener = tenant.listen().expect("listens");
    let begun = Instant::now();
    let peer = tenant.connect(slot).expect("it is queued");
    peer.send([1, 2], None).expect("so is what is said");
    assert_eq!(peer.receive().err(), Some(Errno(libc::EAGAIN)));
    // One that connects and says nothing, or too little.
    let silent = answering(listener, |peer| {
        drop(peer);
    });
    silent.join().expect("ended");
    let listener = tenant.listen().expect("listens");
    let silent = answering(listener, |peer| peer.receive().err());
    let _peer = tenant.connect(slot).expect("connected");
    assert_eq!(silent.join().expect("ended"), Some(Errno(libc::EAGAIN)));
    assert!(begun.elapsed() < Duration::from_secs(60));
}
