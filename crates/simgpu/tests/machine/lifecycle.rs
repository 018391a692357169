//! Starting, ending, and programs that do odd things to their descriptors.

use crate::support::{Machine, PATIENCE, best_of_three, eventually, stays};
use simgpu::client::{Client, ClientError};
use simgpu::wire::Charge;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Closes every descriptor but the standard three, as daemons do.
pub(crate) fn close_all() {
    simgpu::sys::descriptor::close_inherited();
}

/// Allocates, shares and frees for ever.
pub(crate) fn churn(client: &Client, seed: u64) -> ! {
    let mut blocks = std::collections::VecDeque::new();
    for step in seed.. {
        if let Ok(block) = client.allocate(0, (step % 7 + 1) * MIB, Charge::Blocks) {
            if step % 3 == 0 {
                let _ = client.ipc_handle(&block, 0, MIB);
            }
            blocks.push_back(block);
        }
        if blocks.len() > 20 {
            client.release(blocks.pop_front().unwrap()).unwrap();
        }
    }
    unreachable!("nobody counts that far")
}

/// Becomes another program with the same pid.
pub(crate) fn become_sleep() -> ! {
    use std::os::unix::process::CommandExt;
    let problem = std::process::Command::new("sleep").arg("60").exec();
    panic!("{problem}");
}

#[test]
fn thirty_two_clients_start_one_machine() {
    let machine = Machine::new(&[("SIMGPU_MEMORY", "1GiB"), ("SIMGPU_MODE", "fast")]);
    let barrier = Barrier::new(32);
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let client = machine.client();
                    let _held = client.allocate(0, 2 * MIB, Charge::Blocks).unwrap();
                    client
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // One machine: everybody sees what all took.
    for client in &clients {
        assert_eq!(machine.free_bytes(client), (1024 - 64) * MIB);
    }
    drop(clients);
    eventually("the machine ends with its last client", || !machine.runs());
    // At once, and not after the two seconds that a machine waits for its first client; a host that stops for half of
    // them spoils a trial.
    best_of_three(|| {
        drop(machine.client());
        let start = Instant::now();
        eventually("it ends again", || !machine.runs());
        let took = start.elapsed();
        if took < Duration::from_secs(1) { Ok(()) } else { Err(format!("took {took:?}")) }
    });
}

#[test]
fn clients_that_come_as_the_machine_ends_find_one() {
    let machine = Machine::new(&[("SIMGPU_MODE", "fast")]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    drop(machine.client());
                }
            });
        }
    });
}

#[test]
fn a_machine_can_outlive_its_clients() {
    let machine = Machine::new(&[("SIMGPU_MODE", "fast"), ("SIMGPU_LINGER", "300ms")]);
    let client = machine.client();
    // A host that stops makes it longer, and never shorter.
    let start = Instant::now();
    drop(client);
    eventually("it ends", || !machine.runs());
    let lingered = start.elapsed();
    assert!(lingered >= Duration::from_millis(300), "{lingered:?}");
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_memory() {
    let machine = Machine::new(&[("SIMGPU_MEMORY", "1GiB"), ("SIMGPU_MODE", "fast")]);
    let witness = machine.client();
    let mut program = machine.process();
    assert_eq!(program.tell("allocate 100"), "ok");
    assert_eq!(program.tell("write 1"), "ok");
    assert_eq!(program.tell("close-all"), "ok");
    stays("nothing is free", || machine.free_bytes(&witness) == 924 * MIB);
    assert_eq!(program.tell("write 2"), "ok");
    assert_eq!(program.tell("allocate 24"), "ok");
    assert_eq!(machine.free_bytes(&witness), 900 * MIB);
    assert_eq!(program.tell("close-all"), "ok");
    program.kill();
    eventually("death frees all the same", || machine.free_bytes(&witness) == 1024 * MIB);
}

#[test]
fn the_daemons_death_is_an_error_and_no_hang() {
    let machine = Machine::new(&[("SIMGPU_MODE", "fast")]);
    let client = machine.client();
    let pid = client.daemon_pid().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let start = Instant::now();
    let mut outcome = client.memory_info(0);
    while outcome.is_ok() && start.elapsed() < PATIENCE {
        outcome = client.memory_info(0);
    }
    assert!(matches!(outcome, Err(ClientError::Gone)), "{outcome:?}");
    // The next client finds the stale socket and starts a machine of its own.
    assert!(machine.client().memory_info(0).is_ok());
}

#[test]
fn a_stopped_client_stalls_nobody() {
    let machine = Machine::new(&[("SIMGPU_MEMORY", "1GiB")]);
    let mut stopped = machine.process();
    assert_eq!(stopped.tell("context"), "ok");
    stopped.signal(rustix::process::Signal::STOP);
    let client = machine.client();
    // Each would wait for the other, who never goes on.
    let start = Instant::now();
    for _ in 0..100 {
        let block = client.allocate(0, 2 * MIB, Charge::Blocks).unwrap();
        client.release(block).unwrap();
    }
    assert!(start.elapsed() < PATIENCE);
    stopped.kill();
}

#[test]
fn a_bad_setting_is_told_in_words() {
    let machine = Machine::new(&[("SIMGPU_MEMORY", "lots")]);
    let problem = Client::connect_with(&|name| machine.lookup(name)).unwrap_err().to_string();
    assert!(problem.contains("SIMGPU_MEMORY=lots"), "{problem}");
    let machine = Machine::new(&[("SIMGPUD", "/nonexistent/simgpud")]);
    let problem = Client::connect_with(&|name| machine.lookup(name)).unwrap_err().to_string();
    assert!(problem.contains("/nonexistent/simgpud"), "{problem}");
}

#[test]
fn a_long_directory_name_is_no_obstacle() {
    let parent = Machine::new(&[("SIMGPU_MODE", "fast")]);
    let directory = parent.directory.join("d".repeat(120));
    std::fs::create_dir(&directory).unwrap();
    let lookup = |name: &str| match name {
        "SIMGPU_DIR" => directory.to_str().map(String::from),
        name => parent.lookup(name),
    };
    let client = Client::connect_with(&lookup).unwrap();
    assert!(client.memory_info(0).is_ok());
    drop(client);
    eventually("it ends", || !directory.join("simgpud.sock").exists());
}

#[test]
fn a_client_that_replaces_itself_frees_what_it_held() {
    let machine = Machine::new(&[("SIMGPU_MEMORY", "1GiB"), ("SIMGPU_MODE", "fast")]);
    let witness = machine.client();
    let mut program = machine.process();
    assert_eq!(program.tell("allocate 100"), "ok");
    program.say("exec");
    eventually("exec frees", || machine.free_bytes(&witness) == 1024 * MIB);
    program.kill();
}

#[test]
fn random_kills_leave_nothing_behind() {
    let machine = Machine::new(&[("SIMGPU_MEMORY", "4GiB"), ("SIMGPU_MODE", "fast")]);
    let witness = machine.client();
    for round in 0..6 {
        let mut processes: Vec<_> = (0..4).map(|_| machine.process()).collect();
        for (index, process) in processes.iter_mut().enumerate() {
            // Allocates and frees without a pause until it is killed somewhere in between.
            assert_eq!(process.tell("context"), "ok");
            process.say(&format!("churn {index}"));
        }
        // At an instant of chance, whatever they have come to by then.
        std::thread::sleep(Duration::from_millis(3 + round * 7));
        processes.into_iter().for_each(|process| process.kill());
        eventually("all is free", || machine.free_bytes(&witness) == 4096 * MIB);
    }
}

#[test]
fn null_mode_is_finite_and_needs_nobody() {
    let machine = Machine::new(&[("SIMGPU_MODE", "null"), ("SIMGPU_MEMORY", "1GiB")]);
    let client = machine.client();
    let context = client.create_context(0).unwrap();
    let block = client.allocate(0, 500 * MIB, Charge::Blocks).unwrap();
    assert!(matches!(client.allocate(0, 10 * MIB, Charge::Blocks), Err(ClientError::OutOfMemory)));
    assert!(client.map(&block).unwrap().is_none());
    client.release(block).unwrap();
    client.destroy_context(context).unwrap();
    assert_eq!(machine.free_bytes(&client), 1024 * MIB);
    assert!(!machine.runs());
}
