//! Memory between processes: one card for all, freed by death, kept by a holder.

use crate::support::{ANSWERED, Machine, eventually, stays};
use simgpu::client::{Client, ClientError};
use simgpu::sys::mapping::Mapping;
use simgpu::wire::Charge;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

const MIB: u64 = 1 << 20;

/// Fills the first page of a mapping.
pub(crate) fn write(mapping: &Mapping, byte: u8) {
    mapping.span().write(&[byte; 4096]);
}

fn first(mapping: &Mapping) -> u8 {
    mapping.span().part(0, 1).unwrap().read()[0]
}

fn machine() -> Machine {
    Machine::new(&[("SIMGPU_MEMORY", "1GiB"), ("SIMGPU_MODE", "fast")])
}

/// The machine sees an end before, or with, the next questions of others.
fn all_is_free_at_once(machine: &Machine, witness: &Client) {
    let looks = eventually("death frees", || machine.free_bytes(witness) == 1024 * MIB);
    assert!(looks < ANSWERED, "{looks} questions were answered before");
}

#[test]
fn one_card_is_finite_for_all_processes_together() {
    let machine = machine();
    let (mut one, mut two) = (machine.process(), machine.process());
    assert_eq!(one.tell("allocate 600"), "ok");
    assert_eq!(two.tell("allocate 600"), "the device is out of memory");
    assert_eq!(two.tell("allocate 424"), "ok");
    assert_eq!(two.tell("free"), "0");
    assert_eq!(one.tell("allocate 1"), "the device is out of memory");
    one.end();
    eventually("a clean end frees", || machine.free_bytes(&machine.client()) == 600 * MIB);
    assert_eq!(two.tell("allocate 600"), "ok");
}

#[test]
fn sigkill_frees_memory_and_contexts_at_once() {
    let machine = machine();
    let witness = machine.client();
    let mut victim = machine.process();
    assert_eq!(victim.tell("context"), "ok");
    assert_eq!(victim.tell("allocate 100"), "ok");
    assert_eq!(machine.free_bytes(&witness), (1024 - 518 - 100) * MIB);
    victim.kill();
    all_is_free_at_once(&machine, &witness);
}

#[test]
fn a_fork_that_lives_keeps_nothing_of_its_dead_parent() {
    let machine = machine();
    let witness = machine.client();
    let mut parent = machine.process();
    assert_eq!(parent.tell("allocate 100"), "ok");
    let copies = parent.descriptors();
    assert!(copies.len() >= 2);
    parent.kill();
    all_is_free_at_once(&machine, &witness);
}

#[test]
fn new_memory_reads_as_zeros_and_is_the_same_for_all_holders() {
    let machine = machine();
    let client = machine.client();
    let block = client.allocate(0, 5 * MIB, Charge::Blocks).unwrap();
    assert_eq!(block.bytes, 6 * MIB);
    let mapping = client.map(&block).unwrap().unwrap();
    assert_eq!((mapping.span().bytes() as u64, first(&mapping)), (6 * MIB, 0));
    write(&mapping, 7);
    let again = client.map(&block).unwrap().unwrap();
    assert_eq!(first(&again), 7);
    client.release(block).unwrap();
    let next = client.allocate(0, 6 * MIB, Charge::Blocks).unwrap();
    assert_eq!(first(&client.map(&next).unwrap().unwrap()), 0);
    client.release(next).unwrap();
}

#[test]
fn a_shared_block_outlives_its_exporter() {
    let machine = machine();
    let client = machine.client();
    let mut exporter = machine.process();
    assert_eq!(exporter.tell("allocate 64"), "ok");
    assert_eq!(exporter.tell("write 42"), "ok");
    let text = exporter.tell("share");
    let mut handle = [0; 64];
    for (index, byte) in handle.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).unwrap();
    }
    let shared = client.ipc_open(&handle).unwrap();
    assert_eq!(shared.length_bytes, 64 * MIB);
    exporter.kill();
    stays("the block is held", || machine.free_bytes(&client) == (1024 - 64) * MIB);
    let mapping = client.map(&shared.block).unwrap().unwrap();
    assert_eq!(first(&mapping), 42);
    let own = &client.processes(0).unwrap()[0];
    assert_eq!((own.pid, own.bytes), (std::process::id(), 64 * MIB));
    client.release(shared.block).unwrap();
    assert_eq!(machine.free_bytes(&client), 1024 * MIB);
    assert!(matches!(client.ipc_open(&handle), Err(ClientError::Unknown)));
}

#[test]
fn an_exported_descriptor_keeps_the_block_until_it_is_closed() {
    let machine = machine();
    let (one, two) = (machine.client(), machine.client());
    let block = one.allocate(0, 2 * MIB, Charge::Handle).unwrap();
    let descriptor = one.export(&block).unwrap();
    let copy = descriptor.try_clone().unwrap();
    one.release(block).unwrap();
    assert_eq!(machine.free_bytes(&two), 1022 * MIB);
    let imported = two.import(descriptor.as_raw_fd()).unwrap();
    drop(descriptor);
    two.release(imported).unwrap();
    assert_eq!(machine.free_bytes(&two), 1022 * MIB);
    drop(copy);
    eventually("the last copy frees", || machine.free_bytes(&two) == 1024 * MIB);
}

#[test]
fn an_exported_descriptor_keeps_the_block_beyond_its_makers_death() {
    let machine = machine();
    let client = machine.client();
    let mut maker = machine.process();
    assert_eq!(maker.tell("allocate 64"), "ok");
    assert_eq!(maker.tell("write 42"), "ok");
    let number = maker.tell("export").parse().unwrap();
    let descriptor = maker.descriptor(number);
    maker.kill();
    stays("the descriptor keeps it", || machine.free_bytes(&client) == (1024 - 64) * MIB);
    assert_eq!(client.processes(0).unwrap(), [], "the dead pay for nothing");
    let block = client.import(descriptor.as_raw_fd()).unwrap();
    assert_eq!(first(&client.map(&block).unwrap().unwrap()), 42);
    drop(descriptor);
    stays("its importer keeps it", || machine.free_bytes(&client) == (1024 - 64) * MIB);
    client.release(block).unwrap();
    assert_eq!(machine.free_bytes(&client), 1024 * MIB);
}

#[test]
fn memory_that_another_left_by_its_death_reads_as_zeros() {
    let machine = machine();
    let client = machine.client();
    let mut victim = machine.process();
    assert_eq!(victim.tell("allocate 1024"), "ok");
    assert_eq!(victim.tell("write 42"), "ok");
    victim.kill();
    all_is_free_at_once(&machine, &client);
    // All of the card, so what the victim wrote to is among it.
    let block = client.allocate(0, 1024 * MIB, Charge::Blocks).unwrap();
    assert_eq!(first(&client.map(&block).unwrap().unwrap()), 0);
    client.release(block).unwrap();
}

#[test]
fn exported_descriptors_are_all_of_one_file() {
    let machine = machine();
    let client = machine.client();
    let block = client.allocate(0, 2 * MIB, Charge::Handle).unwrap();
    let (one, two) = (client.export(&block).unwrap(), client.export(&block).unwrap());
    let identity = |number: i32| {
        let stat = std::fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
        Some((stat.dev(), stat.ino()))
    };
    assert_eq!(identity(one.as_raw_fd()), identity(two.as_raw_fd()));
    // Each client has it open, as a program has the driver's device file.
    let own = (0..4096)
        .filter(|number| ![one.as_raw_fd(), two.as_raw_fd()].contains(number))
        .find(|number| identity(*number) == identity(one.as_raw_fd()));
    assert!(own.is_some());
    assert!(matches!(client.import(own.unwrap()), Err(ClientError::Unknown)), "it is no export");
    drop(one);
    let imported = client.import(two.as_raw_fd()).unwrap();
    client.release(block).unwrap();
    client.release(imported).unwrap();
    assert_eq!(machine.free_bytes(&client), 1022 * MIB);
    drop(two);
    eventually("the last copy frees", || machine.free_bytes(&client) == 1024 * MIB);
}

#[test]
fn what_is_no_exported_descriptor_is_refused() {
    let machine = machine();
    let client = machine.client();
    let other = std::fs::File::open("/dev/null").unwrap();
    for number in [other.as_raw_fd(), -1, 999_999] {
        assert!(matches!(client.import(number), Err(ClientError::Unknown)), "{number}");
    }
    assert!(matches!(client.ipc_open(&[3; 64]), Err(ClientError::Unknown)));
    assert!(matches!(client.allocate(7, 1, Charge::Blocks), Err(ClientError::Unknown)));
}

#[test]
fn processes_are_listed_with_what_they_pay_for() {
    let machine = machine();
    let client = machine.client();
    let mut one = machine.process();
    assert_eq!(one.tell("context"), "ok");
    assert_eq!(one.tell("allocate 10"), "ok");
    let rows = client.processes(0).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].pid, rows[0].contexts, rows[0].bytes), (one.pid(), 1, 528 * MIB));
}

#[test]
fn a_context_on_the_default_card_costs_what_it_does_on_hardware() {
    let machine = Machine::new(&[("SIMGPU_MODE", "fast")]);
    let client = machine.client();
    let idle = client.memory_info(0).unwrap();
    assert_eq!((idle.total_bytes, idle.free_bytes), (150_109_880_320, 150_109_880_320));
    let context = client.create_context(0).unwrap();
    assert_eq!(idle.free_bytes - machine.free_bytes(&client), 548_995_072);
    assert_eq!(client.processes(0).unwrap()[0].bytes, 543_162_368);
    client.destroy_context(context).unwrap();
    assert_eq!(client.memory_info(0).unwrap(), idle);
}

#[test]
fn two_devices_are_two_cards() {
    let machine = Machine::new(&[
        ("SIMGPU_MEMORY", "64MiB,32MiB"),
        ("SIMGPU_DEVICES", "2"),
        ("SIMGPU_MODE", "fast"),
    ]);
    let client = machine.client();
    assert_eq!(client.devices().len(), 2);
    assert_ne!(client.devices()[0].uuid, client.devices()[1].uuid);
    let block = client.allocate(1, 32 * MIB, Charge::Blocks).unwrap();
    assert!(matches!(client.allocate(1, 1, Charge::Blocks), Err(ClientError::OutOfMemory)));
    assert_eq!(client.memory_info(0).unwrap().free_bytes, 64 * MIB);
    client.release(block).unwrap();
}
