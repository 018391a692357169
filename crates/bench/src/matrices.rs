//! Programs that fill a card with matrices of which every byte is known (bench/clients/matrices.h).
//!
//! Promises: a block that has another sum than it should is an error of its own kind, which names the block; a program
//! that ran without the library of its side is an error too: it was not shown its limit, or has not loaded the peer's.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::client::{StageClient, number};
use super::running::Bench;
use super::side::Tenancy;

/// Sizes are multiples of this: four matrices of blocks of 2 MiB.
pub(super) const STEP_BYTES: u64 = 8 << 20;
/// Bytes of a program on the card beside its matrices and its context: sums, and the part that rounding adds.
pub(super) const BESIDE_BYTES: u64 = 8 << 20;

/// Between two looks at what programs say.
const LOOK: Duration = Duration::from_millis(1);
/// Between two words of progress.
pub(super) const WORD: Duration = Duration::from_secs(2);

/// Memory of a program that is not what it was left as.
#[derive(Debug)]
pub(super) struct WrongValue {
    blocks: u64,
    first: String,
}

impl fmt::Display for WrongValue {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "wrong value in {} block(s) of 2 MiB: {}", self.blocks, self.first)
    }
}

impl std::error::Error for WrongValue {}

/// A program that has its matrices, or is about to.
#[derive(Debug)]
pub(super) struct Matrices {
    client: StageClient,
    /// Size of the card that it must be shown; a peer need not show any.
    limit_bytes: Option<u64>,
    /// The library that it must have loaded.
    library: Option<OsString>,
    /// Free bytes of the card before the matrices were made, as the driver said.
    free_bytes: Option<u64>,
    is_ready: bool,
}

impl Matrices {
    /// Starts the client `program` in a tenant.
    pub(super) fn start(
        bench: &Bench,
        tenancy: &Tenancy,
        program: &str,
        arguments: &[String],
    ) -> Result<Self> {
        let mut command = tenancy.command(&bench.stage, &bench.client(program)?);
        command.args(arguments);
        let client = StageClient::start(command)?;
        let limit_bytes = tenancy.limit_bytes().filter(|_| tenancy.is_ours());
        let library = tenancy.library().map(OsString::from).filter(|_| !tenancy.is_ours());
        Ok(Self { client, limit_bytes, library, free_bytes: None, is_ready: false })
    }

    /// Whether it has filled its matrices, by what it has said until now.
    pub(super) fn is_ready(&mut self) -> Result<bool> {
        while !self.is_ready {
            let Some(said) = self.client.answer_by_now()? else { return Ok(false) };
            if said.get("ready").is_some() {
                self.is_ready = true;
                continue;
            }
            let bytes = |name| number(&said, name).map(|bytes| bytes as u64);
            let (total, free) = (bytes("total_bytes")?, bytes("free_bytes")?);
            if let Some(limit) = self.limit_bytes {
                ensure!(
                    total == limit,
                    "void: limited to {limit} bytes, the program was shown {total}: it ran without the library"
                );
            }
            if let Some(library) = &self.library {
                let maps = std::fs::read(format!("/proc/{}/maps", self.client.pid()))?;
                let is_there = maps.windows(library.len()).any(|at| at == library.as_bytes());
                ensure!(is_there, "void: the program has not loaded {}", library.display());
            }
            self.free_bytes = Some(free);
        }
        Ok(true)
    }

    /// Waits until it has filled its matrices; what was free of the card before.
    pub(super) fn await_ready(
        &mut self,
        bench: &Bench,
        what: &str,
        patience: Duration,
    ) -> Result<u64> {
        wait(bench, what, patience, || Ok(self.is_ready()?.then_some(())))?;
        self.free_bytes.context("the program said nothing of the card")
    }

    /// Tells it to go on.
    pub(super) fn go(&mut self) -> Result<()> {
        self.client.go()
    }

    /// Its next line, if there is one by now.
    pub(super) fn says(&mut self) -> Result<Option<Value>> {
        self.client.answer_by_now()
    }

    /// Tells it to go on and waits for its answer, which is judged.
    pub(super) fn ask(&mut self, bench: &Bench, what: &str, patience: Duration) -> Result<Value> {
        self.go()?;
        let answer = wait(bench, what, patience, || self.says())?;
        judge(&answer)?;
        Ok(answer)
    }

    /// Lets it end, with its memory.
    pub(super) fn finish(self) {
        self.client.finish();
    }
}

/// Whether every block was what it should have been.
///
/// # Errors
/// [`WrongValue`] where one was not.
pub(super) fn judge(answer: &Value) -> Result<()> {
    let blocks = number(answer, "wrong")? as u64;
    if blocks == 0 {
        return Ok(());
    }
    let first = answer.get("first").and_then(Value::as_str).unwrap_or_default().to_owned();
    Err(WrongValue { blocks, first }.into())
}

/// Waits for something, and says so where it takes long.
pub(super) fn wait<T>(
    bench: &Bench,
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begun = Instant::now();
    let mut next_word = WORD;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        let spent = begun.elapsed();
        if spent >= patience {
            bail!("no answer within {} s", patience.as_secs());
        }
        if spent >= next_word {
            next_word = spent + WORD;
            bench.say(&format!("{what}: {:.0} s", spent.as_secs_f64()));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_block_is_an_error_of_its_own_kind() {
        let answer = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        judge(&answer(r#"{"wrong":0,"first":""}"#)).unwrap();
        let error = judge(&answer(r#"{"wrong":2,"first":"block 3 of x"}"#)).unwrap_err();
        assert!(error.downcast_ref::<WrongValue>().is_some());
        assert!(error.to_string().contains("2 block(s)") && error.to_string().contains("3 of x"));
        assert!(judge(&answer("{}")).unwrap_err().downcast_ref::<WrongValue>().is_none());
    }
}
