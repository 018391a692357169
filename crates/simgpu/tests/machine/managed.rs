//! Managed memory between processes: one card's room for all, in which who was used longest ago gives way.

use crate::support::{ANSWERED, Machine, eventually};
use simgpu::client::ClientError;
use simgpu::machine::managed::Moved;
use simgpu::wire::Charge;

const MIB: u64 = 1 << 20;
/// A granule.
const G: u64 = 2 * MIB;

/// What moved, in words: MiB that came, that were evicted, and that stayed.
pub(crate) fn told(moved: &Moved) -> String {
    let came: u64 = moved.came.iter().map(|(_, count)| count * G).sum();
    format!("{} {} {}", came / MIB, moved.evicted_bytes / MIB, moved.stayed_bytes / MIB)
}

fn machine() -> Machine {
    Machine::new(&[("SIMGPU_MEMORY", "1GiB"), ("SIMGPU_MODE", "fast")])
}

#[test]
fn what_one_process_brings_evicts_what_another_used_longest_ago() {
    let machine = machine();
    let (mut one, mut two) = (machine.process(), machine.process());
    for process in [&mut one, &mut two] {
        assert_eq!(process.tell("managed 800"), "ok");
    }
    assert_eq!(one.tell("bring 0 400"), "800 0 0");
    assert_eq!(two.tell("free"), (224 * MIB).to_string());
    // Used anew, the first half of it is younger than the second.
    assert_eq!(one.tell("bring 0 200"), "0 0 0");
    assert_eq!(two.tell("bring 0 300"), "600 376 0");
    assert_eq!(
        (one.tell("resident 0 200"), one.tell("resident 200 200")),
        ("400".into(), "24".into())
    );
    assert_eq!(two.tell("resident 0 400"), "600");
    assert_eq!(one.tell("free"), "0");
}

#[test]
fn blocks_and_contexts_have_managed_memory_go_and_only_then_are_out_of_memory() {
    let machine = machine();
    let client = machine.client();
    let mut other = machine.process();
    assert_eq!(other.tell("managed 2048"), "ok");
    assert_eq!(other.tell("bring 0 1024"), "2048 1024 0");
    assert_eq!(machine.free_bytes(&client), 0);
    let context = client.create_context(0).unwrap();
    assert_eq!(context.evicted_bytes, 518 * MIB);
    let block = client.allocate(0, 500 * MIB, Charge::Blocks).unwrap();
    assert_eq!(block.evicted_bytes, 500 * MIB);
    let too_large = client.allocate(0, 8 * MIB, Charge::Blocks);
    assert!(matches!(too_large, Err(ClientError::OutOfMemory)));
    assert_eq!(other.tell("resident 0 1024"), "6", "a refusal evicts nothing");
    // The room that is left is gone through; nothing that is no managed memory gives way to it.
    assert_eq!(other.tell("bring 0 10"), "20 20 0");
    let rest = client.allocate(0, 6 * MIB, Charge::Handle).unwrap();
    assert_eq!(rest.evicted_bytes, 6 * MIB);
    assert_eq!(other.tell("bring 0 10"), "0 0 20");
    client.release(block).unwrap();
    client.release(rest).unwrap();
    client.destroy_context(context).unwrap();
}

#[test]
fn nobody_pays_for_managed_memory_and_death_frees_it() {
    let machine = machine();
    let client = machine.client();
    let mut victim = machine.process();
    assert_eq!(victim.tell("context"), "ok");
    assert_eq!(victim.tell("managed 100"), "ok");
    assert_eq!(victim.tell("bring 0 50"), "100 0 0");
    assert_eq!(machine.free_bytes(&client), (1024 - 518 - 100) * MIB);
    assert_eq!(client.processes(0).unwrap()[0].bytes, 518 * MIB);
    victim.kill();
    let looks = eventually("death frees", || machine.free_bytes(&client) == 1024 * MIB);
    assert!(looks < ANSWERED, "{looks} questions were answered before");
}

#[test]
fn what_goes_or_ends_is_free_and_what_is_not_there_is_refused() {
    let machine = machine();
    let (client, other) = (machine.client(), machine.client());
    let managed = client.make_managed(10 * MIB + 1).unwrap();
    client.bring(&managed, 0, (0, 6)).unwrap();
    assert_eq!(client.leave(&managed, (1, 2)).unwrap().came, [(1, 2)]);
    assert_eq!(machine.free_bytes(&client), (1024 - 8) * MIB);
    assert!(matches!(client.bring(&managed, 0, (0, 7)), Err(ClientError::Invalid)));
    assert!(matches!(client.bring(&managed, 1, (0, 1)), Err(ClientError::Unknown)));
    assert!(matches!(other.leave(&managed, (0, 1)), Err(ClientError::Unknown)));
    assert!(matches!(client.make_managed(0), Err(ClientError::Invalid)));
    client.end_managed(managed).unwrap();
    assert_eq!(machine.free_bytes(&client), 1024 * MIB);
}
